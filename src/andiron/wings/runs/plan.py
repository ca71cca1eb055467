"""`andiron plan`: shows a run before it is trained."""

import argparse
from pathlib import Path

from andiron.shell.cli import command_line
from andiron.shell.config.schema import Train
from andiron.wings.commands import declaration
from andiron.wings.commands.answer_schemas import COUNT, NUMBER, TEXT, by_name, closed, or_null
from andiron.wings.trained import named_output


def _parser() -> argparse.ArgumentParser:
    about = "Describe a run without training it: steps, groups, learning rates, memory."
    return declaration.Parser(description=about, add_help=False, allow_abbrev=False)  # Hydra's help


def _run(options: argparse.Namespace) -> None:
    command_line.main(_plan, None, declaration.in_folder(options.overrides, "plan"))


def _plan(config: Train, run_dir: Path, hydra_record: dict[str, str]) -> None:
    named_output.check_folder(run_dir)
    from andiron.wings.runs import planned_run  # imports torch

    planned_run.plan(config, run_dir)


ANSWERS = [closed({
    "run_dir": TEXT, "steps": by_name(COUNT), "groups": by_name(by_name()),
    "learning_rates": by_name(by_name(NUMBER)), "memory_bytes": by_name(COUNT),
    "slices": or_null(COUNT),
})]  # fmt: skip
main = declaration.Command(_parser, ANSWERS, _run, parse=declaration.with_overrides)
