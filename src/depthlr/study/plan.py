"""What a search is: a plan that asks for waves of cells and is told their losses, and nothing else."""

from __future__ import annotations

from collections.abc import Generator, Mapping

from depthlr.training.cell import Cell

Plan = Generator[list[Cell], Mapping[Cell, float], None]
"""Yields a wave of cells, all of one size; is sent the losses of that whole wave before it decides on the next."""
