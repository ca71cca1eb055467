"""The dashboard of a run in another process, read from its folder; changes nothing."""

import argparse
import os
import re
import shutil
import threading
import time
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path

from andiron.disk import files
from andiron.plain import readable
from andiron.plain.states import State
from andiron.run_folder import RunFolder
from andiron.shell.cli import answers
from andiron.shell.run import finished_run, named_folder, status
from andiron.wings.commands import declaration
from andiron.wings.commands.answer_schemas import POINT, RUN
from andiron.wings.commands.declaration import Command
from andiron.wings.runs import run_reader
from andiron.wings.runs.logged_lines import Line
from andiron.wings.runs.run_reader import RunReader
from andiron.wings.runs.untrusted_files import read_object
from andiron.wings.screen import layout, terminal
from andiron.wings.screen.curves import Curves
from andiron.wings.screen.followed_values import FollowedValues
from andiron.wings.screen.view import Choice, LOOKING, View

EXIT_INTERRUPTED = 130
PRINTED = (100, 32)  # columns and rows without a terminal
LINES_OF_THE_LOG = 100
TAIL_BYTES = 2**16  # read for the last lines
# of a line of the log: its date, milliseconds and INFO are not shown
LOG_HEAD = re.compile(r"^\d{4}-\d\d-\d\d (\d\d:\d\d:\d\d),\d+ (?:INFO )?")
SECONDS_BETWEEN_ANSWERS = 0.5
SECONDS_OF_SILENCE = 10  # then the screen shows the age of the newest value


class WatchedRun:
    """The run in a folder; each `view` reads its files again."""

    def __init__(self, folder: RunFolder):
        self._folder = folder
        self._directions: dict[str, str] = {}
        self._values = FollowedValues(folder.metrics, Curves(self._directions), _answer)
        self._killed: dict[str, object] = {}  # the status that a killed process left

    def view(self) -> View:
        """The state of the run; fields without a record stay empty."""
        run_status = self._read_status()
        # recorded after the first update
        self._directions |= run_reader.directions([RunReader(self._folder)])
        self._values.read()
        curves = self._values.curves
        config = read_object(self._folder.config, [])
        log = tail(self._folder.log, LINES_OF_THE_LOG)
        num_updates = _count(config, "num_updates")
        num_epochs = 0 if num_updates else _count(config, "num_epochs")
        num_updates = num_updates or round(num_epochs * curves.updates_per_epoch)
        left = curves.seconds_of_update * (num_updates - curves.updates)
        is_running = run_status.get("status") == State.RUNNING
        is_known = run_status.get("status") != State.KILLED  # for how long it ran
        return View(
            name=str(self._folder.path),
            state=self._state(run_status),
            epoch=curves.epoch,
            num_epochs=num_epochs,
            updates=curves.updates,
            num_updates=num_updates,
            elapsed=run_reader.seconds(run_status, datetime.now(UTC)) if is_known else None,
            left=left if is_running and 0 < left < float("inf") else None,
            curves=curves,
            # messages, not debug output or parts of a traceback
            lines=[
                LOG_HEAD.sub(r"\1 ", line)
                for line in log
                if line[:1].isdigit() and " DEBUG " not in line[:40]
            ],
            keys={"q": "leave; the run continues"} | LOOKING,
        )

    def answer(self, *, once: bool) -> None:
        """Gives each log point, also the earlier ones, until the run ends, and then its results.
        """
        while (run_status := self._read_status()).get("status") == State.RUNNING and not once:
            self._values.read()
            time.sleep(SECONDS_BETWEEN_ANSWERS)
        self._values.read()
        listed = RunReader(self._folder).facts  # damaged or diverged, as in the list of runs
        answers.give(finished_run.plain(self._folder) | run_status | {"status": listed["status"]})

    def _read_status(self) -> dict[str, object]:
        """The recorded status, but `killed` if the process of a running run is gone."""
        recorded = status.read(self._folder)
        # looked for once: each look locks the log for an instant, which a resume would notice
        if recorded != self._killed and recorded.get("status") == State.RUNNING:
            self._killed = recorded if run_reader.is_abandoned(self._folder.log) else {}
        is_killed = bool(recorded) and recorded == self._killed
        return recorded | {"status": State.KILLED} if is_killed else recorded

    def _state(self, run_status: dict[str, object]) -> str:
        state, reason = (str(run_status.get(name) or "") for name in ("status", "reason"))
        if state != State.RUNNING:
            return f"{state or 'unknown'}{f': {reason}' if reason else ''}"
        try:
            silence = time.time() - os.stat(self._folder.metrics).st_mtime
        except OSError:
            return state
        is_silent = silence > SECONDS_OF_SILENCE
        return f"{state}, newest value {readable.duration(silence)} ago" if is_silent else state


def tail(path: Path, lines: int) -> list[str]:
    """The last lines of a log, from at most its last 64 KiB; never of one that is open here."""
    with suppress(OSError, ValueError), files.opened(path) as file:
        file.seek(max(0, os.fstat(file.fileno()).st_size - TAIL_BYTES))
        return file.read(TAIL_BYTES).decode(errors="replace").splitlines()[-lines:]
    return []


def _answer(line: Line) -> None:
    answers.give({"point": line._asdict()})


def _count(config: dict[str, object], name: str) -> int:
    value = config.get(name)
    return value if type(value) is int and 0 < value < 10**15 else 0


def _parser() -> argparse.ArgumentParser:
    parser = declaration.Parser(
        description="Show the dashboard of a run that another process trains; q quits.",
        epilog="With --once, or without a terminal, the dashboard is printed once.",
    )
    parser.add_argument("run", metavar="RUN", help="a run folder, or latest")
    parser.add_argument("--once", action="store_true", help="print the dashboard once, as text")
    return parser


def _watch(options: argparse.Namespace) -> int | None:
    run = WatchedRun(named_folder.run_folder_of(options.run))
    if answers.are_asked():
        run.answer(once=options.once)
        return None
    own_terminal = None if options.once else terminal.here()
    if own_terminal is None:
        print(layout.as_text(run.view(), Choice(), *shutil.get_terminal_size(PRINTED)))
        return None
    is_over = threading.Event()

    def press(key: str) -> None:
        if key == "q":
            is_over.set()

    own_terminal.handle_suspension()
    try:
        terminal.show(own_terminal, run.view, press, is_over)
    except KeyboardInterrupt:
        return EXIT_INTERRUPTED
    return None


main = Command(_parser, [POINT, RUN], _watch, page="dashboard.md")
