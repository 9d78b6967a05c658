"""The vision transformer of the paper's experiments: post-LN, ReLU, class token, learned positions (Sec. 4.4)."""

import torch
from torch import Tensor, nn

from depthlr import check
from depthlr.models.transformer import check_divisor, make_blocks, make_final_norm, small_parameter


class PatchEmbedding(nn.Module):
    """Cuts a square image into patches and projects each to a token, by one convolution; one depth unit."""

    def __init__(self, inputs: int, size: int, patch: int, width: int) -> None:
        super().__init__()
        size = check.count("size", size)
        patch = check_divisor("patch", check.count("patch", patch), "size", size)
        self.side = size // patch
        self.project = nn.Conv2d(check.count("inputs", inputs), width, patch, stride=patch)

    def forward(self, x: Tensor) -> Tensor:  # (batch, inputs, size, size) -> (batch, side * side, width)
        tokens: Tensor = self.project(x)
        return tokens.flatten(2).transpose(1, 2)


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


class ViT(nn.Module):
    """Patch embedding, `blocks` blocks, head on the class token: effective depth 2 blocks + 2."""

    def __init__(
        self,
        blocks: int = 8,
        width: int = 384,
        heads: int = 6,
        inputs: int = 3,
        size: int = 32,
        patch: int = 4,
        classes: int = 10,
        ratio: int = 4,
        norm: str = "post",
        activation: str = "relu",
        dropout: float = 0.0,
        drop_path: float = 0.0,
    ) -> None:
        super().__init__()
        self.blocks = make_blocks(blocks, width, heads, ratio, norm, activation, dropout, drop_path)
        self.embedding = PatchEmbedding(inputs, size, patch, width)
        self.class_token = small_parameter(1, 1, width)
        self.positions = small_parameter(1, self.embedding.side**2 + 1, width)
        self.norm = make_final_norm(norm, width)
        self.head = nn.Linear(width, check.count("classes", classes))

    def forward(self, x: Tensor) -> Tensor:  # (batch, inputs, size, size) -> (batch, classes)
        tokens = self.embedding(x)
        z = torch.cat((self.class_token.expand(len(tokens), -1, -1), tokens), dim=1) + self.positions
        for block in self.blocks:
            z = block(z)
        logits: Tensor = self.head(self.norm(z[:, 0]))
        return logits


class BEiT(nn.Module):
    """Patch embedding, `blocks` blocks with relative bias, head on the class token: effective depth 2 blocks + 2."""

    def __init__(
        self,
        blocks: int = 8,
        width: int = 384,
        heads: int = 6,
        inputs: int = 3,
        size: int = 32,
        patch: int = 4,
        classes: int = 10,
        ratio: int = 4,
        norm: str = "post",
        activation: str = "relu",
        dropout: float = 0.0,
        drop_path: float = 0.0,
    ) -> None:
        super().__init__()
        self.blocks = make_blocks(blocks, width, heads, ratio, norm, activation, dropout, drop_path)
        self.embedding = PatchEmbedding(inputs, size, patch, width)
        self.class_token = small_parameter(1, 1, width)
        self.biases = nn.ModuleList(RelativeBias(self.embedding.side, heads) for _ in self.blocks)
        self.norm = make_final_norm(norm, width)
        self.head = nn.Linear(width, check.count("classes", classes))

    def forward(self, x: Tensor) -> Tensor:  # (batch, inputs, size, size) -> (batch, classes)
        tokens = self.embedding(x)
        z = torch.cat((self.class_token.expand(len(tokens), -1, -1), tokens), dim=1)
        for block, bias in zip(self.blocks, self.biases, strict=True):
            z = block(z, bias())
        logits: Tensor = self.head(self.norm(z[:, 0]))
        return logits


class Tokenizer(nn.Sequential):
    """conv 3x3 + ReLU + max-pool, `layers` times; each halves the image's side, rounding up."""

    def __init__(self, inputs: int, size: int, width: int, layers: int) -> None:
        modules: list[nn.Module] = []
        channels, side = check.count("inputs", inputs), check.count("size", size)
        for _ in range(check.count("tokenizer_layers", layers)):
            modules += [
                nn.Conv2d(channels, width, 3, padding=1, bias=False),
                nn.ReLU(),
                nn.MaxPool2d(3, stride=2, padding=1),
            ]
            channels, side = width, (side + 1) // 2
        super().__init__(*modules)
        self.side = side


class SequencePooling(nn.Module):
    """A weighted mean of the tokens, softmax(w . z) being the weights."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.score = nn.Linear(width, 1, bias=False)  # softmax would cancel a bias, and its gradient be 0

    def forward(self, z: Tensor) -> Tensor:  # (batch, tokens, width) -> (batch, width)
        weights = self.score(z).softmax(dim=1)  # (batch, tokens, 1)
        pooled: Tensor = (weights.transpose(1, 2) @ z).squeeze(1)
        return pooled


class CCT(nn.Module):
    """Tokenizer, `blocks` blocks, pooling, head: effective depth 2 blocks + tokenizer_layers + 1."""

    def __init__(
        self,
        blocks: int = 8,
        width: int = 384,
        heads: int = 6,
        inputs: int = 3,
        size: int = 32,
        tokenizer_layers: int = 1,
        classes: int = 10,
        ratio: int = 4,
        norm: str = "post",
        activation: str = "relu",
        dropout: float = 0.0,
        drop_path: float = 0.0,
    ) -> None:
        super().__init__()
        self.blocks = make_blocks(blocks, width, heads, ratio, norm, activation, dropout, drop_path)
        self.tokenizer = Tokenizer(inputs, size, width, tokenizer_layers)
        self.positions = small_parameter(1, self.tokenizer.side**2, width)
        self.norm = make_final_norm(norm, width)
        self.pooling = SequencePooling(width)
        self.head = nn.Linear(width, check.count("classes", classes))

    def forward(self, x: Tensor) -> Tensor:  # (batch, inputs, size, size) -> (batch, classes)
        z = self.tokenizer(x).flatten(2).transpose(1, 2) + self.positions
        for block in self.blocks:
            z = block(z)
        logits: Tensor = self.head(self.pooling(self.norm(z)))
        return logits
