"""What proves the claims about depthlr. It needs a checkout: the wheel does not hold it.

python -m experiments.paper           the paper's tables and figures
python -m experiments.transferbench   rules that carry a learning rate across depth, compared on short tasks
python -m experiments.speed           speed benchmarks and checks
python -m experiments.realbench       the same on recipes that people run
python -m experiments.house           size and shape of the source, beside those of a revision
"""
