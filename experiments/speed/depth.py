"""Depth counting grows linearly with the model: seconds at 10, 100 and 1,000 blocks; and a 7-billion-parameter model.

python -m experiments.speed depth
"""

from __future__ import annotations

import resource
import time

import torch

from depthlr import effective_depth
from depthlr.models.build import build

FAMILIES = ["resnet?blocks={}&width=8", "vit?blocks={}&width=16&heads=2", "gpt?blocks={}&width=16&heads=2"]
SIZES = (10, 100, 1000)


def main() -> None:
    effective_depth(*build("resnet?blocks=1&width=8", meta=True))  # what torch loads once is not the model's
    print(f"{'model':<34}" + "".join(f"{size:>9} blocks" for size in SIZES) + "   ms a block")
    for family in FAMILIES:
        seconds = []
        for size in SIZES:
            model, example = build(family.format(size), meta=True)
            start = time.perf_counter()
            effective_depth(model, example)
            seconds.append(time.perf_counter() - start)
        a_block = " ".join(f"{1e3 * s / n:.2f}" for s, n in zip(seconds, SIZES, strict=True))
        print(f"{family:<34}" + "".join(f"{s:>14.3f} s" for s in seconds) + f"   {a_block}")
    llama()


def llama() -> None:
    """Counted on the meta device, as anyone would who does not want to hold 27 GB of weights."""
    library = torch.library.Library("torchvision", "FRAGMENT")
    if not hasattr(torch.ops.torchvision, "nms"):  # a torchvision without its kernels stops transformers' import
        for operator in ("nms", "qnms"):
            library.define(f"{operator}(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
    from transformers import LlamaConfig, LlamaForCausalLM

    with torch.device("meta"):
        model = LlamaForCausalLM(LlamaConfig())
    count = sum(p.numel() for p in model.parameters())
    start = time.perf_counter()
    depth = effective_depth(model, torch.zeros(1, 128, dtype=torch.int64))
    seconds = time.perf_counter() - start
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    print(f"Llama, {count / 1e9:.2f} billion parameters: depth {depth.total} in {seconds:.2f} s, peak {peak:.2f} GiB")
