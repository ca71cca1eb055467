"""Shared by all commands with a configuration: its composition, and the log on the terminal."""

import logging
import sys
from collections.abc import Callable
from pathlib import Path

from andiron import __version__, errors
from andiron.interrupter import Interrupter
from andiron.plain import readable
from andiron.shell.cli.signals import Signals, installed
from andiron.shell.config import arguments as command_arguments, composition, flags, project

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
