"""Layer 2: training one cell, or many at once, on CPU cores or with CUDA graphs."""

from depthlr.training.cell import Cell, Evaluation, Outcome, Runner
from depthlr.training.engine import open_engine
from depthlr.training.graphs import GraphRunner
from depthlr.training.serial import SerialRunner, try_step
from depthlr.training.task import Task, mean_cross_entropy
from depthlr.training.training import Training
from depthlr.training.workers import Limits, Workers

__all__ = [
    "Cell",
    "Evaluation",
    "GraphRunner",
    "Limits",
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
