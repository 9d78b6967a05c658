"""Layer 3: carrying a rate by any rule, suggesting one, checking that it carries, and giving it to an optimizer."""

from depthlr.transfer import rules
from depthlr.transfer.check import TransferCheck, check_transfer
from depthlr.transfer.groups import group_multipliers, param_groups
from depthlr.transfer.rules import Recipe, transfer_rate
from depthlr.transfer.suggest import SuggestedRate, suggest_rate

__all__ = [
    "Recipe",
    "SuggestedRate",
    "TransferCheck",
    "check_transfer",
    "group_multipliers",
    "param_groups",
    "rules",
    "suggest_rate",
    "transfer_rate",
]
