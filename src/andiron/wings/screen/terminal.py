"""Takes a terminal for a full screen and keys, and restores it afterwards.

A taken terminal shows its alternate screen without a cursor; keys are read one by one without echo.
`give_all_back` restores all terminals before a process exits at once.
"""

import atexit
import os
import re
import select
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

from rich.color import ColorSystem
from rich.console import Console

from andiron.wings.screen.rows import Row, written

try:
    import termios
    import tty
except ImportError:  # Windows
    termios = None  # type: ignore[assignment]

CLEAR = "\x1b[2J"
ENTER = "\x1b[?1049h\x1b[?25l" + CLEAR  # an empty alternate screen without a cursor
LEAVE = "\x1b[0m\x1b[?25h\x1b[?1049l"
KEYS = {"A": "up", "B": "down", "C": "right", "D": "left"}  # final characters of arrow keys
# the final of a sequence such as ESC [ A or ESC O A; any other character; an incomplete end
KEY = re.compile(
    r"\x1b[\[O][^@-~]*([@-~])|(\x1b(?![\[O]|$)|[^\x1b])|(\x1b.*)", flags=re.DOTALL
)
MOST_UNREAD = 64  # bytes
SECONDS_FOR_THE_LOCK = SECONDS_FOR_ROOM = 0.5
FRAMES_BETWEEN_WHOLE_ONES = 20  # overwrites text of other programs
_taken: "set[Terminal]" = set()


class Terminal:
    """The terminal at descriptor `output`; keys come from `input_`, if that is a terminal too."""

    def __init__(self, output: int, input_: int, colours: ColorSystem | None):
        self._output, self._colours = output, colours
        self._input, self._has_keys = input_, os.isatty(input_)
        self._process = os.getpid()
        self._lock = threading.RLock()
        self._before: Any = None  # the terminal's original modes
        self._modes: Any = None  # its modes while taken
        self._drawn: list[str] = []
        self._size = (0, 0)
        self._frames = 0
        self._unread = b""
        self.is_lost = False  # it was closed

    @property
    def size(self) -> tuple[int, int]:
        """Columns and rows."""
        try:
            columns, rows = os.get_terminal_size(self._output)
        except OSError:
            columns, rows = 0, 0
        return columns or 80, rows or 24

    @property
    def is_foreground(self) -> bool:
        """Whether this process may draw and read: it is not in the shell's background."""
        try:
            return os.tcgetpgrp(self._output) == os.getpgrp()
        except OSError:  # not this process's controlling terminal
            return True

    def take(self) -> None:
        """Starts an empty screen, unless already taken with unchanged modes."""
        with self._lock:
            is_taken = self in _taken and (not self._has_keys or self._get_modes() == self._modes)
            if is_taken or self.is_lost:
                return
            if self._has_keys and self._modes is None:
                self._before = self._get_modes()
                self._modes = self._key_modes()
            self._drawn = []
            if self._write(ENTER):
                _taken.add(self)
                self._set_modes(self._modes)

    def give_back(self) -> None:
        """Restores the terminal; does nothing if it is not taken, or closed."""
        if self._process != os.getpid():
            return
        has_lock = self._lock.acquire(timeout=SECONDS_FOR_THE_LOCK)
        try:
            if self in _taken:
                _taken.discard(self)
                self._set_modes(self._before)
                self._write(LEAVE)
        finally:
            if has_lock:
                self._lock.release()

    def draw(self, rows: list[Row], is_whole: bool = False) -> None:
        """Shows the rows; writes only the changed ones, or all with `is_whole`."""
        lines = [written(row, self._colours) for row in rows]
        self._frames = (self._frames + 1) % FRAMES_BETWEEN_WHOLE_ONES
        if is_whole:
            self._drawn = []
        is_resized = self.size != self._size
        is_whole = is_resized or self._frames == 0 or len(self._drawn) != len(lines)
        changed = [
            f"\x1b[{number};1H{line}"
            for number, line in enumerate(lines, 1)
            if is_whole or line != self._drawn[number - 1]
        ]
        with self._lock:
            text = "".join([CLEAR * is_resized, *changed])
            if self in _taken and text and self._write(text):
                self._drawn, self._size = lines, self.size

    def keys(self, seconds: float) -> list[str]:
        """Keys pressed within `seconds`: characters, or names such as `up` and `left`."""
        can_read = self._has_keys and self in _taken and not self.is_lost
        readable, _, _ = select.select([self._input] if can_read else [], [], [], seconds)
        if not readable or not self.is_foreground:
            return []
        try:
            read = os.read(readable[0], 1024)
        except OSError:
            read = b""
        if not read:
            self.is_lost = True
        pressed, self._unread = _decode_keys(self._unread + read)
        return pressed

    def _get_modes(self) -> Any:
        try:
            return termios.tcgetattr(self._input)
        except (termios.error, OSError):
            self.is_lost = True
            return None

    def _key_modes(self) -> Any:
        """Modes for reading keys one by one without echo; Ctrl-C and Ctrl-Z stay signals."""
        if (modes := self._get_modes()) is not None:
            modes[tty.IFLAG] &= ~termios.IXON  # Ctrl-S would freeze the screen
            modes[tty.LFLAG] &= ~(termios.ECHO | termios.ICANON | termios.IEXTEN)
            nothing = os.fpathconf(self._input, "PC_VDISABLE")
            characters = modes[tty.CC]
            characters[termios.VMIN], characters[termios.VTIME] = 1, 0
            characters[termios.VQUIT] = bytes([nothing])  # it would exit without `give_back`
        return modes

    def _set_modes(self, modes: Any) -> None:
        if modes is not None:
            with suppress(termios.error, OSError):
                termios.tcsetattr(self._input, termios.TCSANOW, modes)

    def _write(self, text: str) -> bool:
        """Whether the text was written: False if the terminal is closed or blocked."""
        try:
            if not select.select([], [self._output], [], SECONDS_FOR_ROOM)[1]:
                return False
            left = memoryview(text.encode(errors="replace"))
            while left:
                left = left[os.write(self._output, left) :]
        except OSError:
            self.is_lost = True
            return False
        return True


def here() -> Terminal | None:
    """The terminal of standard output; None if it is not a terminal with a screen."""
    console, encoding = Console(file=sys.stdout), getattr(sys.stdout, "encoding", None) or ""
    is_dumb = console.is_dumb_terminal or not os.environ.get("TERM")
    is_utf_8 = encoding.lower().replace("-", "") == "utf8"
    if termios is None or is_dumb or not is_utf_8 or not sys.stdout.isatty():
        return None
    has_colours = console.color_system and not console.no_color
    colours = ColorSystem.STANDARD if has_colours else None  # the eight of every terminal
    return Terminal(sys.stdout.fileno(), 0, colours)


def give_all_back() -> None:
    """Restores every taken terminal, before a process exits at once."""
    for terminal in list(_taken):
        terminal.give_back()


@contextmanager
def suspended_well(terminal: Terminal) -> Iterator[None]:
    """Makes Ctrl-Z restore the terminal before the process stops; `take` takes it again."""

    def stop(number: int, frame: object) -> None:
        terminal.give_back()
        signal.signal(number, signal.SIG_DFL)
        os.kill(os.getpid(), number)
        signal.signal(number, stop)  # once continued

    is_possible = threading.current_thread() is threading.main_thread()
    before = signal.signal(signal.SIGTSTP, stop) if is_possible else None
    try:
        yield
    finally:
        if is_possible:
            signal.signal(signal.SIGTSTP, before)


def _decode_keys(read: bytes) -> tuple[list[str], bytes]:
    """The keys, and the bytes of an incomplete last one."""
    matches = KEY.findall(read.decode(errors="replace"))
    keys = [KEYS.get(final, character) for final, character, _ in matches]
    return [*filter(None, keys)], "".join(end for *_, end in matches).encode()[:MOST_UNREAD]


atexit.register(give_all_back)
