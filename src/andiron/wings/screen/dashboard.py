"""The full-screen dashboard of a run, with keys."""

import logging
import os
import sys
import threading
import time
from collections import deque
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager, redirect_stderr, redirect_stdout
from logging.handlers import BufferingHandler
from pathlib import Path
from typing import Any

from rich.console import Console

from andiron.interrupter import Interrupter
from andiron.progress import Progress
from andiron.protocols import Point
from andiron.render import summary_table, text
from andiron.run_folder import RunFolder
from andiron.wings.screen import terminal
from andiron.wings.screen.curves import Curves
from andiron.wings.screen.followed_values import FollowedValues
from andiron.wings.screen.view import View

REQUESTS = {"s": "save", "v": "validate"}
MOST_LINES = 1000  # of held output
SECONDS_AT_THE_END = 2.0  # for the last drawing, if the terminal is blocked
log = logging.getLogger("andiron")


def on_terminal(run_dir: Path | None) -> "Dashboard | None":
    """The dashboard on standard output; None if that is not a terminal with a screen."""
    own_terminal = terminal.here()
    return Dashboard(own_terminal, run_dir) if own_terminal else None


class Dashboard:
    """Progress, metrics and a chart, drawn a few times a second; keys steer the run.

    Printed text is shown at the bottom, and stays on the terminal afterwards, as does the line of
    each epoch. A thread draws from plain values: an update costs the training nothing.
    """

    def __init__(self, own_terminal: terminal.Terminal, run_dir: Path | None):
        self._folder = None if run_dir is None else RunFolder(run_dir)
        self._terminal = own_terminal
        self._console = Console()
        self._points: deque[Point] = deque(maxlen=10_000)
        self._lines: deque[str] = deque(maxlen=MOST_LINES)  # printed, and the epochs'
        # logged before the terminal is taken, such as the sizes of the data
        self._messages = BufferingHandler(MOST_LINES)
        self._messages.setLevel(logging.INFO)
        self._is_over = threading.Event()
        self._at_end = ExitStack()

    def connect(self, interrupter: Interrupter, directions: Mapping[str, str]) -> None:
        """Sends the keys to `interrupter`."""
        self._interrupter, self._curves = interrupter, Curves(directions)
        interrupter.cleanups.append(self._terminal.give_back)
        log.addHandler(self._messages)

    def start(self, progress: Progress) -> None:
        """Takes over the terminal."""
        log.removeHandler(self._messages)
        self._time_left = text.TimeLeft()
        self._progress, self._started = progress, time.perf_counter()
        if self._folder is not None:  # the values logged by earlier processes
            FollowedValues(self._folder.metrics, self._curves).read()
        self._is_over.clear()
        self._at_end.enter_context(held_output(self._lines))
        self._terminal.handle_suspension()
        arguments = self._terminal, self._view, self._press, self._is_over
        thread = threading.Thread(target=terminal.show, args=arguments, name="render", daemon=True)
        thread.start()
        self._at_end.callback(self._terminal.give_back)
        self._at_end.callback(thread.join, SECONDS_AT_THE_END)

    def add(self, point: Point) -> None:
        """Keeps the point for the next drawing."""
        self._points.append(point)

    def epoch_ended(self, progress: Progress, seconds: float) -> None:
        """Keeps the line of the epoch, which is printed at the end."""
        self._lines.append(text.line(progress, seconds))

    def stop(self) -> None:
        """Restores the terminal, and prints the held output."""
        self._is_over.set()
        self._at_end.close()

    def show(self, summary_: dict[str, Any]) -> None:
        """Prints the summary table."""
        summary_table.show(summary_, self._console)

    def _view(self) -> View:
        while self._points:
            point = self._points.popleft()
            self._curves.add(
                point.split, point.updates, point.epoch, point.values, point.whole_epoch
            )
        progress, interrupter = self._progress, self._interrupter
        elapsed, state = time.perf_counter() - self._started, "running"
        if interrupter.asked is not None:
            state = f"stopping ({interrupter.asked}): finishing the update and saving"
        earlier = [record.getMessage() for record in self._messages.buffer]
        return View(
            name="" if self._folder is None else str(self._folder.path),
            state=state,
            epoch=progress.epoch,
            num_epochs=progress.num_epochs,
            batch=progress.batch,
            num_batches=progress.num_batches,
            updates=progress.updates,
            num_updates=progress.num_updates,
            elapsed=elapsed,
            left=self._time_left.seconds(progress, elapsed),
            curves=self._curves,
            lines=[*earlier, *self._lines][-100:],
        )

    def _press(self, key: str) -> None:
        if key == "q":
            self._interrupter.stop("key q")
        elif key in REQUESTS:
            self._interrupter.request(REQUESTS[key])
            self._lines.append(f"{REQUESTS[key]} after this update")


@contextmanager
def held_output(lines: deque[str]) -> Iterator[None]:
    """A context in which printed lines are added to `lines`; on exit they are printed."""
    try:
        with redirect_stdout(_Stream(sys.stdout, lines)):
            with redirect_stderr(_Stream(sys.stderr, lines)):
                yield
    finally:
        while lines:
            print(lines.popleft())


class _Stream:
    """A text stream that appends whole lines to `lines`."""

    def __init__(self, stream: Any, lines: deque[str]):
        self._stream, self._lines = stream, lines
        self._process = os.getpid()
        self._begun = ""

    def write(self, text: str) -> int:
        if os.getpid() != self._process:  # a worker would never print held lines
            return self._stream.write(text)
        *whole, self._begun = (self._begun + text).split("\n")
        self._lines.extend(whole)
        return len(text)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)
