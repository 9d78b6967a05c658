"""Layer 4: executors on many machines, Ray and SLURM."""

from depthlr.cluster.ray import RayExecutor
from depthlr.cluster.slurm import SlurmExecutor

__all__ = ["RayExecutor", "SlurmExecutor"]
