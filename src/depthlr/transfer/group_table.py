"""Parameter groups as a table of patterns: the form in which configuration files of other trainers take them."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from torch import nn
from torch.optim import Optimizer

from depthlr.errors import DepthlrError
from depthlr.trace.run import clean_path
from depthlr.transfer.groups import param_groups

TABLE_FORMATS = ("json", "yaml", "torchtitan")


@dataclass(frozen=True)
class GroupRow:
    """One pattern, and what its parameters have. The first pattern that matches a name counts."""

    pattern: str  # a regular expression of whole parameter names
    lr_mult: float  # over the largest rate
    wd_mult: float  # over the largest weight decay
    optimizer: str = ""  # where several step together: Muon or AdamW


def group_multipliers(model: nn.Module, groups: Any = None) -> list[GroupRow]:
    """The parameter groups of a model as patterns of names with multipliers; the last row matches every name.

    Args:
        model: Its parameters are named as in `named_parameters`, without the names of wrappers. A tied parameter is
            matched by each of its names.
        groups: What `param_groups` returns, an optimizer, or several. If None: `param_groups`, where weights decay and
            the rest does not.
    """
    held = list(_held(param_groups(model, 1.0, weight_decay=1.0) if groups is None else groups))
    top_rate = max(float(group["lr"]) for group in held)
    top_decay = max(float(group.get("weight_decay", 0.0)) for group in held)
    rows: dict[int, tuple[float, float, str]] = {}
    for group in held:
        decay = float(group.get("weight_decay", 0.0)) / top_decay if top_decay else 1.0
        optimizer = {True: "Muon", False: "AdamW"}[group["use_muon"]] if "use_muon" in group else ""
        for parameter in group["params"]:
            rows[id(parameter)] = (float(group["lr"]) / top_rate, decay, optimizer)
    named = {
        clean_path(name): rows[id(parameter)]
        for name, parameter in model.named_parameters(remove_duplicate=False)
        if id(parameter) in rows
    }
    if not named:
        raise DepthlrError("the groups hold none of the model's parameters: make them from this model.")
    return _table(named)


def _held(groups: Any) -> Iterable[Mapping[str, Any]]:
    for one in [groups] if isinstance(groups, Optimizer | Mapping) else groups:
        yield from one.param_groups if isinstance(one, Optimizer) else [one]


def _table(named: Mapping[str, tuple[float, float, str]]) -> list[GroupRow]:
    """Patterns of the names that do not have the most common values, then one for all others."""
    ((usual, _),) = Counter(named.values()).most_common(1)
    alike: dict[str, dict[str, tuple[float, float, str]]] = {}
    for name, values in named.items():
        alike.setdefault(_pattern(name), {})[name] = values
    rows: list[GroupRow] = []
    for pattern, members in alike.items():
        if len(set(members.values())) == 1:
            (values, *_) = members.values()
            rows += [] if values == usual else [GroupRow(pattern, *values)]
        else:  # a list of unlike layers, such as an nn.Sequential: each by its own name
            rows += [GroupRow(f"^{re.escape(n)}$", *values) for n, values in members.items() if values != usual]
    return [*rows, GroupRow(".*", *usual)]


def _pattern(name: str) -> str:
    """A name in which every place of a list may be any place."""
    parts = [r"\d+" if part.isdigit() else re.escape(part) for part in name.split(".")]
    return "^" + r"\.".join(parts) + "$"


def table_text(rows: Sequence[GroupRow], format: str, rate: float = 1.0, weight_decay: float = 0.0) -> str:
    """The table as text: JSON, YAML, or the `param_groups` of a torchtitan configuration.

    Args:
        rows: What `group_multipliers` returns.
        format: "json", "yaml" or "torchtitan".
        rate: The rate that `lr_mult` multiplies; torchtitan takes absolute rates.
        weight_decay: The weight decay that `wd_mult` multiplies.
    """
    if format not in TABLE_FORMATS:
        raise DepthlrError(f"There is no format {format!r}: choose one of {', '.join(TABLE_FORMATS)}.")
    if format == "torchtitan":
        lines = [
            f"    ParamGroupConfig(pattern=r{json.dumps(row.pattern).replace(chr(92) * 2, chr(92))}, "
            f"optimizer_name={json.dumps(row.optimizer or 'AdamW')}, "
            f"optimizer_kwargs={{'lr': {rate * row.lr_mult!r}, 'weight_decay': {weight_decay * row.wd_mult!r}}}),"
            for row in rows
        ]
        return "\n".join(["param_groups=[", *lines, "]"])
    entries = [{name: value for name, value in asdict(row).items() if value != ""} for row in rows]
    if format == "json":
        return json.dumps(entries, indent=2)
    # A JSON string or number is a YAML one too.
    return "\n".join(
        ("- " if place == 0 else "  ") + f"{name}: {json.dumps(value)}"
        for entry in entries
        for place, (name, value) in enumerate(entry.items())
    )
