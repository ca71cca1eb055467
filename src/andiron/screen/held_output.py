"""Holds standard output and error while a screen has the terminal, to print them afterwards."""

import os
import sys
from collections import deque
from typing import Any

MOST_LINES = 1000


class HeldOutput:
    """Replaces `sys.stdout` and `sys.stderr` from `hold` until `release`."""

    def __init__(self) -> None:
        self.lines: deque[str] = deque(maxlen=MOST_LINES)
        self._streams: tuple[Any, Any] | None = None

    def hold(self) -> None:
        """Starts to hold printed lines."""
        self._streams = sys.stdout, sys.stderr
        sys.stdout, sys.stderr = (_Stream(stream, self.lines) for stream in self._streams)

    def release(self) -> None:
        """Prints the held lines, and restores both streams."""
        if self._streams is None:
            return
        sys.stdout, sys.stderr = self._streams
        self._streams = None
        while self.lines:
            print(self.lines.popleft())


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
