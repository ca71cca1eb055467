"""Standard streams that break cost what is printed, and nothing else."""

import io
import os
import pty
import sys

import pytest

from andiron.commands import streams


class Broken(io.StringIO):
    """A stream that fails as long as it has an error."""

    def __init__(self, error):
        super().__init__()
        self.error = error

    def write(self, text):
        if self.error is not None:
            raise self.error
        return super().write(text)

    def flush(self):
        if self.error is not None:
            raise self.error


@pytest.mark.parametrize(
    "error",
    [BrokenPipeError(32, "gone"), OSError(28, "full"), OSError(5, "hung up"), ValueError("closed")],
)
def test_no_error_of_a_stream_reaches_who_prints(monkeypatch, error):
    broken = Broken(error)
    monkeypatch.setattr(sys, "stdout", broken)
    with streams.lasting():
        print("lost", flush=True)
        broken.error = None
        print("shown")
    assert sys.stdout is broken
    assert broken.getvalue() == "shown\n"


def test_what_an_encoding_lacks_is_printed_as_an_escape(monkeypatch):
    raw = io.BytesIO()
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(raw, encoding="ascii"))
    with streams.lasting():
        print("━ \udcff")
    assert raw.getvalue() == b"\\u2501 \\udcff\n"


def test_a_stream_that_was_closed_before_the_start_is_no_obstacle(monkeypatch):
    monkeypatch.setattr(sys, "stdout", None)
    with streams.lasting():
        print("lost", flush=True)
        assert not sys.stdout.isatty()
    assert sys.stdout is None


def test_a_pipe_without_a_reader_is_discarded_with_what_it_buffers(monkeypatch):
    reader, writer = os.pipe()
    os.close(reader)
    pipe = open(writer, "w", encoding="utf-8")
    monkeypatch.setattr(sys, "stdout", pipe)
    with streams.lasting():
        print("lost", flush=True)
        print("lost too")
    pipe.close()  # else it would fail here, at the process's end


def test_the_cursor_of_a_terminal_is_shown_again_and_a_pipe_gets_nothing():
    ours, theirs = pty.openpty()
    reader, writer = os.pipe()
    for descriptor in theirs, writer:
        streams.show_cursor(descriptor)
    os.close(writer)

    assert os.read(ours, 99).startswith(b"\x1b[?25h") and os.read(reader, 99) == b""
    for descriptor in ours, theirs, reader:
        os.close(descriptor)
