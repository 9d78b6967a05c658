"""TransferBench: how well a rule carries a learning rate across depth, on tasks whose best rates were swept.

python -m benchmarks.transferbench oracles --only NAME --data FOLDER     sweep a task (a GPU; resumable)
python -m benchmarks.transferbench measures --only NAME --data FOLDER    what rules look at: no training but range tests
python -m benchmarks.transferbench table --split dev                     the comparison, from the CSV files alone
"""
