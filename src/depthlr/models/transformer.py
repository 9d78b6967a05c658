"""Transformer blocks and GPT. A block has two residual updates, so it counts as two depth units (Sec. 3.1)."""

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
    """Multi-head self-attention: softmax(q k' / sqrt(width / heads) + bias) v, then a linear projection.

    Args:
        width: the number of features of a token.
        heads: the number of heads; it divides the width.
        dropout: the probability of dropping an attention weight.
        causal: whether a token sees only itself and earlier tokens.
    """

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
        mask = None if bias is None else bias.to(q.dtype)
        dropout = self.dropout if self.training else 0.0
        mixed = F.scaled_dot_product_attention(q, k, v, attn_mask=mask, dropout_p=dropout, is_causal=self.causal)
        projected: Tensor = self.project(mixed.transpose(1, 2).reshape(batch, tokens, width))
        return projected


class DropPath(nn.Module):
    """Stochastic depth: drop the whole branch of an example at random, and rescale the others to keep the mean.

    Args:
        probability: the probability of dropping a branch.
    """

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
    """W2 sigma(W1 z), applied to each token separately."""

    def __init__(self, width: int, ratio: int, activation: str, dropout: float) -> None:
        super().__init__(
            nn.Linear(width, ratio * width),
            make_activation(activation),
            *([nn.Dropout(dropout)] if dropout else []),
            nn.Linear(ratio * width, width),
        )


def make_branch_dropout(dropout: float, drop_path: float) -> nn.Sequential:
    """Make the dropout at the end of a branch. Without dropout it has no modules, so that no kernel is launched.

    Args:
        dropout: the probability of dropping a value.
        drop_path: the probability of dropping the whole branch.
    """
    modules: list[nn.Module] = []
    if dropout:
        modules.append(nn.Dropout(dropout))
    if drop_path:
        modules.append(DropPath(drop_path))
    return nn.Sequential(*modules)


class TransformerBlock(nn.Module):
    """Attention and feed-forward network: with `norm="pre"` z + f(LN z), with `norm="post"` LN(z + f(z)).

    Args:
        width: the number of features of a token.
        heads: the number of attention heads; it divides the width.
        ratio: the width of the feed-forward network, as a multiple of `width`.
        norm: pre or post.
        activation: a key of `ACTIVATIONS`.
        dropout: the probability of dropping a value.
        drop_path: the probability of dropping a branch.
        causal: whether a token sees only itself and earlier tokens.
    """

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
    """Make a stack of transformer blocks.

    Args:
        blocks: the number of blocks.
        drop_path: the probability of dropping a branch in the last block; it rises linearly from 0 in the first.
        width, heads, ratio, norm, activation, dropout, causal: as for `TransformerBlock`.
    """
    blocks = check.count("blocks", blocks)
    dropout, drop_path = check.number("dropout", dropout, below=1), check.number("drop_path", drop_path, below=1)
    return nn.ModuleList(
        TransformerBlock(width, heads, ratio, norm, activation, dropout, drop_path * index / max(blocks - 1, 1), causal)
        for index in range(blocks)
    )


def make_final_norm(norm: str, width: int) -> nn.Module:
    """Make the norm after the stack: a LayerNorm for pre-LN; none for post-LN, whose blocks end in a norm.

    Args:
        norm: pre or post.
        width: the number of features of a token.
    """
    return nn.LayerNorm(width) if norm == "pre" else nn.Identity()


def small_parameter(*shape: int) -> nn.Parameter:
    """Make a parameter, such as positions or a class token, from a truncated normal with standard deviation 0.02.

    Args:
        *shape: the shape of the parameter.
    """
    return nn.Parameter(nn.init.trunc_normal_(torch.empty(*shape), std=0.02))


class GPT(nn.Module):
    """Token and position embeddings, causal blocks and a head over the vocabulary: effective depth 2 `blocks` + 2.

    Args:
        blocks: the number of blocks.
        width: the number of features of a token.
        heads: the number of attention heads; it divides the width.
        vocabulary: the number of token ids.
        context: the longest sequence.
        ratio: the width of the feed-forward network, as a multiple of `width`.
        norm: pre or post.
        activation: a key of `ACTIVATIONS`.
        dropout: the probability of dropping a value.
        drop_path: the probability of dropping a branch in the last block; it rises linearly from 0 in the first.
        tied: whether the head shares its weight with the token embedding.
    """

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
            raise DepthlrError(f"The sequence has {sequence} tokens but the model's context is {context}: shorten it.")
        z = self.tokens(ids) + self.positions[:, :sequence]
        for block in self.blocks:
            z = block(z)
        logits: Tensor = self.head(self.norm(z))
        return logits
