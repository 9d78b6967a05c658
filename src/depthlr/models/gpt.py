"""A small GPT: token and position embeddings, causal blocks, a head over the vocabulary."""

from torch import Tensor, nn

from depthlr.errors import DepthlrError
from depthlr.models.argument import positive_integer
from depthlr.models.token import small_parameter
from depthlr.models.transformer import block_stack, last_norm


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
        vocabulary = positive_integer("vocabulary", vocabulary)
        self.blocks = block_stack(blocks, width, heads, ratio, norm, activation, dropout, drop_path, causal=True)
        self.tokens = nn.Embedding(vocabulary, width)
        self.positions = small_parameter(1, positive_integer("context", context), width)
        self.norm = last_norm(norm, width)
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
