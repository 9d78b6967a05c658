"""python -m experiments.transferbench oracles | measures | table"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Annotated, cast, get_args

import typer

from depthlr.data.sources import data_folder
from depthlr.errors import DepthlrError
from experiments.pages import put
from experiments.running import Deadline, known_name, precision_or_default, run_command
from experiments.transferbench.answer import answer, draw, parts
from experiments.transferbench.measuring import measure_task
from experiments.transferbench.rules import CANDIDATES, CHOSEN, RULES
from experiments.transferbench.sweeping import sweep_task
from experiments.transferbench.table import comparison, finished, unfinished
from experiments.transferbench.tasks import TASKS, Split, Task

app = typer.Typer(
    help="How well a rule carries a learning rate across depth.", no_args_is_help=True, add_completion=False
)
RESULTS = Path("results/transferbench")
SPLITS = get_args(Split)
DESIGN: tuple[Split, ...] = ("dev", "first")  # the splits on which rules are designed
Only = Annotated[list[str] | None, typer.Option(help="only this task (repeat) [all of the split]")]
OneSplit = Annotated[str, typer.Option(help="dev, first, test or peers")]
DataFolder = Annotated[Path | None, typer.Option("--data", help="the folder that holds the data sets")]
Out = Annotated[Path, typer.Option(help="where tables go")]
Seconds = Annotated[float | None, typer.Option(help="stop after so long; run again to resume")]


@app.command()
def oracles(
    only: Only = None,
    split: OneSplit = "dev",
    data: DataFolder = None,
    out: Out = RESULTS,
    work: Annotated[Path, typer.Option(help="where unfinished sweeps are kept")] = Path("out/transferbench"),
    seconds: Seconds = None,
    precision: Annotated[str | None, typer.Option(help="fp32, tf32 or bf16 [bf16 on a GPU, else fp32]")] = None,
) -> None:
    """Sweep tasks for their tuned rates. Prints the progress, and no results."""
    used = precision_or_default(precision)
    until, folder = Deadline.after(seconds), data or data_folder()
    _run(chosen(TASKS, only, split), lambda t: sweep_task(t, used, data=folder, work=work, out=out, until=until))


@app.command()
def measures(
    only: Only = None, split: OneSplit = "dev", data: DataFolder = None, out: Out = RESULTS, seconds: Seconds = None
) -> None:
    """Measure what the rules need, and run the two range tests."""
    until, folder = Deadline.after(seconds), data or data_folder()
    _run(chosen(TASKS, only, split), lambda task: measure_task(task, data=folder, out=out, until=until))


@app.command()
def table(
    split: OneSplit = "dev",
    results: Annotated[Path, typer.Option(help="the tables to read")] = RESULTS,
    page: Annotated[Path, typer.Option(help="the page whose table is replaced")] = Path("docs/transferbench.md"),
    final: Annotated[bool, typer.Option("--final", help="show the test tasks, which are evaluated once")] = False,
    candidates: Annotated[bool, typer.Option("--candidates", help="also the rules on trial, printed only")] = False,
    rule: Annotated[str | None, typer.Option(help="compare with this rule [the chosen one]")] = None,
    plot: Annotated[Path | None, typer.Option(help="a PNG to draw it in")] = None,
) -> None:
    """Print the comparison, and write it into the page."""
    name = cast(Split, known_name("split", split, SPLITS))
    if name == "peers":
        raise DepthlrError("The twins of peers are in the tables of dev, first and test: choose one of those.")
    if name == "test" and not final:
        raise DepthlrError("The test tasks are evaluated once, when the rule is chosen: confirm it with --final.")
    if name == "test" and (candidates or rule):
        raise DepthlrError("The test tasks evaluate only the chosen rule: leave out --candidates and --rule.")
    if name == "test" and (lacking := unfinished(TASKS, name, results)):
        raise DepthlrError(f"The test tasks are evaluated once, when all are complete: {', '.join(lacking)} missing.")
    rules = RULES | CANDIDATES if candidates or rule in CANDIDATES else RULES
    ours = known_name("rule", rule or CHOSEN, rules)
    if not candidates:
        rules = {key: one for key, one in rules.items() if key in RULES or key == ours}
    text = comparison(TASKS, name, rules, ours, results)
    print(text, end="")
    if not candidates and rule is None:
        put(page, name, text)
        if name == "test":
            known = finished(TASKS, name, results)
            put(page, "answer", answer(known))
            put(page, "parts", parts(known, [one for split in DESIGN for one in finished(TASKS, split, results)]))
    if plot is not None:
        draw(finished(TASKS, name, results), RULES, plot)


def chosen(tasks: Sequence[Task], only: Sequence[str] | None, split: str) -> list[Task]:
    """The named tasks, or all of the split."""
    named = {task.name: task for task in tasks}
    if only:
        return [named[known_name("task", name, named)] for name in only]
    return [task for task in tasks if task.split == known_name("split", split, SPLITS)]


def _run(tasks: Sequence[Task], run: Callable[[Task], bool]) -> None:
    for task in tasks:
        finished = run(task)
        print(f"{task.name}: {'finished' if finished else 'the time is spent; run the same again'}", flush=True)
        if not finished:
            break


if __name__ == "__main__":
    run_command(app)
