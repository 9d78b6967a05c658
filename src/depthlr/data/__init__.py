"""Layer 1: data sets in memory or on disk, verified when they are loaded, and the order of batches."""

from depthlr.data.batches import batch_order, steps_per_epoch
from depthlr.data.digits import digits_batch, load_digits
from depthlr.data.examples import Examples
from depthlr.data.sets import DataSet
from depthlr.data.sources import SOURCES, load
from depthlr.data.text import TextSet

__all__ = [
    "SOURCES",
    "DataSet",
    "Examples",
    "TextSet",
    "batch_order",
    "digits_batch",
    "load",
    "load_digits",
    "steps_per_epoch",
]
