"""The vision transformer of the paper's experiments: post-LN, ReLU, class token, learned positions (Sec. 4.4)."""

import torch
from torch import Tensor, nn

from depthlr.models.argument import positive_integer
from depthlr.models.token import PatchEmbedding, small_parameter
from depthlr.models.transformer import block_stack, last_norm


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
        self.blocks = block_stack(blocks, width, heads, ratio, norm, activation, dropout, drop_path)
        self.embedding = PatchEmbedding(inputs, size, patch, width)
        self.class_token = small_parameter(1, 1, width)
        self.positions = small_parameter(1, self.embedding.side**2 + 1, width)
        self.norm = last_norm(norm, width)
        self.head = nn.Linear(width, positive_integer("classes", classes))

    def forward(self, x: Tensor) -> Tensor:  # (batch, inputs, size, size) -> (batch, classes)
        tokens = self.embedding(x)
        z = torch.cat((self.class_token.expand(len(tokens), -1, -1), tokens), dim=1) + self.positions
        for block in self.blocks:
            z = block(z)
        logits: Tensor = self.head(self.norm(z[:, 0]))
        return logits
