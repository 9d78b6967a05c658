"""Layer 2: training one cell, or many at once, on CPU cores or with CUDA graphs."""

from depthlr.training.cell import Cell, Outcome, Runner
from depthlr.training.engine import open_engine
from depthlr.training.graphs import GraphRunner
from depthlr.training.serial import SerialRunner
from depthlr.training.task import Task, Training, mean_cross_entropy
from depthlr.training.trial import try_step
from depthlr.training.workers import Workers

__all__ = [
    "Cell",
    "GraphRunner",
    "Outcome",
    "Runner",
    "SerialRunner",
    "Task",
    "Training",
    "Workers",
    "mean_cross_entropy",
    "open_engine",
    "try_step",
]
