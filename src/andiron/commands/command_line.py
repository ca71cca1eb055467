"""What every command that takes a configuration shares: the log on the terminal, and an exit code that tells how it went."""

import logging
import signal
import sys
from pathlib import Path
from types import FrameType

from andiron import errors
from andiron.config import composition

EXIT_FAILED, EXIT_USAGE, EXIT_INTERRUPTED = 1, 2, 130  # 130 and 143: 128 + the signal's number, as a shell has it
log = logging.getLogger("andiron")


def main(task: composition.Task, conf_dir: Path | None, arguments: list[str]) -> int:
    """Calls `task` for the run that the overrides in `arguments` compose, or for each of a sweep; the exit code."""
    sys.argv[1:] = arguments  # Hydra reads them there
    _show_log()
    signal.signal(signal.SIGTERM, _terminate)
    try:
        composition.run(task, conf_dir or default_conf_dir(), arguments)
    except errors.AndironError as error:
        print(f"error: {error}", file=sys.stderr)
        return EXIT_USAGE if isinstance(error, errors.ConfigError) else EXIT_FAILED
    except KeyboardInterrupt:
        print("interrupted; what was saved until then is in the run folder", file=sys.stderr)
        return EXIT_INTERRUPTED
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


def _terminate(signal_number: int, frame: FrameType | None) -> None:
    raise SystemExit(128 + signal_number)
