"""CCT: a convolutional tokenizer instead of patches, sequence pooling instead of a class token (Sec. 4.4)."""

from torch import Tensor, nn

from depthlr.models.argument import positive_integer
from depthlr.models.token import small_parameter
from depthlr.models.transformer import block_stack, last_norm


class Tokenizer(nn.Sequential):
    """conv 3x3 + ReLU + max-pool, `layers` times; each halves the image's side, rounding up."""

    def __init__(self, inputs: int, size: int, width: int, layers: int) -> None:
        modules: list[nn.Module] = []
        channels, side = positive_integer("inputs", inputs), positive_integer("size", size)
        for _ in range(positive_integer("tokenizer_layers", layers)):
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
        self.blocks = block_stack(blocks, width, heads, ratio, norm, activation, dropout, drop_path)
        self.tokenizer = Tokenizer(inputs, size, width, tokenizer_layers)
        self.positions = small_parameter(1, self.tokenizer.side**2, width)
        self.norm = last_norm(norm, width)
        self.pooling = SequencePooling(width)
        self.head = nn.Linear(width, positive_integer("classes", classes))

    def forward(self, x: Tensor) -> Tensor:  # (batch, inputs, size, size) -> (batch, classes)
        z = self.tokenizer(x).flatten(2).transpose(1, 2) + self.positions
        for block in self.blocks:
            z = block(z)
        logits: Tensor = self.head(self.pooling(self.norm(z)))
        return logits
