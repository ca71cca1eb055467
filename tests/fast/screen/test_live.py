"""The live line where it is tight, odd or cut short: a narrow terminal, a name like markup, Ctrl-C.
"""

import io
import sys
from types import SimpleNamespace

import pytest
from rich.console import Console

from andiron.progress import Progress
from andiron.render import Plain
from andiron.render.text import TimeLeft
from andiron.wings.screen.live import Live

HIDE_CURSOR, SHOW_CURSOR = "\x1b[?25l", "\x1b[?25h"


def progress(**state):
    length = {"num_epochs": 10, "num_updates": 210}
    where = Progress(**length | {"num_batches": 21, "num_items": 1295} | state)
    where.latest = {
        "train": {"loss": 0.5, "accuracy": 0.75},
        "valid": {"loss": 0.25, "accuracy": 0.875},
    }
    return where


@pytest.fixture
def moving_line(monkeypatch):
    """The line for batch 7 of epoch 3 of 10, one second after the start, by terminal width."""
    clock = SimpleNamespace(perf_counter=lambda: clock.now, now=0.0)
    monkeypatch.setattr("andiron.wings.screen.live.time", clock)

    def draw(width, **length):
        clock.now = 0.0
        file = io.StringIO()
        live = Live(Console(file=file, force_terminal=True, color_system=None, width=width))
        live.start(progress(epoch=3, batch=7, updates=49, first_epoch=1, **length))
        clock.now = 1.0
        live.stop()
        drawn = file.getvalue().partition(HIDE_CURSOR)[2].partition(SHOW_CURSOR)[0]
        return drawn.split("\x1b[2K")[-1].strip()

    return draw


@pytest.mark.parametrize("width", [80, 100, 120])
def test_a_narrow_line_has_place_total_time_left_and_the_values_that_fit(moving_line, width):
    values = "train loss 0.5000  accuracy 0.7500  |  valid loss 0.2500  accuracy 0.8750"
    line = f"3/10  49/210  3.3s left  {values}"
    assert moving_line(width) == (line if width > len(line) else f"{line[: width - 1]}…")


@pytest.mark.parametrize("width", [150, 200])
def test_a_wide_line_has_place_every_value_speed_time_left_and_a_bar(moving_line, width):
    line = moving_line(width)

    assert "\n" not in line and len(line) <= width
    for part in ("epoch 3/10", "update 49/210", "3,022 samples/s", "3.3s left"):
        assert part in line  # 49 batches in a second
    assert "train loss 0.5000  accuracy 0.7500  |  valid loss 0.2500  accuracy 0.8750" in line
    assert line.count("━") == 6  # of 20, for 7 batches of 21


@pytest.mark.parametrize("kind", [Live, Plain])
def test_a_metric_named_like_markup_is_shown_by_its_name(kind, monkeypatch):
    file = io.StringIO()
    monkeypatch.setattr(sys, "stdout", file)
    where = progress(epoch=1, updates=21)
    where.latest = {"train": {"recall[red]": 0.5}}
    console = Console(file=file, force_terminal=True, color_system=None, width=160)
    shown = Live(console) if kind is Live else Plain()
    shown.start(where)
    shown.epoch_ended(where, 0.1)
    shown.stop()
    assert "train recall[red] 0.5000  |  12,950 samples/s" in file.getvalue()

    row = {
        "split": "valid", "metric": "recall[red]", "best": 0.5, "epoch_of_best": 1, "last": 0.5,
        "last_epoch": 1,
    }  # fmt: skip
    shown.show({"run_dir": "a[b]", "model": "MLP", "num_parameters": 1, "updates": 21,
                "seconds": 1.0, "metrics": [row], "param_groups": {}})  # fmt: skip
    assert "│ recall[red] │" in file.getvalue() and "a[b]" in file.getvalue()


def test_every_epoch_leaves_its_line_once_and_in_order():
    file = io.StringIO()
    live = Live(Console(file=file, force_terminal=True, color_system=None, width=160))
    live.start(progress())
    for epoch in range(1, 8):
        live.epoch_ended(progress(epoch=epoch, updates=21 * epoch), 0.1)
    live.stop()

    stayed = [line for line in file.getvalue().splitlines() if "|  12,950 samples/s" in line]
    assert [line.split("update ")[1].split()[0] for line in stayed] == [
        str(21 * epoch) for epoch in range(1, 8)
    ]


def test_the_cursor_is_hidden_while_the_line_moves_and_shown_after():
    file = io.StringIO()
    live = Live(Console(file=file, force_terminal=True, width=160))
    live.start(progress())
    live.stop()

    drawn = file.getvalue()
    assert drawn.count(HIDE_CURSOR) == drawn.count(SHOW_CURSOR) == 1
    assert drawn.index(HIDE_CURSOR) < drawn.index(SHOW_CURSOR)


def test_stopping_twice_or_before_the_start_draws_nothing():
    file = io.StringIO()
    live = Live(Console(file=file, force_terminal=True, width=160))
    live.stop()
    assert file.getvalue() == ""

    live.start(progress())
    live.stop()
    drawn = file.getvalue()
    live.stop()
    assert file.getvalue() == drawn


def test_the_time_left_leaves_out_the_slow_first_updates():
    progress, left = Progress(num_epochs=1, num_updates=101), TimeLeft()
    assert left.seconds(progress, 5.0) is None
    progress.updates = 1  # after 5 s: 100 times as slow as the others
    assert left.seconds(progress, 5.0) is None
    progress.updates = 21
    assert left.seconds(progress, 6.0) == 4.0
