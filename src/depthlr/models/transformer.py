"""The transformer block, and a stack of them: two residual updates a block, so two depth units (Sec. 3.1)."""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from depthlr import check
from depthlr.errors import DepthlrError
from depthlr.models.mlp import make_activation


def check_divisor(name: str, value: int, total_name: str, total: int) -> int:
    """Return `value` if it divides `total`, as the number of heads must divide the width.

    Args:
        name: the name of the argument to check.
        value: its value.
        total_name: the name of the argument that must be a multiple of it.
        total: the value of that argument.
    """
    if total % value:
        raise DepthlrError(f"{name}={value} does not divide {total_name}={total}: choose a {name} that does.")
    return value


class Attention(nn.Module):
    """softmax(q k' / sqrt(width / heads) + bias) v, then a linear projection; q, k and v come from one linear map."""

    def __init__(self, width: int, heads: int, dropout: float = 0.0, causal: bool = False) -> None:
        super().__init__()
        width = check.count("width", width)
        self.heads = check_divisor("heads", check.count("heads", heads), "width", width)
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


class DropPath(nn.Module):
    """Zeroes the branch of each example with the given probability, and keeps the mean; torch's generator decides."""

    def __init__(self, probability: float) -> None:
        super().__init__()
        self.probability = probability

    def forward(self, x: Tensor) -> Tensor:  # (batch, ...) -> the same
        if not self.training or not self.probability:
            return x
        keep = 1 - self.probability
        kept = torch.empty(x.shape[0], *[1] * (x.ndim - 1), dtype=x.dtype, device=x.device).bernoulli_(keep)
        return x * (kept / keep)


class FeedForward(nn.Sequential):
    """W2 sigma(W1 z), on each token by itself."""

    def __init__(self, width: int, ratio: int, activation: str, dropout: float) -> None:
        super().__init__(
            nn.Linear(width, ratio * width),
            make_activation(activation),
            *([nn.Dropout(dropout)] if dropout else []),
            nn.Linear(ratio * width, width),
        )


def make_branch_dropout(dropout: float, drop_path: float) -> nn.Sequential:
    """What a branch passes before it is added; without dropping there is no module, hence no kernel to launch."""
    modules = [nn.Dropout(dropout)] if dropout else []
    return nn.Sequential(*modules, *([DropPath(drop_path)] if drop_path else []))


class TransformerBlock(nn.Module):
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
        self.post = check.one_of("norm", norm, ("pre", "post")) == "post"
        self.attention = Attention(width, heads, dropout, causal)
        self.feed_forward = FeedForward(width, check.count("ratio", ratio), activation, dropout)
        self.norm1 = nn.LayerNorm(width)
        self.norm2 = nn.LayerNorm(width)
        self.drop1 = make_branch_dropout(dropout, drop_path)
        self.drop2 = make_branch_dropout(dropout, drop_path)

    def forward(self, z: Tensor, bias: Tensor | None = None) -> Tensor:
        # z (batch, tokens, width), bias (1, heads, tokens, tokens) or none -> (batch, tokens, width)
        if self.post:
            z = self.norm1(z + self.drop1(self.attention(z, bias)))
            z = self.norm2(z + self.drop2(self.feed_forward(z)))
        else:
            z = z + self.drop1(self.attention(self.norm1(z), bias))
            z = z + self.drop2(self.feed_forward(self.norm2(z)))
        return z


def make_blocks(
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
    blocks = check.count("blocks", blocks)
    dropout, drop_path = check.number("dropout", dropout, below=1), check.number("drop_path", drop_path, below=1)
    return nn.ModuleList(
        TransformerBlock(width, heads, ratio, norm, activation, dropout, drop_path * index / max(blocks - 1, 1), causal)
        for index in range(blocks)
    )


def make_final_norm(norm: str, width: int) -> nn.Module:
    """What stands behind the stack: post-LN has just normalised, pre-LN has not."""
    return nn.LayerNorm(width) if norm == "pre" else nn.Identity()


def small_parameter(*shape: int) -> nn.Parameter:
    """A parameter of this shape, truncated normal with standard deviation 0.02."""
    return nn.Parameter(nn.init.trunc_normal_(torch.empty(*shape), std=0.02))


class GPT(nn.Module):
    """`blocks` causal blocks, pre-LN and GELU unless asked otherwise: effective depth 2 blocks + 2."""

    def __init__(
        self,
        blocks: int = 8,
        width: int = 128,
        heads: int = 4,
        vocabulary: int = 256,
        context: int = 128,
        ratio: int = 4,
        norm: str = "pre",
        activation: str = "gelu",
        dropout: float = 0.0,
        drop_path: float = 0.0,
        tied: bool = False,
    ) -> None:
        super().__init__()
        vocabulary = check.count("vocabulary", vocabulary)
        self.blocks = make_blocks(blocks, width, heads, ratio, norm, activation, dropout, drop_path, causal=True)
        self.tokens = nn.Embedding(vocabulary, width)
        self.positions = small_parameter(1, check.count("context", context), width)
        self.norm = make_final_norm(norm, width)
        self.head = nn.Linear(width, vocabulary, bias=False)
        if tied:
            self.head.weight = self.tokens.weight

    def forward(self, ids: Tensor) -> Tensor:  # int64 (batch, sequence) -> (batch, sequence, vocabulary)
        sequence, context = ids.shape[1], self.positions.shape[1]
        if sequence > context:
            raise DepthlrError(f"The sequence has {sequence} tokens but the model's context is {context}: cut it.")
        z = self.tokens(ids) + self.positions[:, :sequence]
        for block in self.blocks:
            z = block(z)
        logits: Tensor = self.head(self.norm(z))
        return logits
