"""What befalls a sweep: it is killed, its disk is full, its workers die, its file is damaged. Nothing may be lost.

python -m experiments.faults                   every scenario, about ten minutes (make faults)
python -m experiments.faults kill bitflips     some of them
"""
