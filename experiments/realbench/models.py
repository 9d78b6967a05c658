"""The models of RealBench, as their libraries build and initialize them.

No weight is touched after the library made it. Dropout is off, so that a run depends on its seed alone. Images are
32 x 32, so stems that would shrink a 224 x 224 image keep the resolution, as is usual on CIFAR.

Three of them take `power` and become twins in the peers' parametrization: what a residual branch adds is multiplied by
(size / base)^-power in the forward pass. The power is 1/2 in Depth-muP and 1 in CompleteP. At `base`, the smallest
size, the twin is the model itself. Width does not change, so what the peers prescribe for width is the identity.
"""

from __future__ import annotations

from functools import partial
from importlib import import_module
from typing import Any

from torch import Tensor, nn

from depthlr.models.libraries import import_torchvision

IMAGE = 32
VOCABULARY = 256  # bytes
ATTENTION, SDPA = "sdpa_without_mask", "transformers.integrations"


GROUPS = 8  # of GroupNorm
BASE = 2  # the smallest size of the models that have twins


def gpt2(layers: int, width: int = 256, context: int = 256, power: float = 0.0) -> nn.Module:
    """Hugging Face's GPT-2: pre-LN, learned positions, tied embeddings."""
    library = _transformers()
    config = library.GPT2Config(
        vocab_size=VOCABULARY,
        n_positions=context,
        n_embd=width,
        n_layer=layers,
        n_head=width // 64,
        resid_pdrop=0.0,
        embd_pdrop=0.0,
        attn_pdrop=0.0,
        use_cache=False,
        bos_token_id=0,
        eos_token_id=0,
        attn_implementation=ATTENTION,
    )
    made: nn.Module = library.GPT2LMHeadModel(config)
    return multiply_branches(made, ("attn.resid_dropout", "mlp.dropout"), layers, power)


def llama(layers: int, width: int = 256, context: int = 256, power: float = 0.0) -> nn.Module:
    """Hugging Face's Llama: RMSNorm, SwiGLU, rotary positions, a head of its own."""
    library = _transformers()
    config = library.LlamaConfig(
        vocab_size=VOCABULARY,
        hidden_size=width,
        intermediate_size=8 * width // 3 // 16 * 16,
        num_hidden_layers=layers,
        num_attention_heads=width // 64,
        max_position_embeddings=context,
        use_cache=False,
        attn_implementation=ATTENTION,
    )
    made: nn.Module = library.LlamaForCausalLM(config)
    return multiply_branches(made, ("self_attn.o_proj", "mlp.down_proj"), layers, power)


def bert(layers: int, width: int = 256, context: int = 256) -> nn.Module:
    """Hugging Face's BERT for masked tokens: post-LN, learned positions, tied embeddings; one more id is the mask."""
    library = _transformers()
    config = library.BertConfig(
        vocab_size=VOCABULARY + 1,
        hidden_size=width,
        num_hidden_layers=layers,
        num_attention_heads=width // 64,
        intermediate_size=4 * width,
        max_position_embeddings=context,
        hidden_dropout_prob=0.0,
        attention_probs_dropout_prob=0.0,
        attn_implementation=ATTENTION,
    )
    made: nn.Module = library.BertForMaskedLM(config)
    return made


def vit(blocks: int, width: int = 192, patch: int = 4, classes: int = 10, power: float = 0.0) -> nn.Module:
    """timm's VisionTransformer: pre-LN, class token, learned positions."""
    arguments = {"img_size": IMAGE, "patch_size": patch, "embed_dim": width, "num_heads": width // 64}
    made: nn.Module = _library("timm.models.vision_transformer").VisionTransformer(
        depth=blocks, num_classes=classes, **arguments
    )
    return multiply_branches(made, ("ls1", "ls2"), blocks, power)


def mixer(blocks: int, width: int = 192, patch: int = 4, classes: int = 10) -> nn.Module:
    """timm's MLP-Mixer: pre-LN token and channel mixing."""
    arguments = {"img_size": IMAGE, "patch_size": patch, "embed_dim": width}
    made: nn.Module = _library("timm.models.mlp_mixer").MlpMixer(num_blocks=blocks, num_classes=classes, **arguments)
    return made


def convnext(blocks: int, width: int = 40, classes: int = 10) -> nn.Module:
    """timm's ConvNeXt with `blocks` blocks in each of four stages; layer scale starts at 1e-6."""
    made: nn.Module = _library("timm.models.convnext").ConvNeXt(
        depths=(blocks,) * 4, dims=(width, 2 * width, 4 * width, 8 * width), patch_size=2, num_classes=classes
    )
    return made


def resnet(blocks: int, width: int = 32, classes: int = 10, zero_init: bool = True, norm: str = "batch") -> nn.Module:
    """timm's ResNet of basic blocks, `blocks` in each of four stages, behind a 3 x 3 stem; BatchNorm or GroupNorm."""
    module = _library("timm.models.resnet")
    norms = {"batch": nn.BatchNorm2d, "group": partial(_library("timm.layers").GroupNorm, num_groups=GROUPS)}
    model: Any = module.ResNet(
        module.BasicBlock,
        layers=(blocks,) * 4,
        channels=(width, 2 * width, 4 * width, 8 * width),
        num_classes=classes,
        zero_init_last=zero_init,
        norm_layer=norms[norm],
    )
    stem = nn.Conv2d(3, 64, 3, padding=1, bias=False)
    nn.init.kaiming_normal_(stem.weight, mode="fan_out", nonlinearity="relu")  # as timm initializes its own
    model.conv1, model.maxpool = stem, nn.Identity()
    made: nn.Module = model
    return made


class Multiplied(nn.Module):
    """What a module returns, times a constant."""

    def __init__(self, module: nn.Module, factor: float) -> None:
        super().__init__()
        self.module, self.factor = module, factor

    def forward(self, x: Tensor) -> Tensor:
        product: Tensor = self.factor * self.module(x)
        return product


def multiply_branches(model: nn.Module, ends: tuple[str, ...], size: int, power: float) -> nn.Module:
    """Multiply what each block's branches add by (size / BASE)^-power.

    Args:
        model: its blocks are the items of its one list of modules.
        ends: the last module of each branch, by its name within a block.
        size: the number of blocks.
        power: 0 leaves the model as it is.
    """
    if power:
        factor = (size / BASE) ** -power
        lists = [m for m in model.modules() if isinstance(m, nn.ModuleList | nn.Sequential) and len(m) == size]
        blocks = [block for found in lists for block in found if _has_all(block, ends)]
        assert len(blocks) == size
        for block in blocks:
            for end in ends:
                block.set_submodule(end, Multiplied(block.get_submodule(end), factor))
    return model


def _has_all(block: nn.Module, names: tuple[str, ...]) -> bool:
    return set(names) <= {name for name, _ in block.named_modules()}


class Spoken(nn.Module):
    """torch's TransformerEncoder on the frames of a spectrogram: post-LN, mean over frames, linear head."""

    def __init__(self, layers: int, mels: int, frames: int, width: int, classes: int) -> None:
        super().__init__()
        self.embed = nn.Linear(mels, width)
        self.positions = nn.Embedding(frames, width)
        block = nn.TransformerEncoderLayer(
            width, width // 64, 4 * width, dropout=0.0, activation="gelu", batch_first=True
        )
        self.encoder = nn.TransformerEncoder(block, layers, enable_nested_tensor=False)
        self.head = nn.Linear(width, classes)
        for parameter in self.encoder.parameters():  # layers are copies of one, as torch makes them: draw each anew
            if parameter.dim() > 1:
                nn.init.xavier_uniform_(parameter)

    def forward(self, spectrogram: Tensor) -> Tensor:  # (batch, 1, mels, frames) -> (batch, classes)
        frames = self.embed(spectrogram.squeeze(1).transpose(1, 2)) + self.positions.weight
        logits: Tensor = self.head(self.encoder(frames).mean(1))
        return logits


def spoken(layers: int, width: int = 192, mels: int = 32, frames: int = 64, classes: int = 10) -> nn.Module:
    """An encoder of spoken digits."""
    return Spoken(layers, mels, frames, width, classes)


def _transformers() -> Any:
    """Hugging Face's library, with its own attention under another name.

    Under the name `sdpa` a model first builds a mask, and looks at values to leave it out again. A name for which no
    mask is registered leaves it out at once, with the same numbers: sequences are neither padded nor packed.
    """
    library = _library("transformers")
    library.AttentionInterface.register(ATTENTION, _library(f"{SDPA}.sdpa_attention").sdpa_attention_forward)
    return library


def _library(name: str) -> Any:
    """A library that wants torchvision, which may be built for another torch."""
    import_torchvision()
    return import_module(name)


def cct(blocks: int, width: int = 192, classes: int = 100) -> nn.Module:
    """depthlr's CCT with pre-LN blocks and GELU, its linear and convolutional layers as torch initializes them."""
    from depthlr.models.vit import CCT

    return CCT(blocks, width, width // 64, tokenizer_layers=2, classes=classes, norm="pre", activation="gelu")
