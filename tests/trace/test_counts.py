"""Effective depths of known architectures: every weighted layer on the minimal path, a residual update as one."""

import pytest
import torch
from torch import nn

from depthlr.models.build import build
from depthlr.trace import effective_depth

TIMM = {
    "resnet18": 10, "resnet50": 18, "resnet152": 52, "vgg16": 16, "convnext_tiny": 23, "vit_small_patch16_224": 26,
    "mixer_s16_224": 18, "swin_tiny_patch4_window7_224": 29,
}  # fmt: skip
ZOO = {
    "mlp?layers=5": (6, 5),
    "cnn?layers=7": (8, 7),
    "cnn?layers=4&kernel=4&padding=zeros": (5, 4),
    "cnn1d?layers=3&inputs=2": (4, 3),
    "resnet?blocks=9": (11, 9),
    "resnet?blocks=4&plain=3&batch_norm=true&dropout=0.1": (8, 6),
    "resnet?blocks=4&branch_layers=2&activation_after=true": (6, 4),
    "vit?blocks=12": (26, 24),
    "vit?blocks=3&norm=pre&drop_path=0.2": (8, 6),
    "beit?blocks=5": (12, 10),
    "gpt?blocks=6": (14, 12),
    "gpt?blocks=2&tied=true": (6, 4),
}


@pytest.mark.parametrize("name", TIMM)
def test_timm_models(timm_module: object, name: str) -> None:
    model, example = build(f"timm/{name}")
    depth = effective_depth(model, example)
    assert depth.total == TIMM[name]
    assert depth.flags == ()


@pytest.mark.parametrize("spec", ZOO)
def test_zoo_models(spec: str) -> None:
    model, example = build(spec)
    depth = effective_depth(model, example)
    assert (depth.total, depth.backbone) == ZOO[spec]


def test_cct_counts_its_tokenizer_its_blocks_and_its_head() -> None:
    model, example = build("cct?blocks=4")
    depth = effective_depth(model, example)
    assert depth.backbone == 8
    assert [u.role for u in depth.units].count("stem") == 1


@pytest.mark.parametrize(
    ("spec", "total"),
    [
        ("hf/gpt2?n_layer=12&n_embd=48&n_head=4", 26),
        ("hf/gpt_neox?num_hidden_layers=6&hidden_size=48&num_attention_heads=4&intermediate_size=96", 8),
        ("hf/llama?num_hidden_layers=5&hidden_size=48&num_attention_heads=4&intermediate_size=96", 12),
        ("hf/bert?num_hidden_layers=3&hidden_size=48&num_attention_heads=4&intermediate_size=96", 9),
        ("hf/mixtral?num_hidden_layers=2&hidden_size=512&intermediate_size=512", 6),  # large enough for fake tensors
        ("hf/xlnet?n_layer=2&d_model=48&n_head=4&d_inner=96", 6),
    ],
)
def test_hugging_face_models(timm_module: object, spec: str, total: int) -> None:
    model, example = build(spec)  # BERT's masked-language head has two layers
    assert effective_depth(model, example).total == total


def test_a_seven_billion_parameter_model_is_counted_without_its_weights(timm_module: object) -> None:
    model, example = build("hf/llama", meta=True)
    assert sum(p.numel() for p in model.parameters()) > 6.7e9
    assert effective_depth(model, example).total == 66
    assert all(p.is_meta for p in model.parameters())


def test_encoder_decoder_counts_the_decoder_with_its_cross_attention() -> None:
    transformer = nn.Transformer(16, 2, 2, 3, 32, batch_first=True)
    depth = effective_depth(transformer, (torch.randn(2, 4, 16), torch.randn(2, 5, 16)))
    assert (depth.total, depth.residual) == (9, 9)


def test_eval_mode_of_torch_encoder_layers_is_seen_through() -> None:
    encoder = nn.TransformerEncoder(nn.TransformerEncoderLayer(16, 2, 32, batch_first=True), 3)
    for model in (encoder, encoder.eval()):
        assert effective_depth(model, torch.randn(2, 5, 16)).total == 6
