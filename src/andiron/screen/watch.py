"""The screen of a run that another process trains, from its folder alone; it changes nothing."""

import argparse
import os
import shutil
import sys
import threading
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from andiron import errors
from andiron.cli import process
from andiron.disk import files
from andiron.plain import readable
from andiron.run import named_folder, status
from andiron.run_folder import RunFolder
from andiron.screen import display, layout, terminal
from andiron.screen.curves import Curves
from andiron.screen.followed_values import FollowedValues, tail
from andiron.screen.rows import written
from andiron.screen.view import LOOKING, Choice, View

EXIT_DONE, EXIT_UNUSABLE, EXIT_INTERRUPTED = 0, 1, 130
PRINTED = (100, 32)  # columns and rows where there is no terminal
LINES_OF_THE_LOG = 100
SECONDS_OF_SILENCE = 10  # after which the screen tells how old the newest value is


class WatchedRun:
    """The run in a folder, as its files tell it at each `view`."""

    def __init__(self, folder: RunFolder):
        self._folder = folder
        self._values = FollowedValues(folder.metrics, Curves(_directions(folder)))

    def view(self) -> View:
        """The run as it stands; what its files do not tell stays empty."""
        self._values.read()
        curves, found = self._values.curves, status.read(self._folder)
        config = _read(self._folder.config)
        num_epochs, num_updates = _count(config, "num_epochs"), _count(config, "num_updates")
        num_updates = num_updates or round(num_epochs * curves.updates_per_epoch)
        left = curves.readings.get("time/step", 0.0) * (num_updates - curves.updates)
        is_running = found.get("status") == "running"
        return View(
            name=str(self._folder.path),
            state=self._state(found),
            epoch=curves.epoch,
            num_epochs=0 if _count(config, "num_updates") else num_epochs,
            updates=curves.updates,
            num_updates=num_updates,
            elapsed=status.seconds(found, datetime.now(UTC)),
            left=left if is_running and 0 < left < float("inf") else None,
            curves=curves,
            lines=list(filter(_is_message, tail(self._folder.log, LINES_OF_THE_LOG))),
            keys={"q": "leave; the run continues"} | LOOKING,
        )

    def _state(self, found: dict[str, Any]) -> str:
        state, reason = (str(found.get(name) or "") for name in ("status", "reason"))
        if state != "running":
            return f"{state or 'unknown'}{f': {reason}' if reason else ''}"
        try:
            silence = time.time() - os.stat(self._folder.metrics).st_mtime
        except OSError:
            return state
        old = silence > SECONDS_OF_SILENCE
        return f"{state}, newest value {readable.duration(silence)} ago" if old else state


def _is_message(line: str) -> bool:
    """Whether a line of the log is one for people, and no part of a traceback."""
    return line[:1].isdigit() and " DEBUG " not in line[:40]


def _read(path: Path) -> dict[str, Any]:
    try:
        found = files.read_json(path)
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}


def _directions(folder: RunFolder) -> dict[str, str]:
    """Which way each metric is better, as a run records it at its end."""
    found = _read(folder.summary).get("directions")
    return found if isinstance(found, dict) else {}


def _count(config: dict[str, Any], name: str) -> int:
    value = config.get(name)
    return value if type(value) is int and 0 < value < 10**15 else 0


@process.command
def main() -> int:
    """Runs `python scripts/watch.py`; returns the exit code."""
    parser = argparse.ArgumentParser(
        description="Show the dashboard of a run that another process trains; q quits.",
        epilog="With --once, or without a terminal, the dashboard is printed once.",
    )
    parser.add_argument("run", metavar="RUN", help="a run folder, or latest")
    parser.add_argument("--once", action="store_true", help="print the dashboard once, as text")
    options = parser.parse_args()
    try:
        run = WatchedRun(named_folder.found(options.run))
    except errors.AndironError as error:
        print(f"error: {error}", file=sys.stderr)
        return EXIT_UNUSABLE
    place = None if options.once else terminal.here()
    if place is None:
        for row in layout.screen(run.view(), Choice(), *shutil.get_terminal_size(PRINTED)):
            print(written(row, None).rstrip())
        return EXIT_DONE
    is_over = threading.Event()

    def press(key: str) -> None:
        if key == "q":
            is_over.set()

    try:
        with terminal.suspended_well(place):
            display.show(place, run.view, press, is_over)
    except KeyboardInterrupt:
        return EXIT_INTERRUPTED
    return EXIT_DONE
