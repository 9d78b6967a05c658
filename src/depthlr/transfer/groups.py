"""Parameter groups with absolute rates for any torch optimizer, and the same as a table of patterns of names."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from torch import nn
from torch.optim import Optimizer

from depthlr import check
from depthlr.energy.step import step_rate
from depthlr.errors import DepthlrError
from depthlr.optimizers import outer_parameters
from depthlr.trace.interface import check_runnable, clean_path, unwrap

MOST_NAMED = 5  # parameters in a message
MAGNITUDES = ("weight_g", "original0")  # as weight norm calls a weight's length, old and new
# Words in the names of parameters that modules hold themselves: positions, class tokens, tables of biases.
TOKEN_WORDS = {
    *("pos", "position", "positional", "positions", "token", "tokens"),
    *("embed", "embedding", "embeddings", "bias", "biases", "table"),
}
TABLE_FORMATS = ("json", "yaml", "torchtitan")


def param_groups(
    model: nn.Module,
    rate: float,
    *,
    weight_decay: float = 0.0,
    tuned_rate: float | None = None,
    muon: bool = False,
    other_rate: float | None = None,
) -> list[dict[str, Any]]:
    """Groups of trainable parameters with absolute `lr`: weights, which decay, and the rest, which does not.

    All groups get one rate, because the law scales no layer differently. The rest are biases, norms, embeddings (with
    a head that is tied to them) and positions. Groups are plain data, so schedulers and checkpoints keep them.

    Args:
        model: The model that is trained. A tied parameter comes once, a frozen one not at all.
        rate: The rate of every group: a number, or what `transfer_rate` and `suggest_rate` return.
        weight_decay: Of weights. It stays what it is, unless `tuned_rate` is given.
        tuned_rate: The rate with which `weight_decay` was tuned on the smaller model, Muon's if `muon`. The decay is
            then multiplied by `tuned_rate / rate`, so that the product rate * weight_decay stays the same. A decoupled
            optimizer (AdamW, SGD, Lion, Muon) shrinks weights by this product in each step, so
            1 / (rate * weight_decay) is the number of steps over which weights are averaged. Leave it out for Adam,
            whose decay is part of the gradient.
        muon: Put 2-D weights first, marked `use_muon`, at `rate`. All others are for AdamW, at `other_rate`: also
            embeddings and the head, which is the last linear layer that the model defines.
        other_rate: The rate of what Muon does not take. Carry it by the same factor as `rate`: their ratio is kept,
            and how the best ratio changes with depth was not tested.
    """
    check_runnable(unwrap(model))
    if any(type(module).__name__ == "FullyShardedDataParallel" for module in model.modules()):
        raise DepthlrError("FSDP1 flattens weights, so they cannot be told from biases: use fully_shard (FSDP2).")
    main = check.positive("The rate", rate)
    decay = check.finite("The weight decay", weight_decay, least=0)
    if tuned_rate is not None:
        decay *= check.positive("The tuned rate", tuned_rate) / main
    if muon and other_rate is None:
        raise DepthlrError("muon=True needs other_rate=, the rate of what Muon does not take and AdamW does.")
    if not muon and other_rate is not None:
        raise DepthlrError("other_rate= is for muon=True: without it one rate serves every parameter.")
    other = main if other_rate is None else check.positive("The other rate", other_rate)

    trainable = [p for p in model.parameters() if p.requires_grad]  # a tied parameter comes once
    if not trainable:
        raise DepthlrError("every parameter is frozen, so there is nothing to give a rate to.")
    exempt = _exempt(model)
    weights = [p for p in trainable if id(p) not in exempt]
    rest = [p for p in trainable if id(p) in exempt]
    if not muon:
        return _without_empty(_group(weights, main, decay), _group(rest, main, 0.0))
    outer = outer_parameters(model)
    matrices = [p for p in weights if p.dim() == 2 and id(p) not in outer]
    others = [p for p in weights if p.dim() != 2 or id(p) in outer]
    return _without_empty(
        {**_group(matrices, main, decay), "use_muon": True},
        {**_group(others, other, decay), "use_muon": False},
        {**_group(rest, other, 0.0), "use_muon": False},
    )


def _group(parameters: list[nn.Parameter], rate: float, decay: float) -> dict[str, Any]:
    return {"params": parameters, "lr": rate, "weight_decay": decay}


def _without_empty(*groups: dict[str, Any]) -> list[dict[str, Any]]:
    return [group for group in groups if group["params"]]


def _exempt(model: nn.Module) -> set[int]:
    """Parameters that do not decay, by id; one that several modules share is exempt if it is so in any of them."""
    found = set()
    for module in model.modules():
        kind = type(module).__name__
        whole = "Norm" in kind or "Embedding" in kind  # by name, so that a library's own norms count too
        for name, parameter in module.named_parameters(recurse=False):
            magnitude = name in MAGNITUDES and max(parameter.shape, default=1) == parameter.numel()
            if whole or magnitude or parameter.dim() <= 1 or TOKEN_WORDS.intersection(name.lower().split("_")):
                found.add(id(parameter))
    return found


@dataclass(frozen=True)
class GroupRow:
    """One pattern, and what its parameters have. The first pattern that matches a name counts."""

    pattern: str  # a regular expression of whole parameter names
    lr_mult: float  # over the largest rate
    wd_mult: float  # over the largest weight decay
    optimizer: str = ""  # the class of the optimizer; empty for groups that no optimizer holds yet


def group_multipliers(model: nn.Module, groups: Any = None) -> list[GroupRow]:
    """The parameter groups of a model as patterns of names with multipliers; the last row matches every name.

    Multipliers have twelve digits. A rate that a scheduler changed counts as it was before (`initial_lr`).

    Args:
        model: Its parameters are named as in `named_parameters`, without the names of wrappers. A tied parameter comes
            once, by its first name.
        groups: What `param_groups` returns, an optimizer, or several that hold every trainable parameter together. If
            None: `param_groups`, where weights decay and the rest does not.
    """
    held = list(_all_groups(param_groups(model, 1.0, weight_decay=1.0) if groups is None else groups))
    rates = [step_rate(group) for group, _ in held]
    decays = [float(group.get("weight_decay", 0.0)) for group, _ in held]
    top_rate, top_decay = max(rates), max(decays)
    if top_rate == 0:
        raise DepthlrError("the rate of every group is 0: make the groups with the rates that you train at.")
    rows: dict[int, tuple[float, float, str]] = {}
    for (group, optimizer), rate, decay in zip(held, rates, decays, strict=True):
        row = (_rounded(rate / top_rate), _rounded(decay / top_decay) if top_decay else 1.0, optimizer)
        rows.update((id(parameter), row) for parameter in group["params"])
    parameters = {clean_path(name): parameter for name, parameter in model.named_parameters()}
    named = {name: rows[id(parameter)] for name, parameter in parameters.items() if id(parameter) in rows}
    if not named:
        raise DepthlrError("the groups hold none of the model's parameters: make them from this model.")
    if missing := [name for name, parameter in parameters.items() if parameter.requires_grad and name not in named]:
        more = f" and {len(missing) - MOST_NAMED} more" if len(missing) > MOST_NAMED else ""
        raise DepthlrError(
            f"no group holds {', '.join(missing[:MOST_NAMED])}{more}: give every optimizer of the model, such as "
            "[muon, adamw], or freeze what is not trained."
        )
    return _table(named)


def _all_groups(groups: Any) -> Iterable[tuple[Mapping[str, Any], str]]:
    """Every group, with the name of the optimizer that steps it."""
    for one in [groups] if isinstance(groups, Optimizer | Mapping) else groups:
        if isinstance(one, Optimizer):
            yield from ((group, _optimizer_name(group, type(one).__name__)) for group in one.param_groups)
        else:
            yield one, _optimizer_name(one, "")


def _optimizer_name(group: Mapping[str, Any], default: str) -> str:
    """Optimizers that hold both kinds of groups mark those of Muon."""
    if "use_muon" not in group:
        return default
    return "Muon" if group["use_muon"] else "AdamW"


def _rounded(number: float) -> float:
    """Twelve digits: a quotient of decimals is often off in the sixteenth."""
    return float(f"{number:.12g}")


def _table(named: Mapping[str, tuple[float, float, str]]) -> list[GroupRow]:
    """Patterns of the names that do not have the most common values, then one for all others."""
    ((usual, _),) = Counter(named.values()).most_common(1)
    by_pattern: dict[str, dict[str, tuple[float, float, str]]] = {}
    for name, values in named.items():
        by_pattern.setdefault(_pattern(name), {})[name] = values
    rows: list[GroupRow] = []
    for pattern, members in by_pattern.items():
        if len(set(members.values())) == 1:
            (values, *_) = members.values()
            rows += [] if values == usual else [GroupRow(pattern, *values)]
        else:  # a list of unlike layers, such as an nn.Sequential: each by its own name
            rows += [GroupRow(f"^{re.escape(n)}$", *values) for n, values in members.items() if values != usual]
    return [*rows, GroupRow(".*", *usual)]


def _pattern(name: str) -> str:
    """A name in which every place of a list may be any place."""
    pattern = []
    for part in name.split("."):
        pattern.append(r"\d+" if part.isdigit() else re.escape(part))
    return "^" + r"\.".join(pattern) + "$"


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
            f"optimizer_kwargs={{'lr': {_rounded(rate * row.lr_mult)!r}, "
            f"'weight_decay': {_rounded(weight_decay * row.wd_mult)!r}}}),"
            for row in rows
        ]
        return "\n".join(["param_groups=[", *lines, "]"])
    entries = [asdict(row) for row in rows]
    for entry in entries:
        if not entry["optimizer"]:
            del entry["optimizer"]
    if format == "json":
        return json.dumps(entries, indent=2)
    # A JSON string or number is a YAML one too.
    lines = []
    for entry in entries:
        fields = [f"{name}: {json.dumps(value)}" for name, value in entry.items()]
        lines.append("- " + "\n  ".join(fields))
    return "\n".join(lines)
