"""Broken standard streams lose printed text and nothing else."""

import io
import os
import pty
import sys

import pytest

from andiron.shell.cli import streams


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


@pytest.mark.parametrize("error", [
    BrokenPipeError(32, "gone"), OSError(28, "full"), OSError(5, "hung up"), ValueError("closed"),
])  # fmt: skip
def test_no_error_of_a_stream_reaches_who_prints(monkeypatch, error):
    broken = Broken(error)
    monkeypatch.setattr(sys, "stdout", broken)
    with streams.safe_streams():
        print("lost", flush=True)
        broken.error = None
        print("shown")
    assert sys.stdout is broken
    assert broken.getvalue() == "shown\n"


def test_characters_that_the_encoding_lacks_are_escaped(monkeypatch):
    raw = io.BytesIO()
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(raw, encoding="ascii"))
    with streams.safe_streams():
        print("━ \udcff")
    assert raw.getvalue() == b"\\u2501 \\udcff\n"


def test_a_line_in_a_file_can_be_read_at_once_and_a_result_is_written_in_blocks(
    monkeypatch, tmp_path
):
    for has_result, written in ((False, "epoch 1\n"), (True, "")):
        with (tmp_path / "nohup.out").open("w") as file:
            monkeypatch.setattr(sys, "stdout", file)
            with streams.safe_streams(has_result=has_result):
                print("epoch 1")
                assert (tmp_path / "nohup.out").read_text() == written


def test_a_stream_that_was_closed_before_the_start_is_tolerated(monkeypatch):
    monkeypatch.setattr(sys, "stdout", None)
    with streams.safe_streams():
        print("lost", flush=True)
        assert not sys.stdout.isatty()
    assert sys.stdout is None


@pytest.mark.parametrize(("lost", "exit_code", "words"), [
    (BrokenPipeError(32, "gone"), 141, ""),
    (OSError(28, "full"), 1, "error: standard output cannot be written (full); "),
    (ValueError("closed"), 1, "error: standard output cannot be written (it is closed); "),
])  # fmt: skip
@pytest.mark.parametrize("is_flushed", [True, False], ids=["flushed", "at the end"])
def test_a_result_that_is_lost_ends_what_printed_it(
    monkeypatch, capsys, lost, exit_code, words, is_flushed
):
    broken, printed = Broken(None), []
    monkeypatch.setattr(sys, "stdout", broken)
    with pytest.raises(streams.ResultLost) as ended, streams.safe_streams(has_result=True):
        print("shown")
        broken.error = lost
        if is_flushed:
            print("lost")
            printed.append("more")
    assert (ended.value.exit_code, printed) == (exit_code, [])
    assert capsys.readouterr().err.startswith(words) and broken.getvalue() == "shown\n"
    assert sys.stdout is broken


def test_a_result_for_an_output_that_was_closed_before_the_start_is_lost(monkeypatch, capsys):
    monkeypatch.setattr(sys, "stdout", None)
    with streams.safe_streams(has_result=True):
        assert not sys.stdout.isatty()
    with pytest.raises(streams.ResultLost), streams.safe_streams(has_result=True):
        print("lost")
    assert "(it is closed)" in capsys.readouterr().err


def test_a_pipe_without_a_reader_is_discarded_with_what_it_buffers(monkeypatch):
    reader, writer = os.pipe()
    os.close(reader)
    pipe = open(writer, "w", encoding="utf-8")
    monkeypatch.setattr(sys, "stdout", pipe)
    with streams.safe_streams():
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
