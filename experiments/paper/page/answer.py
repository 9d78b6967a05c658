"""The answer in short, every sweep's slope beside the paper's, and what the verdicts depend on."""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from dataclasses import replace
from statistics import fmean, median

from depthlr.formatting import MINUS, signed
from depthlr.law.fit import Fit
from depthlr.law.rules import LAW_EXPONENT
from depthlr.models.spec import parse_spec
from depthlr.models.zoo import ZOO
from depthlr.study.adaptive import APART
from depthlr.study.results import Results
from experiments.pages import markdown_table
from experiments.paper import recipes
from experiments.paper.page.kept import Kept, Sweep, fit_of
from experiments.paper.page.words import (
    HOLDS,
    NOT_YET,
    NOTHING,
    SHALLOWER,
    STEEPER,
    UNDECIDED,
    against,
    exact,
    r2,
    slope,
)
from experiments.paper.page.zero_shot_tables import headline
from experiments.paper.settings import Recipe, Setting

OPTIMIZERS = {"sgd": "SGD", "adam": "Adam", "adamw": "AdamW"}
DEEPER = 4  # times as deep, to say what a slope means
VERDICTS = {
    HOLDS: "contains it",
    UNDECIDED: "undecided: contains it, but is wider than a whole power",
    SHALLOWER: "shallower: the rate falls more slowly",
    STEEPER: "steeper: the rate falls faster",
}
TWICE = (recipes.IMAGENET_VIT_PATCH_8, recipes.CNN_GELU)  # settings of which the paper prints one slope and we have two
ABLATED = (-1.8, -1.1)  # "All tested configurations yield exponents within the range"
UNSURE = "not told apart"
CHANGES = (  # a recipe, a setting, the one that departs from it, and the paper's sentence in short
    (recipes.ABLATION, recipes.CIFAR10_CNN, recipes.CNN_GELU_HE, "minimal impact"),
    (recipes.ABLATION, recipes.CIFAR10_CNN, recipes.CNN_GELU, "minimal impact"),
    (recipes.ABLATION, recipes.CIFAR10_CNN, recipes.CNN_ADAM, "10 to 12 % shallower"),
    (recipes.ABLATION, recipes.CIFAR10_RESNET, recipes.RESNET_ADAM, "10 to 12 % shallower"),
    (recipes.ABLATION, recipes.CIFAR10_RESNET, recipes.RESNET_BATCH_NORM, "steeper"),
    (recipes.ABLATION, recipes.CIFAR10_RESNET, recipes.RESNET_DROPOUT, "steeper"),
    (recipes.ABLATION, recipes.IMAGENET_VIT, recipes.IMAGENET_VIT_PRE_LN, "minimal effect"),
    (recipes.VARIANTS, recipes.CIFAR10_VIT, recipes.BEIT, "all near the law"),
    (recipes.VARIANTS, recipes.CIFAR10_VIT, recipes.CCT, "all near the law"),
    (recipes.PADDING, recipes.CIFAR10_CNN, recipes.CNN_ZEROS, "a factor only"),
    (recipes.KERNEL, recipes.CIFAR10_CNN, recipes.CNN_KERNEL_4, "a factor only"),
    (recipes.KERNEL, recipes.CIFAR10_CNN, recipes.CNN_KERNEL_5, "a factor only"),
)
PAPERS_POOLING = 0.0  # one over each depth's own variance


def answer(kept: Kept) -> str:
    """In short: how far it is, slopes by kind of model, the counts of verdicts, the zero-shot test."""
    done = finished(kept)
    if not done:
        return f"None of the {len(_settings())} settings has been measured in full yet."
    parts = [
        f"**Slopes by kind of model.** {len(done)} of {len(_settings())} settings have a finished sweep: "
        f"{sum(sweep.protocol == 'paper' for sweep in done)} under `paper`, the others under `short`. A row mixes both "
        "protocols, and may hold one model at several epochs or patch sizes. Read rows as ranges. *Too large* and *too "
        "small* follow from the median slope.",
        families(kept),
        headline(kept),
        f"**Verdicts**, one per setting:\n\n{verdicts(done)}",
        averages(kept),
        "**One change at a time.** Both sides have the same protocol. The number after ± is half the 95 % interval."
        f"\n\n{found}"
        if (found := changes(kept))
        else "",
    ]
    return "\n\n".join(part for part in parts if part)


def every_setting(kept: Kept) -> str:
    """A row a setting."""
    head = (
        "setting",
        "paper",
        "ours, over the paper’s depth",
        "R²",
        "ours, over total depth",
        "protocol",
        "against the paper",
        "against −3/2, over total depth",
    )
    return markdown_table(head, [_setting_row(setting, kept.sweeps.get(setting.name)) for setting in _settings()])


def finished(kept: Kept) -> list[Sweep]:
    """What counts."""
    return [sweep for sweep in kept.sweeps.values() if sweep.counts]


def _settings() -> list[Setting]:
    return list({setting.name: setting for recipe in recipes.RECIPES.values() for setting in recipe.slopes}.values())


def _setting_row(setting: Setting, sweep: Sweep | None) -> list[str]:
    printed = setting.printed[0] if setting.printed else None
    stated = NOTHING if printed is None else _stated(setting)
    if sweep is None:
        return [setting.title, stated, NOT_YET, *[NOTHING] * 5]
    own, total = sweep.fit(setting.label), sweep.fit("depth")
    over = setting.vary if setting.label == "size" else "total depth"
    protocol = sweep.protocol + ("" if sweep.facts["complete"] else ", unfinished")
    return [
        setting.title,
        stated,
        f"{slope(own)} over {over}" if own else "too few optima inside the grid",
        r2(own),
        slope(total) if setting.label == "size" else "the same",
        protocol,
        NOTHING if printed is None or not sweep.counts else against(own, printed.slope),
        against(total, LAW_EXPONENT) if sweep.counts else NOTHING,
    ]


def _stated(setting: Setting) -> str:
    """The slope of its table, and where the paper prints others of the same setting."""
    first, *rest = setting.printed
    others = dict.fromkeys(str(one) for one in rest if round(first.slope, one.digits) != one.slope)
    return f"{first} (elsewhere {', '.join(others)})" if others else str(first)


def families(kept: Kept) -> str:
    """A row a kind of model with a finished sweep, most settings first; empty where there is none."""
    found: dict[str, list[Sweep]] = {}
    for sweep in kept.sweeps.values():
        if sweep.counts and sweep.fit("depth") is not None:
            found.setdefault(family(sweep.setting), []).append(sweep)
    rows = [_kind_row(name, found[name]) for name in sorted(found, key=lambda name: -len(found[name]))]
    head = (
        "models",
        "settings",
        "slope over total depth, median",
        "all of them",
        "95 % interval contains −3/2",
        f"copied to {DEEPER}x the depth, the rate is",
        "carried by the law, it is",
    )
    return markdown_table(head, rows) if rows else ""


def family(setting: Setting) -> str:
    """What the derivation tells apart: plain or residual, where the normalization stands, activation, optimizer."""
    spec = parse_spec(setting.spec)
    arguments = ZOO[spec.name].defaults | dict(spec.arguments)
    if "heads" in arguments:
        kind = f"transformers, {arguments['norm']}-LN"
    else:
        kind = "ResNets" if spec.name == "resnet" else "CNNs"
        kind += " + BatchNorm" if arguments.get("batch_norm") else ""
        kind += f" + {arguments['activation'].upper()}" if arguments["activation"] != "relu" else ""
    return f"{kind}, {OPTIMIZERS[setting.optimizer]}"


def _kind_row(name: str, sweeps: list[Sweep]) -> list[str]:
    fits = [fit for sweep in sweeps if (fit := sweep.fit("depth"))]
    slopes = sorted(fit.slope for fit in fits)
    middle = median(slopes)
    found = [against(fit, LAW_EXPONENT) for fit in fits]
    wide = found.count(UNDECIDED)
    return [
        name,
        str(len(slopes)),
        f"**{signed(middle)}**",
        f"{signed(slopes[0])} to {signed(slopes[-1])}" if len(slopes) > 1 else NOTHING,
        f"{found.count(HOLDS) + wide} of {len(slopes)}" + (f", {wide} wider than a power" if wide else ""),
        off(DEEPER**-middle),
        off(DEEPER ** (LAW_EXPONENT - middle)),
    ]


def off(ratio: float) -> str:
    """A rate over the tuned one, in words."""
    return f"{ratio:.2g}x too large" if ratio >= 1 else f"{1 / ratio:.2g}x too small"


def verdicts(sweeps: Sequence[Sweep]) -> str:
    """A row a verdict; of finished sweeps."""
    by_protocol = {
        protocol: [
            against(s.fit(s.setting.label), s.setting.printed[0].slope)
            for s in sweeps
            if s.setting.printed and s.protocol == protocol
        ]
        for protocol in ("paper", "short")
    }
    own = [against(s.fit(s.setting.label), LAW_EXPONENT) for s in sweeps]
    total = [against(s.fit("depth"), LAW_EXPONENT) for s in sweeps]
    head = (
        "our 95 % interval",
        "of the slope the paper prints, `paper`",
        "the same, `short`",
        "of −3/2, over the paper’s depth",
        "of −3/2, over total depth",
    )
    columns = (*by_protocol.values(), own, total)
    return markdown_table(
        head, [[text, *(str(found.count(word)) for found in columns)] for word, text in VERDICTS.items()]
    )


def averages(kept: Kept) -> str:
    """A row a table of the paper, or nothing where a sweep is missing. Slopes are over the paper's depth."""
    main, ablation = _sweeps(recipes.MAIN, kept, "paper", "short"), _sweeps(recipes.ABLATION, kept, "short")
    if not main or not ablation:
        return ""
    inside = sum(ABLATED[0] <= slope <= ABLATED[1] for slope in _slopes(ablation))
    rows = [
        ["main", _summary(_printed(main)), _summary(_slopes(main)), "`paper`, or `short` where it has no other"],
        ["ablation", _summary(_printed(ablation)), _summary(_slopes(ablation)), "`short`"],
    ]
    return (
        "**On average**, over the paper’s depth, with the range of the slopes:\n\n"
        f"{markdown_table(('table', 'the paper’s slopes', 'ours', 'protocol'), rows)}\n\n"
        f"The paper says that all its ablations lie within {exact(ABLATED[0], 1)} to {exact(ABLATED[1], 1)}. Of ours, "
        f"{inside} of {len(ablation)} do. These rows take GELU with He variance and the ViT with patch 16."
    )


def _sweeps(recipe: Recipe, kept: Kept, *protocols: str) -> list[Sweep]:
    """One a setting, under the first of these protocols that is finished; none at all where a setting has none."""
    settings = [s for s in recipe.slopes if s not in TWICE]
    finished = {(one.setting.name, one.protocol): one for s in settings for one in kept.protocols(s) if one.counts}
    found = [[finished[s.name, p] for p in protocols if (s.name, p) in finished] for s in settings]
    return [first for first, *_ in found] if all(found) else []


def _slopes(sweeps: Sequence[Sweep]) -> list[float]:
    return [fit.slope for sweep in sweeps if (fit := sweep.fit(sweep.setting.label))]


def _printed(sweeps: Sequence[Sweep]) -> list[float]:
    return [sweep.setting.printed[0].slope for sweep in sweeps]


def _summary(slopes: Sequence[float]) -> str:
    return f"{signed(fmean(slopes))} ({signed(min(slopes))} to {signed(max(slopes))})"


def changes(kept: Kept) -> str:
    """A row a change of which both sides are finished under one protocol; empty where there is none."""
    rows = [row for change in CHANGES if (row := _change_row(*change, kept))]
    head = ("change", "the paper says", "its slopes", "ours, over the paper’s depth", "difference", "protocol", "so")
    return markdown_table(head, rows) if rows else ""


def difference(base: Fit, changed: Fit) -> tuple[float, float]:
    """Of two slopes, with the half width of its interval: errors of separate sweeps add in squares."""
    half = [(fit.interval[1] - fit.interval[0]) / 2 for fit in (base, changed)]
    return changed.slope - base.slope, math.hypot(*half)


def told(apart: float, half: float) -> str:
    """Which way the slope went, if its interval says so."""
    if abs(apart) <= half:
        return UNSURE
    return STEEPER if apart < 0 else SHALLOWER


def _change_row(recipe: Recipe, base: Setting, changed: Setting, said: str, kept: Kept) -> list[str] | None:
    beside = {sweep.protocol: sweep for sweep in kept.protocols(base) if sweep.counts}
    pairs = [(beside[s.protocol], s) for s in kept.protocols(changed) if s.counts and s.protocol in beside]
    for before, after in pairs[:1]:
        first, second = before.fit(base.label), after.fit(changed.label)
        if first is not None and second is not None:
            apart, half = difference(first, second)
            return [
                f"{base.title} → {changed.title}",
                said,
                f"{recipe.printed(base)} → {recipe.printed(changed)}",
                f"{signed(first.slope)} → {signed(second.slope)}",
                f"{apart:+.2f} ± {half:.2f}".replace("-", MINUS),
                after.protocol,
                told(apart, half),
            ]
    return None


def sensitivity(sweeps: Sequence[Sweep]) -> str:
    """A row a finished sweep whose verdict on the law, over total depth, is another one in some column."""
    rows = []
    for sweep in sweeps:
        fits = [sweep.fit("depth"), fit_of(sweep.learnt, "depth", pooling=PAPERS_POOLING)]
        cells = [_cell(fit) for fit in fits]
        for sizes, results in ((sweep.unlearnt, sweep.results), (apart(sweep), _without(sweep.learnt, apart(sweep)))):
            fits += [fit_of(results, "depth")] if sizes else []
            cells.append(f"{_cell(fits[-1])}: {', '.join(map(str, sizes))}" if sizes else NOTHING)
        if len({against(fit, LAW_EXPONENT) for fit in fits}) > 1:
            rows.append([sweep.setting.title, *cells])
    if not rows:
        return ""
    head = (
        "setting",
        "as above",
        "with the paper’s own weights",
        "with the sizes that hardly do better than guessing",
        f"without sizes whose seeds lie {APART:g} decades apart",
    )
    same = len(sweeps) - len(rows)
    return f"{same} of {len(sweeps)} verdicts stay as they are. The others:\n\n{markdown_table(head, rows)}"


def apart(sweep: Sweep) -> tuple[int, ...]:
    """Sizes that learn, but whose seeds disagree on where the optimum is."""
    found: dict[int, list[float]] = {}
    for curve in sweep.learnt.curves:
        if curve.optimum is not None:
            found.setdefault(curve.size, []).append(math.log10(curve.optimum.rate))
    return tuple(size for size, logs in sorted(found.items()) if max(logs) - min(logs) > APART)


def _without(results: Results, sizes: Collection[int]) -> Results:
    return replace(results, records=tuple(record for record in results.records if record.cell.size not in sizes))


def _cell(fit: Fit | None) -> str:
    return f"{slope(fit)}, {against(fit, LAW_EXPONENT)}"
