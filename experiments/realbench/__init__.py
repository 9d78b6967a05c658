"""RealBench: learning rates tuned on recipes that people run, and how well rules carry them across depth.

    python -m experiments.realbench data --cifar DATA --wav DATA/fsdd/recordings --out realbench-data
    python -m experiments.realbench list
    python -m experiments.realbench plan                            (what needs a GPU, and what is finished)
    python -m experiments.realbench next --data realbench-data      (does what is next, for as long as it is told)
    python -m experiments.realbench page                            (writes the tables into docs/realbench.md)

The recipes are in `recipes.py`: a frozen list, half of it to design rules on, half to judge them.
"""
