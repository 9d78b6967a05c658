"""Clusters of this machine alone: Ray with several nodes, and SLURM with one.

Ray needs pip install '.[ray]'. SLURM needs root and Debian's packages: apt-get install slurm-wlm munge. Its daemons
keep their files in a folder of their own, and are ended afterwards.
"""

from __future__ import annotations

import os
import secrets
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from importlib import import_module
from pathlib import Path
from typing import Any

PROGRAMS = ("munged", "slurmctld", "slurmd", "sbatch", "srun")
START = 30.0  # seconds for the node to be idle
CONFIGURATION = """\
ClusterName=one
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={controller}
SlurmdPort={node}
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
AuthInfo=socket={folder}/munge.socket
CredType=cred/munge
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd.pid
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile={folder}/slurmd.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SwitchType=switch/none
MpiDefault=none
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
SchedulerParameters=sched_interval=2
ReturnToService=2
KillWait=5
NodeName={host} NodeAddr=127.0.0.1 CPUs={cpus} State=UNKNOWN
PartitionName=main Nodes=ALL Default=YES MaxTime=INFINITE State=UP
"""


class Unavailable(Exception):
    """This machine lacks what is needed; the message says what."""


def needed(module: str) -> Any:
    """An optional module."""
    try:
        return import_module(module)
    except ImportError as error:
        raise Unavailable(f"{module} is not installed") from error


@contextmanager
def ray_cluster(nodes: int) -> Iterator[tuple[Any, list[Any]]]:
    """Run Ray with nodes of one CPU each, and be connected to it. Yields the cluster, and its nodes but the first.

    Args:
        nodes: How many.
    """
    ray = needed("ray")
    from ray.cluster_utils import Cluster

    cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 1, "include_dashboard": False})
    try:
        others = [cluster.add_node(num_cpus=1) for _ in range(nodes - 1)]
        ray.init(address=cluster.address, log_to_driver=False, logging_level="error")
        yield cluster, others
    finally:
        ray.shutdown()
        cluster.shutdown()


@contextmanager
def one_node_slurm(folder: Path, cpus: int = 2) -> Iterator[None]:
    """Run SLURM for as long as the block lasts, and name it in SLURM_CONF.

    Args:
        folder: An empty folder for its files.
        cpus: What the node offers; more than there are is fine.
    """
    missing = [program for program in PROGRAMS if shutil.which(program) is None]
    if missing:
        raise Unavailable(f"{missing[0]} is not installed (apt-get install slurm-wlm munge)")
    if os.geteuid():
        raise Unavailable("only root starts SLURM")
    for name in ("state", "spool"):
        (folder / name).mkdir()
    key = folder / "munge.key"
    key.write_bytes(secrets.token_bytes(1024))
    key.chmod(0o600)
    controller, node = _free_port(), _free_port()
    host = socket.gethostname().partition(".")[0]
    file = folder / "slurm.conf"
    file.write_text(CONFIGURATION.format(host=host, folder=folder, controller=controller, node=node, cpus=cpus))
    munge = [f"--{name}={folder}/munge.{name}" for name in ("socket", "pid-file", "log-file", "seed-file")]
    before = os.environ.get("SLURM_CONF")
    os.environ["SLURM_CONF"] = str(file)
    with ExitStack() as stack:
        try:
            _start(stack, folder, ["munged", "--foreground", "--force", f"--key-file={key}", *munge])
            _start(stack, folder, ["slurmctld", "-D", "-f", str(file)])
            _start(stack, folder, ["slurmd", "-D", "-f", str(file)])
            _await_idle(folder)
            yield
        finally:
            if before is None:
                del os.environ["SLURM_CONF"]
            else:
                os.environ["SLURM_CONF"] = before


def _start(stack: ExitStack, folder: Path, command: Sequence[str]) -> None:
    log = stack.enter_context((folder / f"{command[0]}.out").open("wb"))
    process = subprocess.Popen(command, stdout=log, stderr=log)
    stack.callback(process.wait)
    stack.callback(process.terminate)


def _await_idle(folder: Path) -> None:
    until = time.monotonic() + START
    while time.monotonic() < until:
        found = subprocess.run(["sinfo", "-h", "-o", "%T"], capture_output=True, text=True)
        if found.stdout.strip() == "idle":
            return
        time.sleep(0.2)
    logs = "; ".join(text.splitlines()[-1] for path in folder.glob("*.log") if (text := path.read_text()))
    raise RuntimeError(f"SLURM has no idle node after {START:g} s ({logs}): see the logs in {folder}.")


def _free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])
