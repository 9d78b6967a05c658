"""Effective depth and update energy of many architectures of timm and Hugging Face.

    python -m experiments.breadth            measures, and writes results/breadth and docs/breadth.md
    python -m experiments.breadth page       writes the page from the tables alone

`DEPTHS` holds for every model the number of units that the convention gives, worked out by hand from its configuration
and code, or None where the convention does not cover it. Models are built on the meta device, with random weights.
"""

from __future__ import annotations

import argparse
import sys
import time
import warnings
from collections.abc import Mapping
from importlib.metadata import version
from math import prod
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from depthlr.energy.energy import update_energy
from depthlr.errors import DepthlrError
from depthlr.models.build import build
from depthlr.trace.depth import effective_depth
from depthlr.trace.interface import readout_of
from experiments.pages import markdown_table, put
from experiments.tables import make_folder, read_table, write_json, write_table

ROOT = Path(__file__).parents[1]
RESULTS, PAGE = ROOT / "results" / "breadth", ROOT / "docs" / "breadth.md"
DEPTH_COLUMNS = ("model", "convention", "expected", "counted", "plain", "residual", "verdict", "notes", "seconds")
ENERGY_COLUMNS = ("model", "input", "optimizer", "units", "mean_energy", "readout_energy", "rate", "way", "seconds")

# The sum is the convention: residual updates, then plain layers (stem, downsampling, head). None: out of scope.
TIMM: dict[str, str | None] = {
    **dict.fromkeys(("vit_tiny_patch16_224", "vit_base_patch16_224", "deit_small_patch16_224"), "12*2 + 2"),
    **dict.fromkeys(("deit3_small_patch16_224", "beit_base_patch16_224", "beitv2_base_patch16_224"), "12*2 + 2"),
    **dict.fromkeys(("convit_tiny", "flexivit_small", "naflexvit_base_patch16_gap", "hiera_tiny_224"), "12*2 + 2"),
    "eva02_tiny_patch14_224": "12*2 + 1",  # no head
    **dict.fromkeys(("swin_tiny_patch4_window7_224", "swinv2_tiny_window8_256"), "12*2 + 5"),
    **dict.fromkeys(("swin_s3_tiny_224", "focalnet_tiny_srf"), "12*2 + 5"),
    "twins_svt_small": "18*2 + 4 + 5",  # one position encoding a stage
    "twins_pcpvt_small": "16*2 + 4 + 5",
    "pvt_v2_b0": "8*2 + 5",
    "levit_128": "13*2 + 4 + 2*2 + 1",  # the attention of a downsampling has no skip
    "xcit_nano_12_p16_224": "12*3 + 2*2 + 5",
    "visformer_tiny": "7 + 8*2 + 5",
    "mixer_s16_224": "8*2 + 2",
    "resmlp_12_224": "12*2 + 2",
    "gmlp_s16_224": "30 + 2",
    "poolformer_s12": "12 + 5",  # pooling has no weights
    **dict.fromkeys(("caformer_s18", "convformer_s18"), "18*2 + 6"),
    "maxvit_tiny_tf_224": "11*5 + 4",
    "coatnet_0_rw_224": "5 + 9*2 + 3",
    "mvitv2_tiny": "10*2 + 2",
    "davit_tiny": "6*2*4 + 5",
    "efficientformer_l1": "14 + 2 + 6",
    "efficientformerv2_s0": "14 + 4 + 3 + 3",
    "edgenext_xx_small": "12 + 5",
    "pit_ti_224": "12*2 + 4",
    **dict.fromkeys(("resnet18", "skresnet18"), "8 + 2"),
    **dict.fromkeys(("resnet50", "resnext50_32x4d", "wide_resnet50_2", "seresnet50"), "16 + 2"),
    **dict.fromkeys(("res2net50_26w_4s", "resnetv2_50"), "16 + 2"),
    "resnet101": "33 + 2",
    "resnet152": "50 + 2",
    "resnest14d": "4 + 4",  # three convolutions in the stem
    "ecaresnet26t": "8 + 4",
    "resnetrs50": "16 + 5",
    **dict.fromkeys(("regnetx_002", "regnety_002"), "13 + 2"),
    "vgg11": "11",
    **dict.fromkeys(("vgg16", "vgg16_bn"), "16"),
    "xception41": "12 + 2 + 3*2 + 1",
    "inception_next_tiny": "18 + 6",
    "mobilevitv2_050": "9*2 + 1 + 5*3 + 3*3 + 2",  # transformer and bottleneck updates; bottlenecks without skip
    "fastvit_t8": "10*2 + 3 + 3*2 + 2",  # two layers in each downsampling
    "mobilenetv1_100": "1 + 13*2 + 1",
    "mobilenetv2_100": "10 + 1 + 2 + 6*3 + 2",
    "mobilenetv3_small_100": "6 + 1 + 2 + 4*3 + 3",
    "mobilenetv4_conv_small": "10 + 5 + 2*4 + 3",  # four layers in a block without skip
    "fbnetc_100": "15 + 1 + 6*3 + 2",
    "tinynet_a": "12 + 1 + 2 + 6*3 + 2",
    "hardcorenas_a": "5 + 1 + 2 + 5*3 + 3",
    **dict.fromkeys(("ghostnet_100", "repghostnet_050"), "16 + 4"),
    "efficientnet_b0": "9 + 1 + 2 + 6*3 + 2",
    "mnasnet_100": "10 + 1 + 2 + 6*3 + 2",
    "efficientnetv2_s": "35 + 2*2 + 3*3 + 3",
    "lcnet_050": "1 + 13*2 + 2",
    "repvgg_a0": "22 + 1",
    "mobileone_s0": "1 + 21*2 + 1",
    "convnext_tiny": "18 + 5",
    "convnextv2_atto": "12 + 5",
    "convnext_base": "36 + 5",
    "darknet53": "23 + 7",
    **dict.fromkeys(("nfnet_f0", "dm_nfnet_f0", "eca_nfnet_l0"), "12 + 6"),
    "gernet_s": "14 + 3",
    "tresnet_m": "21 + 2",
    "starnet_s1": "15 + 6",
    **dict.fromkeys(("densenet121", "rdnet_tiny", "dla34", "dpn68", "inception_v3", "inception_v4")),
    **dict.fromkeys(("inception_resnet_v2", "cspresnet50", "cspdarknet53", "hrnet_w18_small", "selecsls42")),
    **dict.fromkeys(("vovnet39a", "hgnet_tiny", "crossvit_tiny_240", "coat_lite_tiny", "tnt_s_patch16_224")),
    **dict.fromkeys(("cait_xxs24_224", "volo_d1_224", "mobilevit_xxs", "nextvit_small", "sequencer2d_s")),
    "rexnet_100": None,  # the skip covers a part of the channels
}
HF: dict[str, str | None] = {
    **dict.fromkeys(("gpt2", "gpt_bigcode", "opt", "nanochat"), "12*2 + 2"),
    **dict.fromkeys(("gpt_neo", "mpt", "biogpt", "xglm", "xlnet", "qwen3_moe"), "24*2 + 2"),
    "gpt_neox": "44 + 2",  # attention and MLP in parallel
    **dict.fromkeys(("gptj", "codegen"), "28 + 2"),
    "phi": "24 + 2",
    "falcon": "32 + 2",
    "cohere": "40 + 2",
    "bloom": "2*2 + 2",
    **dict.fromkeys(("llama", "mistral", "qwen2", "qwen3", "phi3", "stablelm", "olmo2", "granite"), "32*2 + 2"),
    **dict.fromkeys(("mixtral", "rwkv"), "32*2 + 2"),
    "mamba": "32 + 2",
    "olmoe": "16*2 + 2",
    "gemma": "28*2 + 2",
    **dict.fromkeys(("gemma2", "gemma3_text"), "26*2 + 2"),
    "starcoder2": "30*2 + 2",
    "smollm3": "36*2 + 2",
    **dict.fromkeys(("bert", "roberta", "deberta", "mpnet"), "12*2 + 3"),  # the head has two layers
    "distilbert": "6*2 + 3",
    "electra": "12*2 + 4",
    "deberta-v2": "24*2 + 3",
    "modernbert": "22*2 + 3",
    "fnet": "12 + 4",  # the Fourier transform has no weights
    "t5": "6*3 + 2",  # the decoder's path
    **dict.fromkeys(("bart", "pegasus"), "12*3 + 2"),
    "whisper": "4*3 + 2",
    **dict.fromkeys(("wav2vec2", "hubert"), "12*2 + 1 + 7 + 1 + 2"),
    **dict.fromkeys(("audio-spectrogram-transformer", "vit", "deit", "beit", "dinov2"), "12*2 + 2"),
    "swin": "12*2 + 5",
    "convnext": "18 + 5",
    "resnet": "16 + 2",
    "segformer": "8*2 + 5",
    **dict.fromkeys(("albert", "mobilevit")),
}
DEPTHS: dict[str, str | None] = {}
DEPTHS |= {f"timm/{name}": convention for name, convention in TIMM.items()}
DEPTHS |= {f"hf/{name}": convention for name, convention in HF.items()}

TINY = "hidden_size=32&intermediate_size=64&num_hidden_layers=3&num_attention_heads=2&vocab_size=64"
IMAGE = "3x64x64"
ENERGIES: dict[str, str | None] = {
    **dict.fromkeys(("timm/resnet18", "timm/resnet26", "timm/convnextv2_atto", "timm/mobilenetv2_100"), IMAGE),
    **dict.fromkeys(("timm/regnety_002", "timm/mobilenetv3_small_100", "timm/efficientnet_b0"), IMAGE),
    **dict.fromkeys(("timm/repvgg_a0", "timm/pvt_v2_b0", "timm/poolformer_s12", "timm/edgenext_xx_small"), IMAGE),
    "timm/densenet121": IMAGE,
    "timm/vit_tiny_patch16_224?img_size=64": None,
    "timm/mixer_s16_224?img_size=64": None,  # its head starts at zero
    "timm/xcit_nano_12_p16_224": IMAGE,
    "hf/gpt2?n_layer=3&n_embd=32&n_head=2&vocab_size=64": None,
    f"hf/llama?{TINY}": None,
    f"hf/bert?{TINY}": None,
    f"hf/gpt_neox?{TINY}": None,
    f"hf/qwen3?{TINY}&num_key_value_heads=2&head_dim=16": None,
    f"hf/mixtral?{TINY}&num_key_value_heads=2&num_local_experts=4": None,
    f"hf/mixtral?{TINY}&num_key_value_heads=2&num_local_experts=4&_experts_implementation=grouped_mm": None,
    "hf/t5?num_layers=2&d_model=32&d_ff=64&num_heads=2&d_kv=16&vocab_size=64": None,
    "experiments.breadth:bags": None,
}


def bags() -> tuple[nn.Module, tuple[Tensor, ...]]:
    """Bags of tokens and an MLP: `nn.EmbeddingBag` has no forward-mode derivative."""
    layers = (nn.EmbeddingBag(64, 32), nn.Linear(32, 32), nn.ReLU(), nn.Linear(32, 10))
    return nn.Sequential(*layers), (torch.randint(64, (8, 16)),)


def depth_row(model: str, convention: str | None) -> dict[str, Any]:
    """Count one model, and compare the count with the convention."""
    expected = None
    if convention:
        expected = sum(_product(term) for term in convention.split("+"))
    row: dict[str, Any] = {"model": model, "convention": convention, "expected": expected}
    begin = time.perf_counter()
    try:
        found = effective_depth(*build(model, meta=True))
    except DepthlrError as error:
        verdict = "out of scope" if expected is None else "wrong"
        row |= {"counted": None, "plain": None, "residual": None, "verdict": verdict, "notes": _cell(str(error))}
    else:
        flagged = any(not flag.startswith("weight sharing") for flag in found.flags)
        right = found.total == expected or (expected is None and flagged)
        verdict = "right" if right else "wrong"
        if convention is None and right:
            verdict = "out of scope"
        counts = {"counted": found.total, "plain": found.plain, "residual": found.residual}
        row |= {**counts, "verdict": verdict, "notes": _cell(" ".join(found.flags))}
    return row | {"seconds": round(time.perf_counter() - begin, 2)}


def _product(term: str) -> int:
    return prod(map(int, term.split("*")))


def _cell(notes: str) -> str:
    return notes.replace(",", ";")  # the tables do not quote


def energy_row(model: str, shape: str | None, optimizer: str) -> dict[str, Any]:
    """Measure one step of one model in train mode, on eight random examples with random classes."""
    torch.manual_seed(0)
    made, example = build(model, input=shape)
    begin = time.perf_counter()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        found = update_energy(made.train(), _batch(example), _loss, optimizer)
    differences = any("finite differences" in str(one.message) for one in caught)
    way = "finite differences" if differences else "forward mode"
    return {
        "model": model,
        "input": shape,
        "optimizer": optimizer,
        "units": len(found.units),
        "mean_energy": found.mean,
        "readout_energy": found.readout,
        "rate": found.rate if found.mean else None,  # a head that starts at zero moves nothing before it
        "way": way,
        "seconds": round(time.perf_counter() - begin, 2),
    }


def _batch(example: Any) -> Any:
    """Eight examples, as a batch of inputs and an unused target."""

    def eight(tensor: Tensor) -> Tensor:
        draw = torch.Generator().manual_seed(1)
        shape = (8, *tensor.shape[1:])
        if tensor.is_floating_point():
            return torch.randn(shape, generator=draw)
        return torch.randint(int(tensor.max()) + 1, shape, generator=draw)

    if isinstance(example, Mapping):
        return {name: eight(tensor) for name, tensor in example.items()}
    return tuple(map(eight, example)), torch.zeros(8)


def _loss(output: Any, target: Any) -> Tensor:
    logits = readout_of(output)
    flat = logits.reshape(-1, logits.shape[-1])
    return nn.functional.cross_entropy(flat, torch.arange(len(flat)) % flat.shape[-1])


def write_page(page: Path = PAGE) -> None:
    """Put the tables into the page."""
    depths = read_table(RESULTS / "depth.csv", DEPTH_COLUMNS)
    energies = read_table(RESULTS / "energy.csv", ENERGY_COLUMNS)
    verdicts = ("right", "out of scope", "wrong")
    libraries = {"timm": "timm/", "Hugging Face": "hf/"}
    counts = []
    for name, start in libraries.items():
        found = [row["verdict"] for row in depths if row["model"].startswith(start)]
        counts.append((name, *(str(found.count(verdict)) for verdict in verdicts)))
    put(page, "summary", markdown_table(("library", *verdicts), counts))
    rows = [
        (r["model"], r["convention"] or "–", r["counted"] or "refused", r["verdict"], r["seconds"], _short(r["notes"]))
        for r in depths
    ]
    put(page, "depth", markdown_table(("model", "by hand", "counted", "verdict", "seconds", "note"), rows))
    measured = []
    for r in energies:
        mean, readout = f"{float(r['mean_energy']):.3g}", f"{float(r['readout_energy']):.3g}"
        measured.append((f"`{r['model']}`", r["optimizer"], r["units"], mean, readout, r["way"], r["seconds"]))
    head = ("model", "optimizer", "units", "mean energy", "readout energy", "measured by", "seconds")
    put(page, "energy", markdown_table(head, measured))


def _short(notes: str) -> str:
    """What a note is about: its words before the first place or colon."""
    kinds = ("concatenative skip", "long skip", "recurrence", "weight sharing", "the model is recurrent")
    return ", ".join(kind for kind in kinds if kind in notes)


def write_depths() -> None:
    """Count every model of `DEPTHS`."""
    rows = []
    for model, convention in DEPTHS.items():
        rows.append(depth_row(model, convention))
        print(rows[-1], file=sys.stderr)
    write_table(RESULTS / "depth.csv", DEPTH_COLUMNS, rows)


def write_energies() -> None:
    """Measure every model of `ENERGIES` with two optimizers."""
    rows = []
    for model, shape in ENERGIES.items():
        for optimizer in ("sgd", "adamw"):
            rows.append(energy_row(model, shape, optimizer))
            print(rows[-1], file=sys.stderr)
    write_table(RESULTS / "energy.csv", ENERGY_COLUMNS, rows)


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("parts", nargs="*", help="depth, energy, page; all of them if none is named")
    parts = options.parse_args().parts or ["depth", "energy", "page"]
    make_folder(RESULTS)
    if "depth" in parts:
        write_depths()
    if "energy" in parts:
        write_energies()
    if "page" not in parts:
        return
    packages = {name: version(name) for name in ("torch", "timm", "transformers")}
    write_json(RESULTS / "facts.json", {"packages": packages, "threads": torch.get_num_threads()})
    write_page()


if __name__ == "__main__":
    main()
