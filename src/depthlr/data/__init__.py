"""Data: the digits that ship with depthlr, and batches of them."""

from depthlr.data.batch import digits_batch
from depthlr.data.digits import digits

__all__ = ["digits", "digits_batch"]
