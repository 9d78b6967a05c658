"""A user's own training script: `python own_script.py --lr 0.1 --layers 2 --seed 0`.

It trains the MLP of the study in `test_own_training.py` on the digits, from the same initial weights and on the same
batches as depthlr's own trainer, and prints the mean loss over all steps as JSON.
"""

import argparse
import json

import torch
import torch.nn.functional as F

from depthlr.data import load_digits
from depthlr.data.batches import batch_order
from depthlr.init import init_
from depthlr.models.build import build

STEPS, BATCH = 20, 32


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--lr", type=float, required=True)
    parser.add_argument("--layers", type=int, required=True)
    parser.add_argument("--seed", type=int, required=True)
    options = parser.parse_args()
    torch.set_num_threads(1)
    digits = load_digits()
    model, example = build(f"mlp?width=8&layers={options.layers}", input=digits.input)
    init_(model, example, seed=options.seed)
    optimizer = torch.optim.SGD(model.parameters(), lr=options.lr)
    losses = []
    for indices in batch_order(len(digits), BATCH, STEPS, options.seed):
        inputs, target = digits.batch(indices)
        loss = F.cross_entropy(model(inputs), target)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    print(json.dumps({"loss": sum(losses) / len(losses)}))


if __name__ == "__main__":
    main()
