"""The layout of the screen: which panels are shown, where, and at which size."""

from andiron.wings.screen import panels
from andiron.wings.screen.rows import Row, beside, boxed, fitted
from andiron.wings.screen.view import Choice, View

WIDE, TALL = 90, 20  # the smallest screen with two columns
SMALLEST_PLOT = 6  # rows, with its title and legend


def screen(view: View, choice: Choice, width: int, height: int) -> list[Row]:
    """Exactly `height` rows of `width` columns; a small one shows the essentials."""
    head = panels.place(view, width)
    room = height - len(head) - 1
    if choice.has_help:
        body = boxed("keys", panels.help_(view), width, max(room, 0))
    elif width >= WIDE and height >= TALL:
        body = _wide(view, choice, width, room)
    else:
        body = _narrow(view, choice, width, room)
    rows = [*head, *body][: max(height - 1, 0)]
    rows += [[] for _ in range(height - 1 - len(rows))]
    return [fitted(row, width) for row in (*rows, panels.keys(view, width))][-height:]


def _wide(view: View, choice: Choice, width: int, room: int) -> list[Row]:
    """Numbers on the left, the chart on the right, the log below both."""
    bottom = max(4, room // 4)
    upper = room - bottom
    left = max(44, width * 2 // 5)
    right = width - left - 1
    groups, machine = panels.groups(view, left - 1), panels.machine(view, left - 1)
    below = min(len(groups) + 1, upper // 3)
    last = min(len(machine) + 1, upper // 3)
    numbers = [
        *boxed("metrics", panels.metrics(view, left - 1), left, upper - below - last),
        *boxed("groups", groups, left, below),
        *boxed("machine", machine, left, last),
    ]
    plot = boxed("plot", panels.plot(view, choice, right - 1, upper - 1), right, upper)
    return [
        *beside(numbers, plot),
        *boxed("log", panels.log(view, width, bottom - 1), width, bottom),
    ]


def _narrow(view: View, choice: Choice, width: int, room: int) -> list[Row]:
    """One column: metrics, then other panels as space permits."""
    metrics = panels.metrics(view, width - 1)
    needed = min(len(metrics) + 1, max(room, 0))
    body = boxed("metrics", metrics, width, needed)
    log = room = room - needed
    if room >= SMALLEST_PLOT:
        extra = room - SMALLEST_PLOT
        machine = panels.machine(view, width - 1)
        share = extra // 3 if extra >= 6 else 0
        below, log = min(len(machine) + 1, share), min(8, share)
        height = room - below - log
        body += boxed("plot", panels.plot(view, choice, width - 1, height - 1), width, height)
        body += boxed("machine", machine, width, below) if below > 1 else []
    return body + (boxed("log", panels.log(view, width, log - 1), width, log) if log > 1 else [])
