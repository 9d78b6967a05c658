"""Vision transformers of the paper's experiments: ViT, BEiT and CCT (Sec. 4.4)."""

import torch
from torch import Tensor, nn

from depthlr import check
from depthlr.models.transformer import check_divisor, make_blocks, make_final_norm, small_parameter


class PatchEmbedding(nn.Module):
    """Cut a square image into patches and project each to a token, with one convolution: one depth unit.

    Args:
        inputs: the number of input channels.
        size: the height and width of the image.
        patch: the height and width of a patch; it divides the size.
        width: the number of features of a token.
    """

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
    """Return the row of the bias table for each pair of tokens, int64 (1 + side^2, 1 + side^2).

    Rows 0 to (2 side - 1)^2 - 1 are the offsets (dy, dx) between patches in reading order. The class token is the first
    token. It has the last three rows: class to patch, patch to class, class to class.

    Args:
        side: the number of patches along one side of the image.
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
    """BEiT's relative position bias: a learned value per head and offset, added to the attention logits.

    Args:
        side: the number of patches along one side of the image.
        heads: the number of attention heads.
    """

    index: Tensor

    def __init__(self, side: int, heads: int) -> None:
        super().__init__()
        self.table = small_parameter((2 * side - 1) ** 2 + 3, heads)
        self.register_buffer("index", relative_index(side), persistent=False)

    def forward(self) -> Tensor:  # (1, heads, tokens, tokens)
        tokens = len(self.index)
        return self.table[self.index.flatten()].view(1, tokens, tokens, -1).permute(0, 3, 1, 2)


class ViT(nn.Module):
    """Patch embedding, class token, learned positions, blocks and a head: effective depth 2 `blocks` + 2.

    Args:
        blocks: the number of blocks.
        width: the number of features of a token.
        heads: the number of attention heads; it divides the width.
        inputs: the number of input channels.
        size: the height and width of the image.
        patch: the height and width of a patch; it divides the size.
        classes: the number of outputs.
        ratio: the width of the feed-forward network, as a multiple of `width`.
        norm: pre or post.
        activation: a key of `ACTIVATIONS`.
        dropout: the probability of dropping a value.
        drop_path: the probability of dropping a branch in the last block; it rises linearly from 0 in the first.
    """

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
        self._make_positions(width, heads)
        self.norm = make_final_norm(norm, width)
        self.head = nn.Linear(width, check.count("classes", classes))

    def _make_positions(self, width: int, heads: int) -> None:
        self.positions = small_parameter(1, self.embedding.side**2 + 1, width)

    def _encode(self, z: Tensor) -> Tensor:  # (batch, tokens, width) -> the same
        z = z + self.positions
        for block in self.blocks:
            z = block(z)
        return z

    def forward(self, x: Tensor) -> Tensor:  # (batch, inputs, size, size) -> (batch, classes)
        tokens = self.embedding(x)
        z = self._encode(torch.cat((self.class_token.expand(len(tokens), -1, -1), tokens), dim=1))
        logits: Tensor = self.head(self.norm(z[:, 0]))
        return logits


class BEiT(ViT):
    """A ViT with a relative position bias in each block instead of positions: effective depth 2 `blocks` + 2.

    Args: the same as for `ViT`.
    """

    def _make_positions(self, width: int, heads: int) -> None:
        self.biases = nn.ModuleList(RelativeBias(self.embedding.side, heads) for _ in self.blocks)

    def _encode(self, z: Tensor) -> Tensor:
        for block, bias in zip(self.blocks, self.biases, strict=True):
            z = block(z, bias())
        return z


class Tokenizer(nn.Sequential):
    """Convolution 3x3, ReLU and max-pooling, several times. Each time the side of the image is halved, rounded up.

    Args:
        inputs: the number of input channels.
        size: the height and width of the image.
        width: the number of features of a token.
        layers: the number of convolutions.
    """

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
    """A weighted mean of the tokens with the weights softmax(w . z).

    Args:
        width: the number of features of a token.
    """

    def __init__(self, width: int) -> None:
        super().__init__()
        self.score = nn.Linear(width, 1, bias=False)  # softmax cancels a bias: its gradient would be 0

    def forward(self, z: Tensor) -> Tensor:  # (batch, tokens, width) -> (batch, width)
        weights = self.score(z).softmax(dim=1)  # (batch, tokens, 1)
        pooled: Tensor = (weights.transpose(1, 2) @ z).squeeze(1)
        return pooled


class CCT(nn.Module):
    """Convolutional tokenizer, blocks, sequence pooling, head: effective depth 2 `blocks` + `tokenizer_layers` + 1.

    `tokenizer_layers` is the number of convolutions in the tokenizer. All other arguments are as for `ViT`.
    """

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
