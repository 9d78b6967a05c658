"""`python launched_lightning.py FOLDER`: fit with the callback on two processes, and write what each was told."""

import json
import os
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))  # a script's own folder is not the root of the tests

from tests.integrations.tiny_lightning import Data, LitMLP, lightning

from depthlr.integrations.lightning import rate_callback, recipe_from_lightning

folder = Path(sys.argv[1])
QUIET = {"enable_checkpointing": False, "enable_progress_bar": False, "enable_model_summary": False, "logger": False}


class Told(lightning.Callback):
    """Writes the rate of the run, and how many examples a step sees, on every rank."""

    def on_train_end(self, trainer, pl_module) -> None:
        recipe = recipe_from_lightning(lambda: LitMLP(3), Data())
        batch = next(iter(recipe.batches))["batch"][0]
        (optimizer,) = trainer.optimizers
        told = {**callback.report.values(), "lr": optimizer.param_groups[0]["lr"], "batch": len(batch)}
        (folder / f"{trainer.global_rank}.json").write_text(json.dumps(told))


trainer = lightning.Trainer(
    accelerator="cpu", devices=2, strategy="ddp", max_steps=2, default_root_dir=folder, callbacks=[Told()], **QUIET
)
callback = rate_callback(1e-2 * (1 + trainer.global_rank), small=lambda: LitMLP(2), large=lambda: LitMLP(3), seeds=2)
trainer.callbacks.insert(0, callback)
trainer.fit(LitMLP(3), Data())
os._exit(0)  # in an ordinary exit gloo's threads may abort the process
