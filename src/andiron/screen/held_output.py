"""Holds standard output and error while a screen has the terminal, to print them afterwards."""

import os
import sys
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any


@contextmanager
def held_output(lines: deque[str]) -> Iterator[None]:
    """A context in which printed lines are added to `lines`; on exit they are printed."""
    streams = sys.stdout, sys.stderr
    sys.stdout, sys.stderr = (_Stream(stream, lines) for stream in streams)
    try:
        yield
    finally:
        sys.stdout, sys.stderr = streams
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
