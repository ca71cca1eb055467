"""Standard output and error of a command, also where they cannot be written.

Training continues: a full disk, a closed terminal or a vanished reader loses only printed text,
because a run has its own log. A command whose output is its result ends.
"""

import os
import select
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext, suppress
from typing import Any

SECONDS_FOR_A_READER = 1.0
EXIT_LOST, EXIT_NO_READER = 1, 141  # 128 + SIGPIPE, as a shell reports other programs


class ResultLost(BaseException):
    """Standard output cannot be written; no `except Exception` may continue the command."""

    def __init__(self, exit_code: int):
        super().__init__(exit_code)
        self.exit_code = exit_code


class SafeStream:
    """A text stream that drops text once it cannot be written, and escapes what has no encoding.

    With `has_result`, it raises ResultLost instead; with `is_apart`, it reports the loss.
    """

    def __init__(self, stream: Any, *, has_result: bool = False, is_apart: bool = False):
        self._stream = stream
        self._has_result = has_result
        self._is_reported = has_result or is_apart
        self.exit_code_if_lost = 0  # of a command whose answer is incomplete
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(
                errors="backslashreplace",
                line_buffering=None if has_result else True,  # a log is read while it is written
            )

    def write(self, text: str) -> int:
        """Writes the text."""
        self._attempt(self._stream.write, text)
        return len(text)

    def flush(self) -> None:
        """Writes the buffered text."""
        self._attempt(self._stream.flush)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)

    def _attempt(self, write: Callable[..., Any], *text: str) -> None:
        try:
            write(*text)
        except (OSError, ValueError) as error:  # ValueError: it was closed
            with suppress(OSError, ValueError):  # it has no descriptor
                discard(self._stream.fileno())  # else the buffered text would fail at exit
            has_reader = not isinstance(error, BrokenPipeError)
            if has_reader and self._is_reported and not self.exit_code_if_lost:
                reason = (error.strerror if isinstance(error, OSError) else None) or "it is closed"
                message = f"error: standard output cannot be written ({reason}); it is incomplete"
                print(message, file=sys.stderr)
            self.exit_code_if_lost = EXIT_LOST if has_reader else EXIT_NO_READER
            if self._has_result:
                raise ResultLost(self.exit_code_if_lost) from error


@contextmanager
def safe_streams(*, has_result: bool = False, is_apart: bool = False) -> Iterator[SafeStream]:
    """Within the body standard output and error drop text that cannot be written.

    With `is_apart`, only the given stream leads to standard output: what is printed, also by other
    processes, goes to standard error.
    Raises: ResultLost, with `has_result`, if standard output cannot be written.
    """
    _fill_closed_descriptors()
    before = sys.stdout, sys.stderr
    # a stream is None if it was closed before Python started; a result must not vanish there
    with (
        open(os.devnull, "r" if has_result else "w", encoding="utf-8") as nowhere,
        _moved(before[0] or nowhere) if is_apart else nullcontext(before[0] or nowhere) as stream,
    ):
        output = SafeStream(stream, has_result=has_result, is_apart=is_apart)
        error = SafeStream(before[1] or nowhere)
        sys.stdout, sys.stderr = error if is_apart else output, error
        try:
            yield output
        finally:
            try:
                output.flush()
            finally:
                error.flush()
                sys.stdout, sys.stderr = before


@contextmanager
def _moved(stream: Any) -> Iterator[Any]:
    """The stream on another descriptor, while its own leads to standard error."""
    try:
        descriptor = stream.fileno()
    except (OSError, ValueError, AttributeError):  # such as a stream in memory
        yield stream
        return
    stream.flush()
    with open(os.dup(descriptor), stream.mode, encoding="utf-8") as moved:
        os.dup2(2, descriptor)
        try:
            yield moved
        finally:
            os.dup2(moved.fileno(), descriptor)


def notify(text: str) -> None:
    """Writes a line to standard error from a signal handler, where `print` is not reentrant.

    A stream that cannot be written, or that nobody reads, is discarded from now on: otherwise a
    run that is about to save its state would block in its next print.
    """
    for descriptor, notice in ((1, ""), (2, text)):
        try:
            if not _has_room(descriptor):
                raise BlockingIOError
            os.write(descriptor, f"{notice}\n".encode())
        except OSError:
            discard(descriptor)


def show_cursor(descriptor: int = 1) -> None:
    """Shows a terminal's cursor, which a live display hides; for a process that exits at once."""
    with suppress(OSError):
        if os.isatty(descriptor) and _has_room(descriptor):
            os.write(descriptor, b"\x1b[?25h\n")


def discard(descriptor: int) -> None:
    """Redirects the descriptor to the null device."""
    with suppress(OSError):  # no descriptor is left
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, descriptor)
        os.close(nowhere)


def _has_room(descriptor: int) -> bool:
    """Whether a line can be written without waiting for a reader."""
    if not hasattr(select, "poll"):  # Windows
        return True
    poll = select.poll()
    poll.register(descriptor, select.POLLOUT)
    return bool(poll.poll(SECONDS_FOR_A_READER * 1000))


def _fill_closed_descriptors() -> None:
    """Opens closed standard streams: otherwise the next file would get their descriptors."""
    for descriptor in range(3):
        try:
            os.fstat(descriptor)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # gets the lowest free number: this one
