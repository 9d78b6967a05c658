"""Layer 2: training one cell, or many at once, on CPU cores or with CUDA graphs."""

from depthlr.training.cell import Cell, Evaluation, Outcome
from depthlr.training.command import Commands
from depthlr.training.executor import BySize, Executor, InProcess, Limits
from depthlr.training.graphs import GraphRunner
from depthlr.training.local import open_executor
from depthlr.training.serial import SerialRunner, try_step
from depthlr.training.task import Task, mean_cross_entropy
from depthlr.training.training import Training
from depthlr.training.workers import Workers

__all__ = [
    "BySize",
    "Cell",
    "Commands",
    "Evaluation",
    "Executor",
    "GraphRunner",
    "InProcess",
    "Limits",
    "Outcome",
    "SerialRunner",
    "Task",
    "Training",
    "Workers",
    "mean_cross_entropy",
    "open_executor",
    "try_step",
]
