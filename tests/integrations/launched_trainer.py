"""`torchrun launched_trainer.py FOLDER`: train with the callback, and write what each rank was told."""

import json
import os
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))  # a script's own folder is not the root of the tests

from tests.integrations.tiny_gpt2 import make_trainer

from depthlr import transfer_rate
from depthlr.integrations.hf import rate_callback, recipe_from_trainer, step_batches

folder = Path(sys.argv[1])
small, large = (make_trainer(folder / "run", layers, gradient_accumulation_steps=2) for layers in (1, 2))
rank = large.args.process_index
recipes = recipe_from_trainer(small), recipe_from_trainer(large)
callback = rate_callback(large, transfer_rate(3e-3 * (1 + rank), *recipes, seeds=2))
large.add_callback(callback)
large.train()
batch = next(iter(step_batches(large)))["batch"]["input_ids"]
(folder / f"{rank}.json").write_text(json.dumps({**callback.report.values(), "batch": len(batch)}))
sys.stdout.flush()
os._exit(0)  # in an ordinary exit gloo's threads may abort the process
