"""RealBench: learning rates tuned on recipes that people run, and how well rules carry them across depth.

    python -m experiments.realbench data --cifar DATA --wav DATA/fsdd/recordings --out realbench-data
    python -m experiments.realbench list
    python -m experiments.realbench oracle --data realbench-data --only design   (a GPU; minutes a recipe)
    python -m experiments.realbench table

The recipes are in `recipes.py`: a frozen list, half of it to design rules on, half to judge them.
"""
