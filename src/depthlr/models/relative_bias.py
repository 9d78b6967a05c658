"""BEiT's relative position bias: one learned number a head for each offset between two patches."""

import torch
from torch import Tensor, nn

from depthlr.models.token import small_parameter


def relative_index(side: int) -> Tensor:
    """Which row of the table holds the bias of each pair of tokens; int64 (1 + side^2, 1 + side^2).

    Rows 0 .. (2 side - 1)^2 - 1 are the patch offsets (dy, dx) in reading order. The class token stands first and has
    three rows of its own behind them: class to patch, patch to class, class to class.
    """
    offsets = (2 * side - 1) ** 2
    row = torch.arange(side).repeat_interleave(side)  # (side^2,)
    column = torch.arange(side).repeat(side)
    dy = row[:, None] - row[None, :] + side - 1  # 0 .. 2 side - 2
    dx = column[:, None] - column[None, :] + side - 1
    index = torch.full((side**2 + 1, side**2 + 1), offsets)
    index[1:, 1:] = dy * (2 * side - 1) + dx
    index[1:, 0] = offsets + 1
    index[0, 0] = offsets + 2
    return index


class RelativeBias(nn.Module):
    """The bias added to a block's attention logits, (1, heads, tokens, tokens)."""

    index: Tensor

    def __init__(self, side: int, heads: int) -> None:
        super().__init__()
        self.table = small_parameter((2 * side - 1) ** 2 + 3, heads)
        self.register_buffer("index", relative_index(side), persistent=False)

    def forward(self) -> Tensor:
        tokens = len(self.index)
        return self.table[self.index.flatten()].view(1, tokens, tokens, -1).permute(0, 3, 1, 2)
