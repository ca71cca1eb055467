"""The declaration of a command beside training: its parser, answers and run, shared arguments."""

import argparse
import dataclasses
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

from andiron import errors
from andiron.errors import Problem
from andiron.plain.plain_values import Plain
from andiron.ranges import MOST
from andiron.shell.cli import answers, process
from andiron.shell.config import project, trust
from andiron.shell.config.trust import Trust
from andiron.wings.commands.answer_schemas import Schema


@dataclass(frozen=True)
class Command:
    """A command: called, it parses the command line, runs, and returns the exit code.

    Each line that it prints with `--json` fits one of `answers`; `page` of docs/ describes it;
    for the last four fields see `process.command`.
    """

    parser: Callable[[], argparse.ArgumentParser]
    answers: Sequence[Schema]
    run: Callable[[argparse.Namespace], int | None]  # returns an exit code, or None for 0
    page: str = ""
    parse: Callable[[Any], argparse.Namespace] = argparse.ArgumentParser.parse_args
    trains: bool = False
    joins_others: bool = False
    interrupted: str = "interrupted"
    failed: int | None = None

    def __call__(self) -> int:
        def main() -> int:
            return self.run(self.parse(self.parser())) or 0

        return process.command(
            main, trains=self.trains, joins_others=self.joins_others,
            interrupted=self.interrupted, failed=self.failed,
        )()  # fmt: skip


def with_overrides(parser: argparse.ArgumentParser) -> argparse.Namespace:
    """The options of a command; its other arguments are in `overrides`."""
    options, overrides = parser.parse_known_args()
    return argparse.Namespace(**vars(options), overrides=overrides)


class Parser(argparse.ArgumentParser):
    """Arguments of a command; `--json` is in its help, and turns a mistake into an answer."""

    def __init__(self, *args: Any, **kwargs: Any):
        super().__init__(*args, **kwargs)
        about = "print JSON objects only, as docs/commands.md describes"
        self.add_argument(answers.FLAG, action="store_true", default=argparse.SUPPRESS, help=about)

    def error(self, message: str) -> NoReturn:
        """Ends the command, as `argparse.ArgumentParser` does; raises SelectionError for `--json`.
        """
        if not answers.are_asked():
            super().error(message)
        fields: Plain = {}
        if unknown := message.partition("unrecognized arguments: ")[2].partition(" ")[0]:
            flags = [flag for action in self._actions for flag in action.option_strings]
            fields = errors.choices(unknown, flags) | {"kind": "unknown_option", "option": unknown}
        if isinstance(error := sys.exc_info()[1], argparse.ArgumentError):
            fields = {"kind": "invalid_value", "option": error.argument_name}
            for action in self._actions:
                if action.choices and error.argument_name in action.option_strings:
                    fields |= {"allowed": {"enum": [*action.choices]}}
        raise errors.SelectionError(Problem(message, **fields))


def add_trust(parser: argparse.ArgumentParser) -> None:
    """Adds `--trust` to a command that builds what a run folder names."""
    parser.add_argument(
        "--trust",
        metavar="PACKAGE",
        nargs="+",
        type=_package,
        default=[],
        help="packages whose classes the run folder may name",
    )


def _package(text: str) -> str:
    """A package or an absolute path; raises ArgumentTypeError for what another argument means."""
    is_package = all(map(str.isidentifier, text.split("."))) and not Path(text).is_file()
    if is_package or Path(text).is_absolute():
        return text
    raise argparse.ArgumentTypeError(f"{text!r} is no package; give it before --trust")


def count(text: str) -> int:
    """An argument as an integer from 1 to `MOST`; raises ValueError for argparse."""
    value = int(text)
    if not 1 <= value <= MOST:
        raise ValueError(text)
    return value


def trusted(options: argparse.Namespace) -> Trust:
    """The trust of the user: packages of `--trust` and the project, classes that `conf/` names."""
    own = project.current()
    conf_dirs, packages = [*project.shipped_conf_dirs(), *own.conf], [*options.trust, *own.trust]
    return dataclasses.replace(trust.of_user(conf_dirs, packages), spelling="--trust {}")


def in_folder(arguments: list[str], kind: str) -> list[str]:
    """The arguments, with a run folder below outputs/`kind` unless they name one."""
    if any(argument.startswith("hydra.run.dir=") for argument in arguments):
        return arguments
    return [*arguments, "hydra.run.dir=outputs/" + kind + "/${now:%Y-%m-%d}/${now:%H-%M-%S-%f}"]
