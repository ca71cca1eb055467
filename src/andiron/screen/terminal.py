"""A terminal that is taken for a whole screen and its keys, and given back as it was.

While it is taken it has its alternate screen, the cursor is hidden, and keys are read one by one
without echo. `give_all_back` does what is left to do where a process is about to exit at once.
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

from andiron.screen.rows import Row, written

try:
    import termios
except ImportError:  # Windows
    termios = None  # type: ignore[assignment]

CLEAR = "\x1b[2J"
ENTER = "\x1b[?1049h\x1b[?25l" + CLEAR  # the alternate screen, without a cursor, empty
LEAVE = "\x1b[0m\x1b[?25h\x1b[?1049l"
KEYS = {"A": "up", "B": "down", "C": "right", "D": "left"}  # the ends of what arrows send
# a sequence such as ESC [ A or ESC O A, or any other character; no whole one: its beginning
KEY = re.compile(r"\x1b[\[O][^@-~]*([@-~])|\x1b(?![\[O]|$)|[^\x1b]", flags=re.DOTALL)
MOST_UNREAD = 64  # bytes
SECONDS_FOR_THE_LOCK = SECONDS_FOR_ROOM = 0.5
FRAMES_BETWEEN_WHOLE_ONES = 20  # what other programs wrote over the screen is gone then
_taken: "set[Terminal]" = set()


class Terminal:
    """The terminal at descriptor `output`; keys come from `input_`, if that is a terminal too."""

    def __init__(self, output: int, input_: int, colours: ColorSystem | None):
        self._output, self._colours = output, colours
        self._input, self._has_keys = input_, os.isatty(input_)
        self._process = os.getpid()
        self._lock = threading.RLock()
        self._before: Any = None  # the modes of the terminal as it was found
        self._modes: Any = None  # and while it is taken
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
        """Whether this process may draw and read: its shell has not put it in the background."""
        try:
            return os.tcgetpgrp(self._output) == os.getpgrp()
        except OSError:  # not the terminal that controls this process
            return True

    def take(self) -> None:
        """Begins with an empty screen, unless it is taken and its modes are unchanged since."""
        with self._lock:
            is_taken = self in _taken and (not self._has_keys or self._now() == self._modes)
            if is_taken or self.is_lost:
                return
            if self._has_keys and self._modes is None:
                self._before = self._now()
                self._modes = _for_keys(self._before, self._input)
            self._drawn = []
            if self._write(ENTER):
                _taken.add(self)
                self._set(self._modes)

    def give_back(self) -> None:
        """Leaves the terminal as it was found; also where it is not taken, or gone."""
        is_ours = self._process == os.getpid()
        has_lock = is_ours and self._lock.acquire(timeout=SECONDS_FOR_THE_LOCK)
        try:
            if is_ours and self in _taken:
                _taken.discard(self)
                self._set(self._before)
                self._write(LEAVE)
        finally:
            if has_lock:
                self._lock.release()

    def draw(self, rows: list[Row]) -> None:
        """Shows the rows, of which only those are written that changed."""
        lines = [written(row, self._colours) for row in rows]
        self._frames = (self._frames + 1) % FRAMES_BETWEEN_WHOLE_ONES
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

    def draw_whole_next(self) -> None:
        """Every row is written at the next drawing: something else wrote over them."""
        self._drawn = []

    def keys(self, seconds: float) -> list[str]:
        """The keys pressed within so many seconds: characters, and `up`, `left` and the like."""
        can_read = self._has_keys and self in _taken and not self.is_lost
        found, _, _ = select.select([self._input] if can_read else [], [], [], seconds)
        if not found or not self.is_foreground:
            return []
        try:
            read = os.read(found[0], 1024)
        except OSError:
            read = b""
        if not read:
            self.is_lost = True
        pressed, self._unread = _decoded(self._unread + read)
        return pressed

    def _now(self) -> Any:
        try:
            return termios.tcgetattr(self._input)
        except (termios.error, OSError):
            self.is_lost = True
            return None

    def _set(self, modes: Any) -> None:
        if modes is not None:
            with suppress(termios.error, OSError):
                termios.tcsetattr(self._input, termios.TCSANOW, modes)

    def _write(self, text: str) -> bool:
        """Whether the text was written: not where the terminal is gone, or takes nothing now."""
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
    """The terminal of standard output; None if standard output is no terminal with a screen."""
    console, encoding = Console(file=sys.stdout), getattr(sys.stdout, "encoding", None) or ""
    is_dumb = console.is_dumb_terminal or not os.environ.get("TERM")
    is_utf_8 = encoding.lower().replace("-", "") == "utf8"
    if termios is None or is_dumb or not is_utf_8 or not sys.stdout.isatty():
        return None
    has_colours = console.color_system and not console.no_color
    colours = ColorSystem.STANDARD if has_colours else None  # the eight that every one has
    return Terminal(sys.stdout.fileno(), 0, colours)


def give_all_back() -> None:
    """Gives back every terminal that is taken; for a process that exits at once."""
    for terminal in list(_taken):
        terminal.give_back()


@contextmanager
def suspended_well(terminal: Terminal) -> Iterator[None]:
    """Within it Ctrl-Z gives the terminal back before the process stops; `take` takes it again."""

    def stop(number: int, frame: object) -> None:
        terminal.give_back()
        signal.signal(number, signal.SIG_DFL)
        os.kill(os.getpid(), number)
        signal.signal(number, stop)  # continued

    is_possible = threading.current_thread() is threading.main_thread()
    before = signal.signal(signal.SIGTSTP, stop) if is_possible else None
    try:
        yield
    finally:
        if is_possible:
            signal.signal(signal.SIGTSTP, before)


def _for_keys(modes: Any, descriptor: int) -> Any:
    """The modes in which keys come one by one, unseen; Ctrl-C and Ctrl-Z stay signals."""
    iflag, oflag, cflag, lflag, ispeed, ospeed, characters = modes
    iflag &= ~termios.IXON  # Ctrl-S would stop the screen
    lflag &= ~(termios.ECHO | termios.ICANON | termios.IEXTEN)
    characters = list(characters)
    characters[termios.VMIN], characters[termios.VTIME] = 1, 0
    nothing = os.fpathconf(descriptor, "PC_VDISABLE")
    characters[termios.VQUIT] = bytes([nothing])  # Ctrl-\ would leave the terminal as it is
    return [iflag, oflag, cflag, lflag, ispeed, ospeed, characters]


def _decoded(read: bytes) -> tuple[list[str], bytes]:
    """The keys, and what may be the beginning of one more."""
    text, keys = read.decode(errors="replace"), []
    while text:
        match = KEY.match(text)
        if match is None:
            break
        if name := KEYS.get(match[1], "") if match[1] else match[0]:
            keys.append(name)
        text = text[match.end() :]
    return keys, text.encode()[:MOST_UNREAD]


atexit.register(give_all_back)
