"""Multi-head self-attention."""

import torch.nn.functional as F
from torch import Tensor, nn

from depthlr.models.argument import divisor, positive_integer


class Attention(nn.Module):
    """softmax(q k' / sqrt(width / heads) + bias) v, then a linear projection; q, k and v come from one linear map."""

    def __init__(self, width: int, heads: int, dropout: float = 0.0, causal: bool = False) -> None:
        super().__init__()
        width = positive_integer("width", width)
        self.heads = divisor("heads", positive_integer("heads", heads), "width", width)
        self.dropout = dropout
        self.causal = causal
        self.qkv = nn.Linear(width, 3 * width)
        self.project = nn.Linear(width, width)

    def forward(self, x: Tensor, bias: Tensor | None = None) -> Tensor:
        # x (batch, tokens, width), bias (1, heads, tokens, tokens) or none -> (batch, tokens, width)
        batch, tokens, width = x.shape
        qkv = self.qkv(x).view(batch, tokens, 3, self.heads, width // self.heads).permute(2, 0, 3, 1, 4)
        q, k, v = qkv.unbind(0)  # each (batch, heads, tokens, width / heads)
        mixed = F.scaled_dot_product_attention(
            q,
            k,
            v,
            attn_mask=None if bias is None else bias.to(q.dtype),
            dropout_p=self.dropout if self.training else 0.0,
            is_causal=self.causal,
        )
        projected: Tensor = self.project(mixed.transpose(1, 2).reshape(batch, tokens, width))
        return projected
