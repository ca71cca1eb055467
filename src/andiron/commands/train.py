"""Training as a command: compose and check, claim a folder, build, fit; and an exit code that tells how it went."""

import logging
import signal
import sys
from pathlib import Path
from types import FrameType

from andiron import errors
from andiron.config import composition
from andiron.config.schema import Train
from andiron.run import folder

EXIT_FAILED, EXIT_USAGE, EXIT_INTERRUPTED = 1, 2, 130  # 130 and 143: 128 + the signal's number, as a shell has it
log = logging.getLogger("andiron")


def train(config: Train, run_dir: Path, hydra_record: dict[str, str]) -> None:
    """One run in its own folder, from the configuration to the trained model."""
    with folder.claimed(run_dir, overwrite=config.overwrite):
        config.save(run_dir / "config.json")
        folder.write_all(run_dir / ".hydra", hydra_record)
        from andiron import experiment  # imports torch: a second or two, which a mistake above need not wait for

        experiment.build(config, run_dir).run()


def main(conf_dir: Path | None = None) -> int:
    """What `python train.py` does; the exit code."""
    _show_log()
    signal.signal(signal.SIGTERM, _terminate)
    try:
        composition.run(train, conf_dir or default_conf_dir(), sys.argv[1:])
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


def _show_log() -> None:
    """What the log says also goes to the terminal, without the level and the time."""

    class Printer(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            print(record.getMessage())  # through print, so that a live line drawn at the moment stays below it

    printer = Printer(level=logging.INFO)
    # errors are said once, by main, and epochs by the renderer
    printer.addFilter(lambda record: record.levelno < logging.ERROR and record.name == log.name)
    log.addHandler(printer)


def _terminate(signal_number: int, frame: FrameType | None) -> None:
    raise SystemExit(128 + signal_number)
