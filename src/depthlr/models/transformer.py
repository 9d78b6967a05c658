"""The transformer block, and a stack of them: two residual updates a block, so two depth units (Sec. 3.1)."""

from torch import Tensor, nn

from depthlr.models.activation import activation_named
from depthlr.models.argument import choice, fraction, positive_integer
from depthlr.models.attention import Attention
from depthlr.models.drop_path import DropPath


class FeedForward(nn.Sequential):
    """W2 sigma(W1 z), on each token by itself."""

    def __init__(self, width: int, ratio: int, activation: str, dropout: float) -> None:
        super().__init__(
            nn.Linear(width, ratio * width),
            activation_named(activation),
            *([nn.Dropout(dropout)] if dropout else []),
            nn.Linear(ratio * width, width),
        )


def branch_drop(dropout: float, drop_path: float) -> nn.Sequential:
    """What a branch passes before it is added; without dropping there is no module, hence no kernel to launch."""
    modules = [nn.Dropout(dropout)] if dropout else []
    return nn.Sequential(*modules, *([DropPath(drop_path)] if drop_path else []))


class Block(nn.Module):
    """pre: z + Attn(LN z), z + FFN(LN z).  post: LN(z + Attn z), LN(z + FFN z)."""

    def __init__(
        self,
        width: int,
        heads: int,
        ratio: int = 4,
        norm: str = "post",
        activation: str = "relu",
        dropout: float = 0.0,
        drop_path: float = 0.0,
        causal: bool = False,
    ) -> None:
        super().__init__()
        self.post = choice("norm", norm, ("pre", "post")) == "post"
        self.attention = Attention(width, heads, dropout, causal)
        self.feed_forward = FeedForward(width, positive_integer("ratio", ratio), activation, dropout)
        self.norm1 = nn.LayerNorm(width)
        self.norm2 = nn.LayerNorm(width)
        self.drop1 = branch_drop(dropout, drop_path)
        self.drop2 = branch_drop(dropout, drop_path)

    def forward(self, z: Tensor, bias: Tensor | None = None) -> Tensor:
        # z (batch, tokens, width), bias (1, heads, tokens, tokens) or none -> (batch, tokens, width)
        if self.post:
            z = self.norm1(z + self.drop1(self.attention(z, bias)))
            z = self.norm2(z + self.drop2(self.feed_forward(z)))
        else:
            z = z + self.drop1(self.attention(self.norm1(z), bias))
            z = z + self.drop2(self.feed_forward(self.norm2(z)))
        return z


def block_stack(
    blocks: int,
    width: int,
    heads: int,
    ratio: int,
    norm: str,
    activation: str,
    dropout: float,
    drop_path: float,
    causal: bool = False,
) -> nn.ModuleList:
    """`blocks` blocks; the chance of dropping a branch rises from 0 at the first to `drop_path` at the last."""
    blocks = positive_integer("blocks", blocks)
    dropout, drop_path = fraction("dropout", dropout), fraction("drop_path", drop_path)
    return nn.ModuleList(
        Block(width, heads, ratio, norm, activation, dropout, drop_path * index / max(blocks - 1, 1), causal)
        for index in range(blocks)
    )


def last_norm(norm: str, width: int) -> nn.Module:
    """What stands behind the stack: post-LN has just normalised, pre-LN has not."""
    return nn.LayerNorm(width) if norm == "pre" else nn.Identity()
