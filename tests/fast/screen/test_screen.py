"""The screen fills every size, keeps the essentials when small, and has no control characters."""

import pytest
from rich.console import Console
from rich.segment import Segment

from andiron.wings.screen import chart, layout, panels
from andiron.wings.screen.curves import Curves
from andiron.wings.screen.view import Choice, SHARES, View

SIZES = [(1, 1), (10, 3), (20, 5), (40, 12), (80, 24), (89, 60), (90, 20), (120, 32), (300, 100)]


def view(**state):
    curves = Curves({"accuracy": "highest", "loss": "lowest"})
    for epoch in (1, 2):
        for update in range(5 * epoch - 4, 5 * epoch + 1):
            train = {"loss": 1 / update, "accuracy": update / 20, "lr/base": 0.001,
                     "grad_norm/base": 1.5, "time/step": 0.002, "time/data": 0.25,
                     "time/samples_per_second": 12345.0, "system/memory_gib": 0.5}  # fmt: skip
            curves.add("train", update, epoch, train, is_whole=False)
        measured = {"loss": 0.5 * epoch, "accuracy": 0.75 / epoch}
        curves.add("valid", update, epoch, measured, is_whole=True)
    known = {"name": "outputs/mine", "epoch": 2, "num_epochs": 4, "updates": 10, "num_updates": 20,
             "batch": 5, "num_batches": 5, "elapsed": 12.0, "left": 12.0}  # fmt: skip
    return View(**known | {"curves": curves, "lines": ["run folder outputs/mine"]} | state)


def shown(width, height, choice=None, **state):
    return layout.as_text(view(**state), choice or Choice(), width, height).split("\n")


def test_40_by_12_shows_the_essentials():
    assert shown(40, 12) == [
        " outputs/mine  running",
        " ━━━━━━━━━━━━━━━━━━━",
        " 50%  epoch 2/4  update 10/20  batch 5/5",
        " 12s left  after 12s",
        "─ metrics ──────────────────────────────",
        "                     now    best  epoch",
        " loss      train  0.1000",
        " loss      valid  1.0000  0.5000      1",
        " accuracy  train  0.5000",
        " accuracy  valid  0.3750  0.7500      1",
        "",
        "q stop  ? help  s save  v validate  ←→ …",
    ]


def test_a_large_screen_has_every_panel():
    screen = "\n".join(shown(120, 32))

    titles = ("metrics", "plot", "groups", "machine", "log")
    values = (
        "━ train  ━ valid", "base   0.001        1.5", "samples/s          12,345",
        "seconds an update   0.002", "waiting for data      25%", "memory GiB           0.50",
        "10 updates", "run folder outputs/mine",
    )  # fmt: skip
    for part in (*(f"─ {title} ─" for title in titles), *values):
        assert part in screen, part


@pytest.mark.parametrize("has_help", [False, True])
def test_every_size_is_filled_exactly(has_help):
    for width, height in SIZES:
        screen = layout.screen(view(), Choice(has_help=has_help), width, height)
        rows = Console(width=width, height=height).render_lines(screen)
        assert {Segment.get_line_length(row) for row in rows} == {width}
        assert len(rows) == height, (width, height)


def test_nothing_that_a_terminal_obeys_comes_from_a_run():
    evil = "\x1b]0;owned\x07\x1b[2J\x9b31m\n\ttext"
    curves = Curves()
    curves.add(evil, 1, 1, {evil: 0.5, f"lr/{evil}": 1.0, f"grad_norm/{evil}": 1.0}, True)
    for width, height in SIZES:
        for choice in (Choice(), Choice(has_help=True)):
            hostile = view(name=evil, state=evil, lines=[evil], curves=curves)
            rows = layout.as_text(hostile, choice, width, height).split("\n")
            assert "".join(rows).isprintable(), ascii(rows)
            assert len(rows) == height


def test_no_number_is_ever_cut():
    curves = Curves(dict.fromkeys(("loss", "mae", "mse", "explained_variance"), "lowest"))
    for name in ("loss", "mae", "mse", "explained_variance"):
        curves.add("train", 4200, 420, {name: 26123.6354}, is_whole=True)
        curves.add("valid", 4200, 420, {name: 108.8874, "lr/decoder.layers": 0.00123}, True)
    regression = View("r", curves=curves)
    for width in range(24, 121):
        rows = [*panels.metrics(regression, width), *panels.groups(regression, width)]
        texts = [row.plain for row in rows]
        words = " ".join(texts).split()
        assert max(map(len, texts)) <= width
        assert {*words} & {"26123.6354", "108.8874", "0.00123"} and words.count("train") == 4
        assert not {word for word in words if word[0].isdigit()} - {
            "26123.6354", "108.8874", "0.00123", "420"
        }  # fmt: skip

    texts = [row.plain for row in panels.metrics(regression, 43)]
    assert texts[0] == "                     now        best  epoch"
    assert texts[-1] == "expl…  valid    108.8874    108.8874    420"
    rows = shown(12, 40, lines=["value 123456789"])
    assert " value 1234…" in rows and not any("12345678" in row for row in rows)


def test_progress_breaks_between_its_words_and_leaves_out_what_does_not_fit():
    run = view(updates=123456, num_updates=200000, left=4000.0)
    for width in range(4, 90):
        texts = [line.plain for line in panels.head(run, width)[2:]]
        words = " ".join(texts).split("  ")
        known = {"62%", "epoch 2/4", "update 123,456/200,000", "batch 5/5", "1h06m left"}
        known.add("after 12s")
        assert {word.strip() for word in words} - {""} == {
            word for word in known if len(word) < width
        }
        assert max(map(len, texts)) <= width


def test_the_axis_has_enough_digits_to_tell_its_values_apart():
    def labels(low, high):
        rows = chart.chart([("", [0, 10], [low, high])], width=30, height=6)
        return [text[:9].strip() for text in (row.plain for row in rows) if "┤" in text]

    assert labels(0.0199, 0.02) == ["0.020000", "0.019950", "0.019900"]
    assert labels(-1.5e-100, 2.5e-100) == ["2.5e-100", "5.0e-101", "-1.5e-100"]
    assert labels(0.0, 26123.63541) == ["26123.635", "13061.818", "0.000"]


def test_a_run_that_has_logged_nothing_is_shown():
    screen = shown(120, 32, curves=Curves(), num_updates=0, left=None, elapsed=None)

    assert "nothing is logged yet" in "\n".join(screen)


def test_the_best_follows_the_direction_and_is_not_nan():
    curves = Curves({"loss": "lowest", "recall": "highest"})
    for epoch, value in enumerate((float("nan"), 0.5, 0.75, 0.25), 1):
        values = {"loss": value, "recall": value, "recall/cat": value}
        curves.add("valid", epoch * 10, epoch, values, is_whole=True)

    result = {name: curves.best["valid", name].epoch for name in ("loss", "recall", "recall/cat")}
    assert result == {"loss": 4, "recall": 3, "recall/cat": 3}


def test_arrow_keys_choose_the_value_and_the_range():
    choice, curves = Choice(), view().curves
    assert choice.chosen(curves) == "loss"
    for key, name in (("right", "accuracy"), ("left", "loss"), ("left", "system/memory_gib")):
        assert choice.press(key) and choice.chosen(curves) == name
    for key in ("up", *["down"] * 9):
        assert choice.press(key)
    assert choice.share == 0 and choice.press("up") and SHARES[choice.share] == 0.5
    assert not choice.press("q")


def test_a_chart_draws_a_rising_line_from_corner_to_corner():
    rows = chart.chart([("", [0, 10], [0.0, 1.0])], width=30, height=5)

    assert [row.plain for row in rows] == [
        "   1.0000┤⠀⠀⠀⠀⠀⠀⠀⠀⠀⠀⠀⠀⠀⠀⠀⣀⡠⠤⠒⠉",
        "   0.6667┤⠀⠀⠀⠀⠀⠀⠀⠀⠀⠀⣀⡠⠔⠒⠉⠀⠀⠀⠀⠀",
        "         │⠀⠀⠀⠀⠀⣀⠤⠔⠊⠉⠀⠀⠀⠀⠀⠀⠀⠀⠀⠀",
        "   0.0000┤⣀⠤⠒⠊⠉⠀⠀⠀⠀⠀⠀⠀⠀⠀⠀⠀⠀⠀⠀⠀",
        "         └0         10 updates",
    ]


def test_a_chart_leaves_out_what_is_not_finite_and_takes_long_curves():
    nan = float("nan")
    assert chart.chart([("", [1, 2], [nan, nan])], 40, 10) == []
    rows = chart.chart([("red", [1, 2, 3], [nan, 1.0, float("inf")])], 40, 10)
    assert chart.chart([("", [1, 2], [-1.7e308, 1.7e308])], 40, 10) == []
    assert len(rows) == 10 and any(span.style == "red" for row in rows for span in row.spans)

    curves = Curves()
    for update in range(10_000):
        curves.add("train", update, 1, {"loss": float(update)}, is_whole=False)
    curve = curves.by_name["loss"]["train"]
    assert len(curve.updates) <= 2000 and curve.updates[-1] == 9999 and curve.updates[0] < 2000


def test_each_of_several_processes_has_a_column():
    several = view()
    of_ranks = {"time/exchange": 0.5, "time/data/rank1": 0.0625, "time/exchange/rank1": 0.75,
                "system/memory_gib/rank1": 0.25}  # fmt: skip
    several.curves.add("train", 11, 3, of_ranks, is_whole=False)
    lines = {row.plain[:16].strip(): row.plain[17:].split() for row in panels.machine(several, 60)}
    assert lines.pop("") == ["rank0", "rank1"] and lines["samples/s"] == ["12,345"]
    assert lines["waiting for data"] == ["25%", "6%"] and lines["memory GiB"] == ["0.50", "0.25"]
    assert lines["in exchanges"] == ["50%", "75%"]
