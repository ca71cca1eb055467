"""Shared by all commands with a configuration: composition, trust, and the log on the terminal."""

import argparse
import dataclasses
import logging
import sys
from collections.abc import Callable
from pathlib import Path

from andiron import __version__, errors
from andiron.interrupter import Interrupter
from andiron.plain import readable
from andiron.ranges import MOST
from andiron.shell.cli.signals import Signals, installed
from andiron.shell.config import (
    arguments as command_arguments,
    composition,
    flags,
    project,
    trust,
)
from andiron.shell.config.trust import Trust

log = logging.getLogger("andiron")
Run = Callable[[composition.Task, Path, list[str]], None]  # composes and calls the task


def main(
    task: composition.Task,
    conf_dir: Path | None,
    arguments: list[str],
    *,
    signals: Signals | None = None,
    run: Run | None = None,
) -> None:
    """Calls `task` for the composed run, or for each run of a sweep.

    `signals` handles the stopping signals meanwhile. Only with a `run` of `resume_arguments` may
    the arguments resume or fork a run.
    Raises: AndironError; Interrupted for one of these signals.
    """
    if flags.prints_only(arguments, ["--version"]):
        print(f"andiron {__version__}")  # Hydra would print its own
        return
    conf_dir = conf_dir or project.default_conf_dir()
    show_log()
    arguments = sys.argv[1:] = command_arguments.in_order(arguments)  # Hydra reads them there
    with installed(signals or Signals(Interrupter())):
        if run is not None:
            run(task, conf_dir, arguments)
        else:
            refuse_resume(arguments)
            composition.run(task, conf_dir, command_arguments.in_this_process(arguments))


def refuse_resume(arguments: list[str]) -> None:
    """Refuses to resume with a command that trains nothing.

    Raises: ConfigError if the arguments resume a run.
    """
    values = command_arguments.values(arguments)
    if names := [name for name in ("resume", "resume_allow", "fork_from") if values.get(name)]:
        raise errors.ConfigError(
            f"{name}: this command trains nothing, so it has nothing to resume; leave it out"
            for name in names
        )


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


def show_log() -> None:
    """Prints log messages on the terminal too, without level and time."""
    log.setLevel(logging.DEBUG)
    if any(isinstance(handler, Printer) for handler in log.handlers):
        return
    printer = Printer(level=logging.INFO)
    # errors are printed once, by main, and epochs by the renderer
    epochs = "andiron.epoch"
    printer.addFilter(lambda record: record.levelno < logging.ERROR and record.name != epochs)
    log.addHandler(printer)


class Printer(logging.Handler):
    """Prints messages with `print`, so that a live display stays at the bottom."""

    def emit(self, record: logging.LogRecord) -> None:
        print(readable.printable(record.getMessage()))
