"""The loop that draws a run on a terminal and reads keys, in at most 1 % of the time."""

import threading
import time
from collections.abc import Callable

from andiron.wings.screen import layout
from andiron.wings.screen.terminal import Terminal
from andiron.wings.screen.view import Choice, View

SECONDS_BETWEEN_DRAWINGS = 0.25
SECONDS_BETWEEN_LOOKS = 0.05  # at `is_over`
SHARE_OF_THE_TIME = 0.008  # of a CPU core, for drawing


def show(
    terminal: Terminal,
    view: Callable[[], View],
    press: Callable[[str], None],
    is_over: threading.Event,
) -> None:
    """Draws `view()` until `is_over`; keys that do not change the view go to `press`."""
    choice, state, due = Choice(), "", 0.0
    try:
        while not is_over.is_set() and not terminal.is_lost:
            if not terminal.is_foreground:  # continued in the background
                is_over.wait(SECONDS_BETWEEN_DRAWINGS)
                continue
            if time.monotonic() >= due:
                started = time.thread_time()
                terminal.take()
                shown = view()
                # a signal is announced on the terminal itself, over the rows
                is_covered, state = shown.state != state, shown.state
                terminal.draw(layout.screen(shown, choice, *terminal.size), is_covered)
                cost = time.thread_time() - started
                due = time.monotonic() + max(SECONDS_BETWEEN_DRAWINGS, cost / SHARE_OF_THE_TIME)
            for key in terminal.keys(SECONDS_BETWEEN_LOOKS):
                due = 0.0  # a key is answered at once
                if not choice.press(key):
                    press(key)
    finally:
        terminal.give_back()
