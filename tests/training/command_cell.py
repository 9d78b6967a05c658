"""A training script that needs no torch: `python command_cell.py HOW SIZE SEED RATE`; seed 1 fails in the way HOW."""

import json
import os
import signal
import sys
import threading


def loss_at(size: int, seed: int, rate: float) -> float:
    return 2.0 + size / 10 + seed / 100 - rate


def fail(how: str) -> None:
    if how == "hangs":
        threading.Event().wait()
    if how == "killed" or (how == "killed once" and not os.path.exists(os.environ["DIED"])):
        if how == "killed once":
            open(os.environ["DIED"], "w").close()
        os.kill(os.getpid(), signal.SIGKILL)
    if how == "raises":
        raise ValueError("no luck")


if __name__ == "__main__":
    how, size, seed, rate = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), float(sys.argv[4])
    print("this line is no JSON")
    print(json.dumps({"step": 1, "loss": 9.0}))
    if seed == 1:
        fail(how)
    print(json.dumps({"step": 2, "loss": loss_at(size, seed, rate)}))
