"""Update energy against one training step of the same model: time and peak memory, each in a process of its own.

python benchmarks/energy.py                    # the CPU, or the GPU where there is one
python benchmarks/energy.py --batch 128 --json energy.json
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

from depthlr import init_, update_energy
from depthlr.models.build import build

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

    run = {"step": train, "energy": energy}[job]
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
    parser.add_argument("--json")
    options = parser.parse_args()
    device = "cuda" if cuda else "cpu"
    name = torch.cuda.get_device_name() if cuda else f"CPU, {torch.get_num_threads()} threads"
    print(f"{name}, torch {torch.__version__}, batch {options.batch}, fp32")
    print(f"{'model':<34}{'step ms':>10}{'energy ms':>11}{'ratio':>7}{'step MiB':>10}{'energy MiB':>12}{'ratio':>7}")
    results = {}
    for spec in MODELS:
        found = {}
        for job in ("step", "energy"):
            with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
                found[job] = pool.submit(measure, spec, job, options.batch, device, options.repeats).result()
        results[spec] = found
        times, peaks = ([found[j][k] for j in ("step", "energy")] for k in ("seconds", "peak_bytes"))
        print(
            f"{spec:<34}{times[0] * 1e3:>10.1f}{times[1] * 1e3:>11.1f}{times[1] / times[0]:>7.2f}"
            f"{peaks[0] / 2**20:>10.0f}{peaks[1] / 2**20:>12.0f}{peaks[1] / peaks[0]:>7.2f}"
        )
    if options.json:
        with open(options.json, "w") as file:
            json.dump({"device": name, "torch": torch.__version__, "batch": options.batch, "results": results}, file)


if __name__ == "__main__":
    main()
