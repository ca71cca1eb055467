"""`andiron check`: validates options, data and model; makes no folder, and writes nothing."""

import argparse
from pathlib import Path

from andiron import errors
from andiron.run_folder import RunFolder
from andiron.shell.cli import answers, command_line
from andiron.shell.cli.answer_schemas import COUNT, by_name, closed
from andiron.shell.cli.process import Command, with_overrides
from andiron.shell.config import (
    arguments as command_arguments, composition, project
)  # fmt: skip
from andiron.shell.config.schema import Train
from andiron.shell.run import claim


def _parser() -> argparse.ArgumentParser:
    parser = answers.Parser(
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
        raise errors.ConfigError(["-m: one run is checked; leave it out, with one value each"])
    command_line.refuse_resume(arguments)
    with errors.preventing("nothing was checked"):
        config = composition.composed(project.default_conf_dir(), arguments)
        _check_folder(arguments, config)
        checked, measured = ["options"], dict[str, dict[str, int]]()
        if not options.options:
            from andiron.wings.runs import planned_run  # imports torch

            checked, measured = ["options", "data", "model"], planned_run.check(config)
    if not answers.give({"checked": checked, **measured}):
        print(f"checked: {', '.join(checked)}")


def _check_folder(arguments: list[str], config: Train) -> None:
    """Refuses the folder of the run if training would; not one that an interpolation names."""
    given = map(command_arguments.parsed_override, command_arguments.parsed(arguments).overrides)
    for override in filter(None, given):
        path = str(override.value()).replace(r"\${", "$\0{")
        if override.key_or_group == "hydra.run.dir" and "${" not in path:
            is_used = config.overwrite or config.resume is not None
            claim.check(RunFolder(Path(path.replace("\0", ""))), may_hold_run=is_used)


ANSWERS = [
    closed({"checked": {"const": ["options"]}}),
    closed({
        "checked": {"const": ["options", "data", "model"]}, "steps": by_name(COUNT),
        "memory_bytes": by_name(COUNT),
    }),
]  # fmt: skip
main = Command(_parser, ANSWERS, _check, parse=with_overrides)
