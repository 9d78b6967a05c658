"""Running a recipe's settings: resumable, within lent time, each writing its tables."""

from depthlr.recipes.running.deadline import Deadline
from depthlr.recipes.running.job import Job
from depthlr.recipes.running.jobs import chosen, home, job_of, run_job

__all__ = ["Deadline", "Job", "chosen", "home", "job_of", "run_job"]
