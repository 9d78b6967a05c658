"""Update and persistent energy against a training step: time and peak memory, each in a process of its own.

python -m experiments.speed energy                    # the CPU, or the GPU where there is one
python -m experiments.speed energy --batch 128 --json energy.json
python -m experiments.speed energy --model "resnet?blocks=16&width=4" --batch 1   # so small that Python alone is timed
"""

from __future__ import annotations

import argparse
import json
import resource
import time
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from statistics import median

import torch
import torch.nn.functional as F

from depthlr import init_, persistent_energy, update_energy
from depthlr.energy.batches import GRADIENT_BATCHES
from depthlr.models.build import build

JOBS = ("step", "energy", "persistent")
MODELS = ["resnet?blocks=16&width=64", "vit?blocks=8&width=384", "vit?blocks=8&width=384&norm=pre"]


def measure(spec: str, job: str, batch: int, device: str, repeats: int) -> dict[str, float]:
    """Median seconds and peak bytes of one job."""
    torch.manual_seed(0)
    model, _ = build(spec)
    x, y = torch.randn(batch, 3, 32, 32), torch.randint(10, (batch,))
    model = init_(model, x, seed=0).to(device)
    x, y = x.to(device), y.to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-4)

    def train() -> None:
        optimizer.zero_grad()
        F.cross_entropy(model(x), y).backward()
        optimizer.step()

    def energy() -> None:
        update_energy(model, (x, y), F.cross_entropy, optimizer)

    def persistent() -> None:
        persistent_energy(model, [(x, y)] * (GRADIENT_BATCHES + 1), F.cross_entropy, optimizer)

    run = {"step": train, "energy": energy, "persistent": persistent}[job]
    cuda = device == "cuda"
    seconds = []
    run()
    for _ in range(repeats):
        if cuda:
            torch.cuda.synchronize()
        start = time.perf_counter()
        run()
        if cuda:
            torch.cuda.synchronize()
        seconds.append(time.perf_counter() - start)
    peak = torch.cuda.max_memory_allocated() if cuda else resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    return {"seconds": median(seconds), "peak_bytes": float(peak)}


def main() -> None:
    cuda = torch.cuda.is_available()
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--batch", type=int, default=128 if cuda else 32)
    parser.add_argument("--repeats", type=int, default=20 if cuda else 5)
    parser.add_argument("--model", action="append", help=f"instead of {', '.join(MODELS)}")
    parser.add_argument("--json")
    options = parser.parse_args()
    device = "cuda" if cuda else "cpu"
    name = torch.cuda.get_device_name() if cuda else f"CPU, {torch.get_num_threads()} threads"
    print(f"{name}, torch {torch.__version__}, batch {options.batch}, fp32")
    print(
        f"{'model':<34}{'step ms':>10}{'MiB':>7}"
        + "".join(f"{job + ' ms':>15}{'/ step':>8}{'MiB':>7}" for job in JOBS[1:])
    )
    results = {}
    for spec in options.model or MODELS:
        found = {}
        for job in JOBS:
            with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
                found[job] = pool.submit(measure, spec, job, options.batch, device, options.repeats).result()
        results[spec] = found
        step = found["step"]
        line = f"{spec:<34}{step['seconds'] * 1e3:>10.1f}{step['peak_bytes'] / 2**20:>7.0f}"
        for one in (found[job] for job in JOBS[1:]):
            ratio = one["seconds"] / step["seconds"]
            line += f"{one['seconds'] * 1e3:>15.1f}{ratio:>8.2f}{one['peak_bytes'] / 2**20:>7.0f}"
        print(line, flush=True)
    if options.json:
        with open(options.json, "w") as file:
            json.dump({"device": name, "torch": torch.__version__, "batch": options.batch, "results": results}, file)
