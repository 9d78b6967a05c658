"""Layer 3: carrying a rate by any rule."""

from depthlr.transfer.carry import CarriedRate, transfer_rate

__all__ = ["CarriedRate", "transfer_rate"]
