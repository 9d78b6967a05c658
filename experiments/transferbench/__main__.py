"""python -m experiments.transferbench"""

from experiments.running import run_command
from experiments.transferbench.app import app

if __name__ == "__main__":
    run_command(app)
