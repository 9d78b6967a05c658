"""Speed benchmarks and checks of depthlr, one module each.

python -m experiments.speed                    list them
python -m experiments.speed NAME [OPTIONS]     run one
"""
