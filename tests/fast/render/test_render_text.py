"""A run's state as text."""

import pytest

from andiron.plain import readable
from andiron.progress import Progress
from andiron.render import text


@pytest.mark.parametrize(("value", "words"), [
    (0.0, "0.0000"), (0.12345, "0.1235"), (1e-3, "0.0010"), (9.99e-4, "9.990e-04"),
    (-2.5, "-2.5000"), (1e5, "1.000e+05"),
])  # fmt: skip
def test_a_number_shows_four_decimals_or_its_power_of_ten(value, words):
    assert readable.number(value) == words


@pytest.mark.parametrize(("seconds", "words"), [
    (0.04, "0.0s"), (9.94, "9.9s"), (12.3, "12s"), (59.6, "1m00s"), (200.0, "3m20s"),
    (7500.0, "2h05m"), (9e4, "25h00m"),
])  # fmt: skip
def test_a_duration_shows_two_units(seconds, words):
    assert readable.duration(seconds) == words


def test_an_epochs_line_has_place_values_and_speed():
    progress = Progress(12, num_batches=4, num_items=250, epoch=3, updates=12)
    progress.latest = {"train": {"loss": 0.5, "accuracy": 0.75}, "valid": {"loss": 0.25}}
    assert text.line(progress, 0.5) == (
        "epoch  3/12  update    12  train loss 0.5000  accuracy 0.7500  |  valid loss 0.2500  |  "
        "500 samples/s"
    )


def test_what_is_no_metric_is_left_out():
    assert (
        text.values({"loss": 1.0, "lr/base": 0.1, "time/samples_per_second": 3.0}) == "loss 1.0000"
    )


def test_names_from_a_file_are_printed_without_control_characters():
    progress = Progress(num_epochs=1)
    progress.latest = {"train\x1b[2J": {"loss\x07": 0.5}}
    assert text.splits(progress) == "train\\x1b[2J loss\\x07 0.5000"
