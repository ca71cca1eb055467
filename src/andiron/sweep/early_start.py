"""Starts what the jobs of a sweep are forked from while Hydra is imported and composes."""

import os
import re

from andiron.sweep import job_process, shares

OF_ANOTHER = ("hydra/launcher", "hydra.launcher.jobs")  # launcher, or another number of jobs
JOBS = re.compile(r"jobs=(\d{1,6})")


def start(arguments: list[str]) -> None:
    """Starts it where the arguments tell that it is needed, and how many threads it gets."""
    jobs = [match for each in arguments if (match := JOBS.fullmatch(each))]
    is_known = shares.THREADS in os.environ or len(jobs) == 1
    is_other = any(text in each for each in arguments for text in OF_ANOTHER)
    if is_known and not is_other:
        side_by_side = max(1, int(jobs[0][1])) if jobs else 1
        job_process.start_clean_process(shares.threads(side_by_side, os.environ))
