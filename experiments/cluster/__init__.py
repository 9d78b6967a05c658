"""One study on many machines, acted out on this one: the same table everywhere, and what two nodes are worth.

python -m experiments.cluster                 needs pip install '.[ray,slurm]'
"""
