"""`python train.py` from its first moment, before Hydra is imported."""

import os
import sys
from pathlib import Path

from andiron.interrupter import Interrupter
from andiron.plain import wings
from andiron.shell.cli import process
from andiron.shell.cli.signals import Signals, installed
from andiron.shell.config.flags import SWEEPS


def run(conf_dir: Path | None = None, *, until_exit: bool = False) -> int:
    """Trains with the arguments of the command line; returns the exit code.

    With `until_exit` the process exits afterwards. Signals are handled from here on.
    Raises: AndironError; Interrupted.
    """
    shared, launcher = process.rank_and_size(os.environ), os.getppid()
    arguments, interrupter = sys.argv[1:], Interrupter(is_shared=shared is not None)
    interrupter.start()
    signals = Signals(interrupter, until_exit=until_exit)
    with installed(signals):
        if shared:
            from andiron.shell.training import ranks

            return ranks.main(arguments, conf_dir, signals, launcher, *shared)
        flags = {argument for argument in arguments if argument.startswith("-")}
        if flags and flags <= SWEEPS and hasattr(os, "fork"):
            if job_process := wings.optional("sweep.job_process"):
                job_process.start_early(arguments)
        from andiron.shell.training import resume_arguments  # imports Hydra

        resume_arguments.train(arguments, conf_dir, signals)
    return 0


main = process.command(run, trains=True, joins_others=True)


def script(conf_dir: Path | None = None) -> int:
    """`main` for a process that exits afterwards, and that may have blocked signals until now."""
    return main(conf_dir, until_exit=True)
