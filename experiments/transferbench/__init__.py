"""TransferBench: how well a rule carries a learning rate across depth, on tasks whose best rates were swept.

python -m experiments.transferbench oracles --only NAME --data FOLDER    sweep a task (a GPU; resumable)
python -m experiments.transferbench measures --only NAME --data FOLDER   what rules look at: no training but range tests
python -m experiments.transferbench table --split dev                    the comparison, from the CSV files alone
"""
