"""Starts the process that a sweep's jobs are forked from, while Hydra is imported and composes."""

import os
import re

from andiron.wings.sweep import job_process, shares

OVERRIDES = ("hydra/launcher", "hydra.launcher.jobs")  # of the launcher, of the number of jobs
JOBS = re.compile(r"jobs=(\d{1,6})")


def start(arguments: list[str]) -> None:
    """Starts the process if the arguments show that it is needed, and with how many threads."""
    jobs = [match for argument in arguments if (match := JOBS.fullmatch(argument))]
    is_known = shares.THREADS in os.environ or len(jobs) == 1
    is_overridden = any(text in argument for argument in arguments for text in OVERRIDES)
    if is_known and not is_overridden:
        side_by_side = max(1, int(jobs[0][1])) if jobs else 1
        job_process.start_clean_process(shares.threads(side_by_side, os.environ))
