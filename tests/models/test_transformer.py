"""Attention, blocks and the transformers built of them against slow, obvious versions."""

import math

import pytest
import torch
import torch.nn.functional as F

from depthlr.errors import DepthlrError
from depthlr.models import CCT, GPT, BEiT, ViT
from depthlr.models.transformer import Attention, DropPath, TransformerBlock
from depthlr.models.vit import RelativeBias, relative_index


def linear(x, module):
    return x @ module.weight.T + module.bias


def slow_attention(x, module, bias=None, causal=False):
    """One head, one example, one token at a time."""
    q, k, v = linear(x, module.qkv).chunk(3, dim=-1)
    size = x.shape[-1] // module.heads
    mixed = torch.zeros_like(x)
    for b in range(x.shape[0]):
        for h in range(module.heads):
            part = slice(h * size, (h + 1) * size)
            for t in range(x.shape[1]):
                reach = t + 1 if causal else x.shape[1]
                logits = torch.stack([q[b, t, part] @ k[b, s, part] / math.sqrt(size) for s in range(reach)])
                if bias is not None:
                    logits = logits + bias[0, h, t]
                mixed[b, t, part] = logits.softmax(0) @ v[b, :reach, part]
    return linear(mixed, module.project)


def slow_norm(x, norm):
    centred = x - x.mean(-1, keepdim=True)
    return centred / (centred.square().mean(-1, keepdim=True) + 1e-5).sqrt() * norm.weight + norm.bias


def slow_feed_forward(x, module):
    return linear(linear(x, module[0]).clamp(min=0), module[-1])


@pytest.fixture
def tokens():
    return torch.randn(2, 5, 12, dtype=torch.float64, generator=torch.Generator().manual_seed(1))


@pytest.mark.parametrize("causal", [False, True])
def test_attention_is_softmax_weighted_values(tokens, causal):
    torch.manual_seed(0)
    attention = Attention(12, 3, causal=causal).double()
    torch.testing.assert_close(attention(tokens), slow_attention(tokens, attention, causal=causal))


def test_attention_adds_the_bias_to_its_logits(tokens):
    torch.manual_seed(0)
    attention = Attention(12, 3).double()
    bias = torch.randn(1, 3, 5, 5, dtype=torch.float64)
    torch.testing.assert_close(attention(tokens, bias), slow_attention(tokens, attention, bias))


@pytest.mark.parametrize("norm", ["pre", "post"])
def test_block_is_two_residual_updates(tokens, norm):
    torch.manual_seed(0)
    block = TransformerBlock(12, 3, norm=norm).double()
    for layer_norm in (block.norm1, block.norm2):  # away from 1 and 0, so that swapped norms would show
        torch.nn.init.normal_(layer_norm.weight)
        torch.nn.init.normal_(layer_norm.bias)
    z = tokens
    if norm == "pre":
        z = z + slow_attention(slow_norm(z, block.norm1), block.attention)
        z = z + slow_feed_forward(slow_norm(z, block.norm2), block.feed_forward)
    else:
        z = slow_norm(z + slow_attention(z, block.attention), block.norm1)
        z = slow_norm(z + slow_feed_forward(z, block.feed_forward), block.norm2)
    torch.testing.assert_close(block(tokens), z)


@pytest.mark.parametrize("norm", ["pre", "post"])
def test_vit_reads_the_class_token(norm):
    torch.manual_seed(0)
    model = ViT(blocks=2, width=12, heads=3, size=8, norm=norm).double()
    x = torch.randn(2, 3, 8, 8, dtype=torch.float64)
    # Patches in reading order, each a plain linear map of its 3 x 4 x 4 numbers.
    patches = x.reshape(2, 3, 2, 4, 2, 4).permute(0, 2, 4, 1, 3, 5).reshape(2, 4, 48)
    projected = patches @ model.embedding.project.weight.reshape(12, 48).T + model.embedding.project.bias
    z = torch.cat((model.class_token.repeat(2, 1, 1), projected), 1) + model.positions
    for block in model.blocks:
        z = block(z)
    if norm == "pre":
        z = slow_norm(z, model.norm)
    torch.testing.assert_close(model(x), linear(z[:, 0], model.head))


def test_positions_and_class_tokens_start_small():
    torch.manual_seed(0)
    vit, beit = ViT(blocks=1), BEiT(blocks=1)
    for parameter in (vit.positions, vit.class_token, beit.class_token, CCT(blocks=1).positions, beit.biases[0].table):
        assert parameter.std().item() == pytest.approx(0.02, rel=0.15)


@pytest.mark.parametrize("side", [1, 2, 3])
def test_relative_index_numbers_offsets_and_sets_the_class_token_apart(side):
    span = 2 * side - 1
    cells = [(row, column) for row in range(side) for column in range(side)]
    index = relative_index(side)
    for i, (row_i, column_i) in enumerate(cells):
        for j, (row_j, column_j) in enumerate(cells):
            dy, dx = row_i - row_j, column_i - column_j
            assert index[1 + i, 1 + j] == (dy + side - 1) * span + dx + side - 1
        assert index[0, 1 + i] == span**2  # class token looks at a patch
        assert index[1 + i, 0] == span**2 + 1  # a patch looks at the class token
    assert index[0, 0] == span**2 + 2
    assert set(index.flatten().tolist()) == set(range(span**2 + 3))  # every row of the table is used


def test_relative_bias_looks_its_table_up():
    bias = RelativeBias(2, heads=3)
    found, index = bias(), relative_index(2)
    assert found.shape == (1, 3, 5, 5)
    for head in range(3):
        for i in range(5):
            for j in range(5):
                assert found[0, head, i, j] == bias.table[index[i, j], head]


def test_beit_without_bias_cannot_tell_the_order_of_patches():
    torch.manual_seed(0)
    model = BEiT(blocks=2, width=12, heads=3, size=8).double()
    for bias in model.biases:
        torch.nn.init.normal_(bias.table)
    x = torch.randn(2, 3, 8, 8, dtype=torch.float64)
    swapped = x.roll(4, 3)  # two patches a row: swaps left and right
    assert (model(x) - model(swapped)).abs().max() > 1e-3
    for bias in model.biases:
        torch.nn.init.zeros_(bias.table)
    torch.testing.assert_close(model(x), model(swapped))


@pytest.mark.parametrize(("size", "tokenizer_layers"), [(8, 1), (9, 2), (7, 3)])
def test_cct_is_tokenizer_blocks_and_weighted_mean(size, tokenizer_layers):
    torch.manual_seed(0)
    model = CCT(blocks=1, width=12, heads=3, size=size, tokenizer_layers=tokenizer_layers, norm="pre").double()
    x = torch.randn(2, 3, size, size, dtype=torch.float64)
    z = x
    for convolution in [m for m in model.tokenizer if isinstance(m, torch.nn.Conv2d)]:
        z = F.max_pool2d(F.conv2d(z, convolution.weight, padding=1).clamp(min=0), 3, 2, 1)
    z = slow_norm(model.blocks[0](z.flatten(2).mT + model.positions), model.norm)
    weights = torch.softmax(z @ model.pooling.score.weight[0], 1)
    expected = linear(torch.einsum("bt,btw->bw", weights, z), model.head)
    torch.testing.assert_close(model(x), expected)


@pytest.mark.parametrize("norm", ["pre", "post"])
def test_gpt_never_looks_ahead(norm):
    torch.manual_seed(0)
    model = GPT(blocks=2, width=12, heads=3, vocabulary=11, context=8, norm=norm).double()
    ids = torch.randint(11, (2, 8))
    changed = ids.clone()
    changed[:, 5] = (changed[:, 5] + 1) % 11
    before, after = model(ids), model(changed)
    torch.testing.assert_close(before[:, :5], after[:, :5])
    assert ((before - after)[:, 5:].abs().amax(-1) > 1e-6).all()  # and everything later does depend on it


def test_gpt_head_is_tied_only_when_asked():
    tied, untied = GPT(blocks=1, tied=True), GPT(blocks=1)
    assert tied.head.weight is tied.tokens.weight
    assert untied.head.weight is not untied.tokens.weight


def test_gpt_takes_short_sequences_and_refuses_long_ones():
    model = GPT(blocks=1, width=12, heads=3, vocabulary=11, context=8)
    assert model(torch.zeros(2, 3, dtype=torch.int64)).shape == (2, 3, 11)
    with pytest.raises(DepthlrError, match="9 tokens but the model's context is 8"):
        model(torch.zeros(2, 9, dtype=torch.int64))


def test_drop_path_drops_whole_examples_and_keeps_the_mean():
    torch.manual_seed(0)
    dropped = DropPath(0.25)(torch.ones(4000, 2, 3))
    assert set(dropped.unique().tolist()) == {0.0, torch.tensor(4 / 3).item()}
    assert torch.equal(dropped.amax((1, 2)), dropped.amin((1, 2)))
    assert dropped.mean() == pytest.approx(1, abs=0.03)


def test_drop_path_rises_along_the_blocks_and_rests_in_eval():
    model = ViT(blocks=3, width=12, heads=3, size=8, drop_path=0.4)
    chances = [[m.probability for m in block.modules() if isinstance(m, DropPath)] for block in model.blocks]
    assert chances == [[], [0.2, 0.2], [0.4, 0.4]]
    x = torch.randn(16, 3, 8, 8)
    assert not torch.equal(model(x), model(x))
    model.eval()
    assert torch.equal(model(x), model(x))
