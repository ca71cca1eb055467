"""`andiron check`: validates options, data and model; makes no folder, and writes nothing."""

from pathlib import Path

from andiron import errors
from andiron.run_folder import RunFolder
from andiron.shell.cli import answers, process
from andiron.shell.config import (
    arguments as command_arguments, composition, project
)  # fmt: skip
from andiron.shell.config.schema import Train
from andiron.shell.run import claim, resume_arguments


@process.command
def main(conf_dir: Path | None = None) -> int:
    """Runs `andiron check`; returns the exit code."""
    parser = answers.Parser(
        description="Check a run before it is trained: options, data and model, with one update in "
        "memory. Other arguments are overrides, as for train.py. Nothing is written.",
        allow_abbrev=False,
    )
    alone = "check the options alone, without reading data"
    parser.add_argument("--options", action="store_true", help=alone)
    options, arguments = parser.parse_known_args()
    arguments = command_arguments.in_order(arguments)
    if command_arguments.parsed(arguments).multirun:
        raise errors.ConfigError(["-m: one run is checked; leave it out, with one value each"])
    resume_arguments.refuse(arguments)
    with errors.preventing("nothing was checked"):
        config = composition.composed(conf_dir or project.default_conf_dir(), arguments)
        _check_folder(arguments, config)
        answer = {"checked": ["options"]}
        if not options.options:
            from andiron.wings.runs import planned_run  # imports torch

            answer = {"checked": ["options", "data", "model"], **planned_run.check(config)}
    if not answers.give(answer):
        print(f"checked: {', '.join(answer['checked'])}")
    return 0


def _check_folder(arguments: list[str], config: Train) -> None:
    """Refuses the folder of the run if training would; not one that an interpolation names."""
    given = map(command_arguments.parsed_override, command_arguments.parsed(arguments).overrides)
    for override in filter(None, given):
        path = str(override.value()).replace(r"\${", "$\0{")
        if override.key_or_group == "hydra.run.dir" and "${" not in path:
            is_used = config.overwrite or config.resume is not None
            claim.check(RunFolder(Path(path.replace("\0", ""))), may_hold_run=is_used)
