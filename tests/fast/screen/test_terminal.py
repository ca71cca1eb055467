"""A terminal is taken, drawn on and restored; its keys are read."""

import fcntl
import os
import pty
import struct
import sys
import termios
from collections import deque

import pytest

from andiron.wings.screen import terminal
from andiron.wings.screen.dashboard import held_output
from andiron.wings.screen.rows import piece
from andiron.wings.screen.terminal import ENTER, LEAVE, Terminal


@pytest.fixture
def ends():
    """The two ends of a terminal: the user's and the program's."""
    ours, theirs = pty.openpty()
    yield ours, theirs
    for descriptor in (ours, theirs):
        try:
            os.close(descriptor)
        except OSError:  # a test closed it
            pass


def rows(*lines):
    return [[piece(line)] for line in lines]


def read(descriptor):
    """Everything up to the end of a screen."""
    drawn = ""
    while not drawn.endswith(LEAVE):
        drawn += os.read(descriptor, 65536).decode()
    return drawn


def test_a_terminal_is_given_back_as_it_was(ends):
    ours, theirs = ends
    before = termios.tcgetattr(theirs)
    taken = Terminal(theirs, theirs, None)
    taken.take()
    assert not termios.tcgetattr(theirs)[3] & (termios.ECHO | termios.ICANON)
    assert termios.tcgetattr(theirs)[3] & termios.ISIG
    taken.draw(rows("one", "two"))
    taken.draw(rows("one", "TWO"))
    terminal.give_all_back()
    taken.give_back()
    taken.draw(rows("more", "more"))

    assert termios.tcgetattr(theirs) == before
    drawn = read(ours)
    assert drawn.startswith(ENTER) and drawn.endswith(LEAVE) and drawn.count(LEAVE) == 1
    assert drawn.count("one") == 1 and drawn.count("TWO") == 1 and "more" not in drawn


def test_a_terminal_that_changed_hands_is_taken_again_and_drawn_whole(ends):
    ours, theirs = ends
    before = termios.tcgetattr(theirs)
    taken = Terminal(theirs, theirs, None)
    taken.take()
    taken.draw(rows("one"))
    termios.tcsetattr(theirs, termios.TCSANOW, before)  # as a shell does when a job stops
    taken.take()
    taken.take()
    taken.draw(rows("one"))
    taken.give_back()

    drawn = read(ours)
    assert drawn.count(ENTER) == 2 and drawn.count("one") == 2
    assert termios.tcgetattr(theirs) == before


def test_the_size_is_asked_each_time_and_a_resize_clears(ends):
    ours, theirs = ends
    taken = Terminal(theirs, theirs, None)
    assert taken.size == (80, 24)  # the default for an unknown size
    taken.take()
    taken.draw(rows("one"))
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 12, 40, 0, 0))
    assert taken.size == (40, 12)
    taken.draw(rows("one"))
    taken.give_back()

    assert read(ours).count("\x1b[2J") == 3  # entered, first size, resized


def test_keys_are_read_one_by_one_whatever_pieces_they_come_in(ends):
    ours, theirs = ends
    taken = Terminal(theirs, theirs, None)
    assert taken.keys(0) == []  # not taken
    taken.take()
    os.write(ours, b"q\x1b[A\x1bOBx\x1b[1;5C\x1b[3~\x1b[")
    assert taken.keys(1) == ["q", "up", "down", "x", "right"]
    os.write(ours, b"D?")
    assert taken.keys(1) == ["left", "?"]
    taken.give_back()


def test_a_terminal_that_is_gone_raises_nothing(ends):
    ours, theirs = ends
    taken = Terminal(theirs, theirs, None)
    taken.take()
    os.close(ours)
    taken.draw(rows("one"))
    assert taken.keys(0) == []
    taken.take()
    taken.give_back()

    assert taken.is_lost


def test_a_file_or_a_dumb_terminal_has_no_screen(monkeypatch, ends):
    assert terminal.here() is None  # pytest's output
    with open(ends[1], "w", encoding="utf-8", closefd=False) as file:
        monkeypatch.setattr(sys, "stdout", file)
        for name, has_screen in (("xterm", True), ("dumb", False), ("", False)):
            monkeypatch.setenv("TERM", name)
            assert (terminal.here() is not None) is has_screen, name


def test_what_is_printed_while_it_is_held_comes_after_it(capsys):
    lines = deque()
    with held_output(lines):
        print("one\ntwo")
        print("three", file=sys.stderr)
        assert list(lines) == ["one", "two", "three"]
    print("four")

    assert capsys.readouterr().out == "one\ntwo\nthree\nfour\n"
