"""`python train.py` from its first moment, before Hydra is imported."""

import os
import re
import sys
from functools import partial
from pathlib import Path

from andiron.commands import process
from andiron.commands.signals import Signals, heard
from andiron.config.flags import SWEEPS
from andiron.interrupter import Interrupter, SharedInterrupter
from andiron.sweep import shares

OF_ANOTHER = ("hydra/launcher", "hydra.launcher.jobs")  # launcher, or another number of jobs
JOBS = re.compile(r"jobs=(\d{1,6})")


@partial(process.training_command, joins_others=True)
def main(conf_dir: Path | None = None, *, until_exit: bool = False) -> int:
    """Runs `python train.py`; returns the exit code.

    With `until_exit` the process ends with it. A signal is answered from here on.
    """
    several = process.several(os.environ)
    arguments, interrupter = sys.argv[1:], SharedInterrupter() if several else Interrupter()
    interrupter.start()
    signals = Signals(interrupter, until_exit=until_exit)
    with heard(signals):
        if several:
            from andiron.commands import ranks

            return ranks.main(arguments, conf_dir, signals, *several)
        _start_clean_process(arguments)
        from andiron.commands import command_line, training  # they import Hydra

        train = training.Training(arguments, signals)
        return command_line.main(train, conf_dir, arguments, signals=signals, resumes=True)


def script(conf_dir: Path | None = None) -> int:
    """`main` for a process that ends with it, and that may have blocked signals until now."""
    return main(conf_dir, until_exit=True)


def _start_clean_process(arguments: list[str]) -> None:
    """Starts what the jobs of a sweep are forked from while Hydra is imported and composes.

    Only where the arguments tell that it is needed, and how many threads it gets.
    """
    flags = {each for each in arguments if each.startswith("-")}
    if not (flags and flags <= SWEEPS and hasattr(os, "fork")):
        return
    jobs = [match for each in arguments if (match := JOBS.fullmatch(each))]
    is_known = shares.THREADS in os.environ or len(jobs) == 1
    is_other = any(text in each for each in arguments for text in OF_ANOTHER)
    if is_known and not is_other:
        from andiron.sweep import job_process  # a single run needs no processes

        side_by_side = max(1, int(jobs[0][1])) if jobs else 1
        job_process.start_clean_process(shares.threads(side_by_side, os.environ))
