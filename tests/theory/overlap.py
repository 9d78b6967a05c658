"""The small closed forms on which the theory's exponent rests."""

import math

from depthlr import check
from depthlr.errors import DepthlrError


def overlap_sum(depth: int) -> int:
    """sum of min(h1, h2) over h1, h2 = 1..l: the count of shared units that makes a unit's energy grow as l^3."""
    level = check.count("The depth", depth, least=0)
    return level * (level + 1) * (2 * level + 1) // 6  # Eq. (min-sum), App. B.3


def residual_growth(c: float, q: float, blocks: int, level: int) -> float:
    """r_l = (1 + c q / K)^l: how much l of K residual blocks amplify a gradient overlap."""
    count = check.count("The number of blocks", blocks, least=1)
    passed = check.count("The level", level, least=0)
    if passed > count:
        raise DepthlrError(f"The level {passed} lies above the {count} blocks: pass a level from 0 to {count}.")
    return math.exp(passed * math.log1p(_gain(c, q) / count))  # Cor. (resnet-r-factor), App. C.1


def residual_growth_bound(c: float, q: float) -> float:
    """e^(c q): the bound on `residual_growth` at every level, whatever the number of blocks."""
    return math.exp(_gain(c, q))  # r_l <= r_K <= e^(cq), App. C.1


def cross_entropy_gradient_norm2(classes: int) -> float:
    """|p - y|^2 = 1 - 1/C at uniform softmax: the cross-entropy's logit gradient is of order one at initialization."""
    return 1 - 1 / check.count("The number of classes", classes, least=2)  # App. "On the Loss"


def _gain(c: float, q: float) -> float:
    return check.finite("The branch variance c", c, least=0) * check.finite("The gating factor q", q, least=0)
