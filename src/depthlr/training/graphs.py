"""Cells on a GPU: each lane replays a captured training step, several lanes at once on streams of their own.

A lane costs memory and gains speed only while kernels leave the GPU idle, so lanes are added until another one no
longer pays, or no longer fits.
"""

from __future__ import annotations

import time
import warnings
from collections import deque
from collections.abc import Callable, Generator, Iterable
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from depthlr.data.examples import is_on_host
from depthlr.errors import DepthlrError, kind_and_message
from depthlr.training.capturable import CapturableRun, Start, draw_start
from depthlr.training.cell import BLOW_UP, DIVERGENCE_CHECKS, Cell, Evaluation, Outcome, failed_outcome, has_diverged
from depthlr.training.device import explain_full_memory, matmul_precision
from depthlr.training.executor import Executor, Finished
from depthlr.training.task import Task

MOST_LANES = 16
WARM_UP, TIMED = 2, 8  # steps of every lane, or all it has, to see whether another one pays
DEVICE_ERROR: Any = getattr(torch, "AcceleratorError", ())  # of CUDA itself, in PyTorch 2.8 and newer
PAYS = 0.97  # another doubling of lanes must take at most this share of the time per step and cell
WAYS = ("captured", "compiled", "eager")  # of taking a step, the fastest first; where one fails, the next is tried


@dataclass
class _Lane:
    run: CapturableRun
    step: Callable[[], None]  # one training step
    evaluate: Callable[[], None]  # one batch of held-out data
    stream: torch.cuda.Stream
    alive: Tensor  # pinned: had it not diverged at the last look
    draws: bool  # random numbers, at every step
    sums: dict[int, Tensor] = field(default_factory=dict)  # of the evaluation after so many steps, on the device
    cell: Cell | None = None  # that it trains
    failure: Outcome | None = None  # of that cell
    done: int = 0  # steps queued, or all of them once it has diverged
    ran: int = 0  # steps queued
    started: float = 0.0
    looked: torch.cuda.Event | None = None


class GraphRunner(Executor):
    """Trains cells of one task on one CUDA device: as many at once, up to `most`, as run best."""

    @explain_full_memory()
    def __init__(
        self, task: Task, device: torch.device | str = "cuda", *, most: int = MOST_LANES, timeout: float | None = None
    ) -> None:
        self._task, self._timeout = task, timeout
        self._device = torch.device(device)
        self._examples = task.examples.to(self._device)
        self._held_out = None if task.held_out is None else task.held_out.to(self._device)
        self._template = task.build()  # what lanes copy, and where initializations are drawn
        self._starts: dict[int, Start] = {}
        self._steps = task.training.run_steps
        self._look = max(1, self._steps // DIVERGENCE_CHECKS)
        self._evaluation_steps = task.training.evaluation_steps() if self._held_out is not None else ()
        self._ways = list(WAYS)
        # Compiled code of several families shares one cache entry a module class, and must not fall out of it.
        torch._dynamo.config.recompile_limit = max(256, torch._dynamo.config.recompile_limit)
        with matmul_precision(task.training.precision):
            self._lanes = [self._open_lane()]
            # Lanes share the random state, so a model that draws from it keeps to one: its numbers stay its own. Steps
            # that are not captured keep the host busy, so a second lane gains nothing. Every lane has its own loaders.
            alone = self.way != "captured" or self._lanes[0].draws or task.loaders > 0
            self._add_lanes(1 if alone else most)

    @property
    def capacity(self) -> int:  # type: ignore[override]
        """The number of lanes."""
        return len(self._lanes)

    @property
    def way(self) -> str:
        """How a step is taken: captured, compiled or eager."""
        return self._ways[0]

    def train_together(self, cells: Iterable[Cell]) -> Generator[Finished, None, None]:
        waiting = deque(cells)
        try:
            while waiting or any(lane.cell for lane in self._lanes):
                if finished := self._round(waiting):
                    yield finished
        finally:
            for lane in self._lanes:
                if lane.cell is not None:
                    lane.stream.synchronize()
                    lane.cell = None

    def _round(self, waiting: deque[Cell]) -> Finished:
        """One round over the lanes: each begins a cell if it has none, queues steps, and hands over what is done."""
        finished: Finished = []
        with torch.cuda.device(self._device):
            for lane in self._lanes:
                if lane.cell is None and waiting:
                    lane.cell, lane.failure = waiting.popleft(), None
                    lane.failure = self._try(lane, self._begin)
                if lane.cell is not None and lane.failure is None:
                    lane.failure = self._try(lane, self._advance)
            for lane in self._lanes:
                outcome = None if lane.cell is None else lane.failure or self._outcome(lane)
                if lane.cell is not None and outcome is not None:
                    finished.append((lane.cell, outcome))
                    lane.cell = None
        return finished

    def close(self) -> None:
        self._lanes.clear()
        self._starts.clear()
        torch.cuda.synchronize(self._device)
        torch.cuda.empty_cache()

    # -- lanes ---------------------------------------------------------------------------------------------------
    def _open_lane(self) -> _Lane:
        while True:
            try:
                return self._lane(self.way)
            except torch.cuda.OutOfMemoryError:
                raise
            except Exception as error:  # compilers and captures fail in many ways; the plain step says what is wrong
                if self.way == WAYS[-1]:
                    raise
                failed = self._ways.pop(0)
                reason = f"a step of this model cannot be {failed} ({kind_and_message(error)})"
                warnings.warn(f"{reason}: it runs {self.way} instead, which is slower.", stacklevel=2)

    def _lane(self, way: str) -> _Lane:
        compiled = way != "eager"
        run = CapturableRun(
            self._task, self._template, self._examples, self._device, compiled=compiled, held_out=self._held_out
        )
        stream = torch.cuda.Stream(self._device)  # type: ignore[no-untyped-call]
        stream.wait_stream(torch.cuda.current_stream(self._device))
        with torch.cuda.stream(stream):
            for _ in range(3):  # compiles, picks algorithms, allocates moments
                self._load(run, Cell(0, 0, 0.0))  # anew, for a run may have one step only
                draws = run.draws_at_random()  # the last one tells: to compile may be to draw
            if run.held_out is not None:
                run.held_out.restart()
                run.held_out.advance()
                run.evaluate_batch()
        torch.cuda.synchronize(self._device)
        step, evaluate = run.__call__, run.evaluate_batch
        if way == "captured":
            step = capture(step, stream)
            if run.held_out is not None:
                run.held_out.restart()
                evaluate = capture(evaluate, stream)
        alive = torch.ones((), dtype=torch.bool, pin_memory=True)
        return _Lane(run, step, evaluate, stream, alive, draws)

    def _add_lanes(self, most: int) -> None:
        best = self._seconds_a_step() if most > 1 else 0.0
        while len(self._lanes) < most:
            before = len(self._lanes)
            try:
                for _ in range(min(before, most - before)):
                    self._lanes.append(self._open_lane())
            except torch.cuda.OutOfMemoryError:  # go on with half of what was tried
                del self._lanes[before:]
                torch.cuda.empty_cache()
                return
            seconds = self._seconds_a_step()
            if seconds > PAYS * best:
                if seconds > best:
                    del self._lanes[before:]
                    torch.cuda.empty_cache()
                return
            best = seconds

    def _seconds_a_step(self) -> float:
        """Time of one step of one cell with all lanes running."""
        seconds = 0.0
        for most in (WARM_UP, TIMED):
            for lane in self._lanes:
                with torch.cuda.stream(lane.stream):
                    self._load(lane.run, Cell(0, 0, 0.0))
            torch.cuda.synchronize(self._device)
            start = time.perf_counter()
            steps = min(most, self._steps)  # a cell's losses have room for no more
            for _ in range(steps):
                for lane in self._lanes:
                    with torch.cuda.stream(lane.stream):
                        lane.run.advance()
                        lane.step()
            torch.cuda.synchronize(self._device)
            seconds = (time.perf_counter() - start) / (steps * len(self._lanes))
        return seconds

    # -- runs ----------------------------------------------------------------------------------------------------
    def _load(self, run: CapturableRun, cell: Cell) -> None:
        if cell.seed not in self._starts:
            on_host = is_on_host(self._examples)
            self._starts[cell.seed] = draw_start(self._task, self._template, cell.seed, self._device, on_host=on_host)
        run.load(self._starts[cell.seed], cell.rate)

    def _try(self, lane: _Lane, act: Callable[[_Lane], None]) -> Outcome | None:
        """Act on a lane; the failure of its cell, if its model raises or its time is up.

        A captured step runs none of the model's own code. An error of the GPU itself ends the process's work on it, so
        it is raised: the cells to come would fail for the same reason.
        """
        try:
            act(lane)
        except DEVICE_ERROR:
            raise
        except (DepthlrError, RuntimeError) as error:
            lane.stream.synchronize()
            return failed_outcome(str(error).rstrip("."), time.perf_counter() - lane.started)
        seconds = time.perf_counter() - lane.started
        if self._timeout is not None and seconds > self._timeout and lane.done < self._steps:
            lane.stream.synchronize()
            return failed_outcome(f"it took longer than {self._timeout:g} s", seconds)
        return None

    @explain_full_memory()
    def _begin(self, lane: _Lane) -> None:
        cell = lane.cell
        assert cell is not None
        lane.done, lane.ran, lane.started = 0, 0, time.perf_counter()
        lane.looked = None
        torch.cuda.manual_seed(cell.seed)  # dropout; with several lanes nothing draws
        with torch.cuda.stream(lane.stream):
            self._load(lane.run, cell)

    def _advance(self, lane: _Lane) -> None:
        """Queue steps up to the next look or evaluation, and the look itself."""
        if lane.done >= self._steps:
            return
        previous = lane.looked
        stop = min([lane.done + self._look, self._steps, *(s for s in self._evaluation_steps if s > lane.done)])
        with torch.cuda.stream(lane.stream):
            for _ in range(stop - lane.done):
                lane.run.advance()
                lane.step()
            lane.done = lane.ran = stop
            if stop in self._evaluation_steps:
                self._evaluate(lane, stop)
            if previous is not None and lane.done < self._steps:
                previous.synchronize()  # at most two looks are ever in flight
                if not bool(lane.alive):
                    lane.done = self._steps
            losses = lane.run.losses
            sound = losses.isfinite() & (losses <= BLOW_UP * losses[0].clamp(min=1.0))  # as `has_diverged`
            lane.alive.copy_(sound.all(), non_blocking=True)
            lane.looked = torch.cuda.Event()  # type: ignore[no-untyped-call]
            lane.looked.record(lane.stream)

    def _evaluate(self, lane: _Lane, steps: int) -> None:
        """Queue one pass over the held-out data, its sums kept on the device."""
        held_out = lane.run.held_out
        assert held_out is not None
        held_out.restart()
        for _ in range(held_out.batches):
            held_out.advance()
            lane.evaluate()
        lane.sums[steps] = held_out.sums.clone()

    def _outcome(self, lane: _Lane) -> Outcome | None:
        """What came of a lane's cell, if all its steps are queued."""
        if lane.done < self._steps:
            return None
        lane.stream.synchronize()
        losses = lane.run.losses.cpu().numpy()[: lane.ran].copy()
        diverged = has_diverged(losses)
        evaluations: list[Evaluation] = []
        if lane.run.held_out is not None and not diverged:
            evaluations = [lane.run.held_out.evaluation(steps, lane.sums[steps]) for steps in self._evaluation_steps]
        return Outcome(losses, time.perf_counter() - lane.started, diverged, tuple(evaluations))


def capture(function: Callable[[], None], stream: torch.cuda.Stream) -> Callable[[], None]:
    """The function's work on the device, recorded once: each call replays it.

    Args:
        function: Work on the device, without a look at values.
        stream: The stream on which it is captured.
    """
    graph = torch.cuda.CUDAGraph()
    generator = torch.cuda.default_generators[stream.device.index or 0]
    spare = generator.clone_state()
    try:
        with torch.cuda.graph(graph, stream=stream):
            function()
    except Exception:
        generator.graphsafe_set_state(spare)  # a capture that fails leaves the generator unable to draw outside of one
        raise
    return graph.replay
