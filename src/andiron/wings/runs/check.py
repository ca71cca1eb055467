"""`andiron check`: validates options, data and model; makes no folder, and writes nothing."""

import argparse

from andiron import errors
from andiron.shell.cli import answers, command_line
from andiron.shell.config import (
    arguments as command_arguments, composition, project
)  # fmt: skip
from andiron.wings.commands import declaration
from andiron.wings.commands.answer_schemas import COUNT, by_name, closed
from andiron.wings.commands.declaration import Command, with_overrides


def _parser() -> argparse.ArgumentParser:
    parser = declaration.Parser(
        description="Check a run before it is trained: options, data and model, with one update in "
        "memory. Other arguments are overrides, as for train.py. Nothing is written.",
        allow_abbrev=False,
    )
    alone = "check the options alone, without reading data"
    parser.add_argument("--options", action="store_true", help=alone)
    return parser


def _check(options: argparse.Namespace) -> None:
    arguments = command_arguments.in_order(options.overrides)
    if command_arguments.parsed(arguments).multirun:
        raise errors.ConfigError("-m: one run is checked; leave it out, with one value each")
    command_line.refuse_resume(arguments)
    with errors.preventing("nothing was checked"):
        config = composition.composed(project.default_conf_dir(), arguments)
        checked, measured = ["options"], dict[str, dict[str, int]]()
        if not options.options:
            from andiron.wings.runs import planned_run  # imports torch

            checked, measured = ["options", "data", "model"], planned_run.check(config)
    if not answers.give({"checked": checked, **measured}):
        print(f"checked: {', '.join(checked)}")


ANSWERS = [
    closed({"checked": {"const": ["options"]}}),
    closed({
        "checked": {"const": ["options", "data", "model"]}, "steps": by_name(COUNT),
        "memory_bytes": by_name(COUNT),
    }),
]  # fmt: skip
main = Command(_parser, ANSWERS, _check, parse=with_overrides)
