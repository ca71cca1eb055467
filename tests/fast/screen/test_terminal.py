"""A terminal is taken, drawn on and restored; its keys are read."""

import fcntl
import os
import pty
import struct
import sys
import termios
import threading
from collections import deque

import pytest

from andiron.wings.screen import terminal
from andiron.wings.screen.dashboard import held_output
from andiron.wings.screen.terminal import Terminal
from andiron.wings.screen.view import View

ENTER, LEAVE = "\x1b[?1049h", "\x1b[?1049l"


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


def read(descriptor):
    """Everything up to the end of a screen."""
    drawn = ""
    while not drawn.endswith(LEAVE):
        drawn += os.read(descriptor, 65536).decode()
    return drawn


def test_a_terminal_is_given_back_as_it_was(ends):
    ours, theirs = ends
    before = termios.tcgetattr(theirs)
    taken = Terminal(theirs, theirs)
    taken.draw("one")
    assert not termios.tcgetattr(theirs)[3] & (termios.ECHO | termios.ICANON)
    assert termios.tcgetattr(theirs)[3] & termios.ISIG
    taken.draw("two")
    taken.give_back()
    taken.give_back()

    assert termios.tcgetattr(theirs) == before
    drawn = read(ours)
    assert drawn.startswith(ENTER) and drawn.count(ENTER) == drawn.count(LEAVE) == 1
    assert drawn.index("one") < drawn.index("two")


def test_a_terminal_that_changed_hands_is_taken_again(ends):
    ours, theirs = ends
    before = termios.tcgetattr(theirs)
    taken = Terminal(theirs, theirs)
    taken.draw("one")
    termios.tcsetattr(theirs, termios.TCSANOW, before)  # as a shell does when a job stops
    taken.draw("two")
    assert not termios.tcgetattr(theirs)[3] & (termios.ECHO | termios.ICANON)
    taken.give_back()
    taken.draw("three")  # after Ctrl-Z and `fg`
    taken.give_back()

    assert read(ours).count(ENTER) == 2 and termios.tcgetattr(theirs) == before


def test_each_drawing_fills_the_terminal_at_its_size(ends, monkeypatch):
    monkeypatch.setenv("COLUMNS", "200")  # exported once: it does not follow a resize
    ours, theirs = ends
    taken = Terminal(theirs, theirs)
    assert taken.size == (80, 24)  # the default for an unknown size
    taken.draw("one")
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 12, 40, 0, 0))
    assert taken.size == (40, 12)
    taken.draw("one")
    taken.give_back()

    whole, small = read(ours).split("one")[1:]
    assert whole.count("\n") == 23 and small.count("\n") == 11
    assert small.split("\r\n")[1] == " " * 40


def test_keys_are_read_one_by_one_whatever_pieces_they_come_in(ends):
    ours, theirs = ends
    taken = Terminal(theirs, theirs)
    assert taken.keys(0) == []  # not taken
    taken.draw("")
    os.write(ours, b"q\x1b[A\x1bOBx\x1b[1;5C\x1b[3~\x1b[")
    assert taken.keys(1) == ["q", "up", "down", "x", "right"]
    os.write(ours, b"D?")
    assert taken.keys(1) == ["left", "?"]
    taken.give_back()


def test_a_terminal_that_is_gone_ends_the_display(ends):
    ours, theirs = ends
    taken, is_over = Terminal(theirs, theirs), threading.Event()

    def view():
        os.close(ours)
        return View("run")

    terminal.show(taken, view, print, is_over)
    taken.give_back()


def test_a_blocked_terminal_is_neither_drawn_nor_waited_for(ends, monkeypatch):
    monkeypatch.setattr(terminal, "SECONDS_BLOCKED", 0)
    theirs = ends[1]
    termios.tcflow(theirs, termios.TCOOFF)  # as after Ctrl-S
    taken = Terminal(theirs, theirs)
    taken.draw("one")
    taken.give_back()


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
