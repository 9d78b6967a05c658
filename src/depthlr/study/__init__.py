"""Layer 4: a sweep over rates that is described, searched, stored and resumed."""

from depthlr.study.ask_tell import ask, create_study, tell
from depthlr.study.description import (
    Data,
    Models,
    Search,
    Study,
    parse_study,
    read_study,
    study_from_dict,
    to_toml,
)
from depthlr.study.follow import read_snapshot
from depthlr.study.record import Environment, Record, current_environment
from depthlr.study.results import Results, read_results, to_csv, to_json
from depthlr.study.run import SweepInterrupted, sweep, sweep_function
from depthlr.study.search import Estimate, Progress, SearchState, missing_cells
from depthlr.study.store import open_store, read_store
from depthlr.study.tasks import depths_of, task_at
from depthlr.training.training import Training

__all__ = [
    "Data",
    "Environment",
    "Estimate",
    "Models",
    "Progress",
    "Record",
    "Results",
    "Search",
    "SearchState",
    "Study",
    "SweepInterrupted",
    "Training",
    "ask",
    "create_study",
    "current_environment",
    "depths_of",
    "missing_cells",
    "open_store",
    "parse_study",
    "read_results",
    "read_snapshot",
    "read_store",
    "read_study",
    "study_from_dict",
    "sweep",
    "sweep_function",
    "task_at",
    "tell",
    "to_csv",
    "to_json",
    "to_toml",
]
