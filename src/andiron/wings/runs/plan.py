"""`andiron plan`: shows a run before it is trained."""

import sys
from pathlib import Path

from andiron.shell.cli import command_line, process
from andiron.shell.config.schema import Train
from andiron.wings.trained import named_output


@process.command
def main(conf_dir: Path | None = None) -> int:
    """Runs `andiron plan`; returns the exit code."""
    command_line.main(_plan, conf_dir, command_line.in_folder(sys.argv[1:], "plan"))
    return 0


def _plan(config: Train, run_dir: Path, hydra_record: dict[str, str]) -> None:
    named_output.check_folder(run_dir)
    from andiron.wings.runs import planned_run  # imports torch

    planned_run.plan(config, run_dir)
