"""python -m experiments.paper"""

from experiments.paper.app import app
from experiments.running import run_command

if __name__ == "__main__":
    run_command(app)
