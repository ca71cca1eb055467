"""Shows a screen on a terminal and reads keys, and restores the terminal however the process ends.

A terminal that takes no more text (a stopped ssh) must not block the end of the run: a thread
draws, and whoever gives the terminal back does not wait for it.
"""

import atexit
import io
import os
import re
import select
import signal
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress

from rich.console import Console, RenderableType
from rich.live import Live

from andiron.wings.screen import layout
from andiron.wings.screen.view import Choice, View

try:
    import termios
    import tty
except ImportError:  # Windows
    termios = None  # type: ignore[assignment]

ARROWS = {"A": "up", "B": "down", "C": "right", "D": "left"}  # final characters of their sequences
# the final of a sequence such as ESC [ A or ESC O A; any other character; an incomplete end
KEY = re.compile(r"\x1b[\[O][^@-~]*([@-~])|(\x1b(?![\[O]|$)|[^\x1b])|(\x1b.*)", flags=re.DOTALL)
SECONDS_BETWEEN_DRAWINGS, SECONDS_BETWEEN_LOOKS = 0.25, 0.05  # looks at keys
SECONDS_BLOCKED = 0.5  # that a terminal without room is waited for


class Terminal:
    """The terminal at descriptor `output`; keys come from `input_`, if that is a terminal too."""

    def __init__(self, output: int, input_: int = 0):
        self._output, self._input = output, input_
        self._process = os.getpid()
        self._lock = threading.RLock()
        self._modes = termios.tcgetattr(input_) if os.isatty(input_) else None  # the original ones
        self._unread = ""
        raw = io.FileIO(output, "w", closefd=False)  # `sys.stdout` may be redirected
        file = io.TextIOWrapper(raw, "utf-8", write_through=True)
        self._live = Live(
            console=Console(file=file, force_terminal=True), screen=True, auto_refresh=False,
            redirect_stdout=False, redirect_stderr=False,
        )  # fmt: skip
        atexit.register(self.give_back)

    @property
    def size(self) -> tuple[int, int]:
        """Columns and rows; COLUMNS and LINES of the environment do not follow a resize.

        Raises: OSError if the terminal was closed.
        """
        columns, rows = os.get_terminal_size(self._output)
        return columns or 80, rows or 24  # the default for an unknown size

    @property
    def is_foreground(self) -> bool:
        """Whether this process may draw and read: it is not in the shell's background."""
        try:
            return os.tcgetpgrp(self._output) == os.getpgrp()
        except OSError:  # not this process's controlling terminal
            return True

    def draw(self, content: RenderableType) -> None:
        """Takes the terminal if it is not taken, and fills it with the content.

        Raises: OSError or termios.error if the terminal was closed.
        """
        with self._lock:
            if self._has_room():
                self._live.console.size = self.size
                if self._modes:  # each time: a shell resets those of a stopped job
                    tty.setcbreak(self._input, termios.TCSANOW)  # keys one by one, without echo
                self._live.start()
                self._live.update(content, refresh=True)

    def give_back(self) -> None:
        """Restores the terminal; does nothing if it is not taken, or closed."""
        has_lock = self._lock.acquire(timeout=SECONDS_BLOCKED)
        if self._live.is_started and self._process == os.getpid():
            with suppress(OSError, termios.error):
                if self._modes:
                    termios.tcsetattr(self._input, termios.TCSANOW, self._modes)
                if has_lock and self._has_room():
                    self._live.stop()
        if has_lock:
            self._lock.release()

    def keys(self, seconds: float) -> list[str]:
        """Keys pressed within `seconds`: characters, or names such as `up` and `left`.

        Raises: OSError if the terminal was closed.
        """
        inputs = [self._input] if self._modes and self._live.is_started else []
        if not select.select(inputs, [], [], seconds)[0] or not self.is_foreground:
            return []
        if not (read := os.read(self._input, 1024)):
            raise OSError("the terminal was closed")
        matches = KEY.findall(self._unread + read.decode(errors="replace"))
        self._unread = "".join(end for *_, end in matches)
        return [*filter(None, (ARROWS.get(final, other) for final, other, _ in matches))]

    def handle_suspension(self) -> None:
        """Makes Ctrl-Z restore the terminal before the process stops; `draw` takes it again."""
        if threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGTSTP, self._suspend)

    def _suspend(self, number: int, frame: object) -> None:
        self.give_back()
        signal.signal(number, signal.SIG_DFL)
        os.kill(os.getpid(), number)
        signal.signal(number, self._suspend)  # once continued

    def _has_room(self) -> bool:
        return bool(select.select([], [self._output], [], SECONDS_BLOCKED)[1])


def here() -> Terminal | None:
    """The terminal of standard output; None if it is not a terminal with a screen."""
    is_utf_8 = (sys.stdout.encoding or "").lower().startswith("utf")
    has_screen = os.environ.get("TERM") not in (None, "", "dumb", "unknown")
    is_terminal = termios and sys.stdout.isatty() and is_utf_8 and has_screen
    return Terminal(sys.stdout.fileno()) if is_terminal else None


def show(
    terminal: Terminal,
    view: Callable[[], View],
    press: Callable[[str], None],
    is_over: threading.Event,
) -> None:
    """Draws `view()` until `is_over`; keys that do not change the view go to `press`."""
    choice, due = Choice(), 0.0
    try:
        while not is_over.is_set():
            if terminal.is_foreground and time.monotonic() >= due:
                terminal.draw(layout.screen(view(), choice, *terminal.size))
                due = time.monotonic() + SECONDS_BETWEEN_DRAWINGS
            for key in terminal.keys(SECONDS_BETWEEN_LOOKS):
                due = 0.0  # a key is answered at once
                if not choice.press(key):
                    press(key)
    except (OSError, termios.error):  # the terminal was closed
        return
    finally:
        terminal.give_back()
