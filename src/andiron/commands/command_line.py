"""What every command that takes a configuration shares: the log on the terminal, and an exit code that tells how it went."""

import logging
import sys
from pathlib import Path

from andiron import errors
from andiron.commands.signals import Signals, exit_code, heard
from andiron.config import composition
from andiron.interrupter import Interrupter
from andiron.run import resume_arguments

EXIT_FAILED, EXIT_USAGE = (
    1,
    2,
)  # interrupted: 128 + the signal's number, as a shell has it, unless the config says another
log = logging.getLogger("andiron")


def main(
    task: composition.Task,
    conf_dir: Path | None,
    arguments: list[str],
    *,
    signals: Signals | None = None,
    resumes: bool = False,
) -> int:
    """Calls `task` for the run that the overrides in `arguments` compose, or for each of a sweep; the exit code.

    `signals` hears SIGINT, SIGTERM and SIGUSR1 meanwhile; only with `resumes` may the arguments resume a run.
    """
    sys.argv[1:] = arguments  # Hydra reads them there
    _show_log()
    try:
        with heard(signals or Signals(Interrupter())):
            if resumes:
                resume_arguments.run(task, conf_dir or default_conf_dir(), arguments)
            else:
                resume_arguments.refuse(arguments)
                composition.run(task, conf_dir or default_conf_dir(), arguments)
    except errors.AndironError as error:
        print(f"error: {error}", file=sys.stderr)
        return EXIT_USAGE if isinstance(error, errors.ConfigError) else EXIT_FAILED
    except KeyboardInterrupt as error:
        print(
            "interrupted; what was saved until then is in the run folder, and resume=<run folder> goes on",
            file=sys.stderr,
        )
        return exit_code(error)
    return 0


def default_conf_dir() -> Path:
    """`conf` as a wheel carries it, inside the package; in a checkout, at its top."""
    package = Path(__file__).resolve().parents[1]
    carried = package / "conf"
    return carried if carried.is_dir() else package.parents[1] / "conf"


def in_folder(arguments: list[str], kind: str) -> list[str]:
    """The arguments, with a run folder under outputs/`kind` unless they name one."""
    if any(argument.startswith("hydra.run.dir=") for argument in arguments):
        return arguments
    return [*arguments, "hydra.run.dir=outputs/" + kind + "/${now:%Y-%m-%d}/${now:%H-%M-%S-%f}"]


def _show_log() -> None:
    """What the log says also goes to the terminal, without the level and the time."""
    log.setLevel(logging.DEBUG)
    if any(isinstance(handler, Printer) for handler in log.handlers):
        return
    printer = Printer(level=logging.INFO)
    # errors are said once, by main, and epochs by the renderer
    printer.addFilter(lambda record: record.levelno < logging.ERROR and record.name == log.name)
    log.addHandler(printer)


class Printer(logging.Handler):
    """Says it through print, so that a live line drawn at the moment stays below it."""

    def emit(self, record: logging.LogRecord) -> None:
        print(record.getMessage())
