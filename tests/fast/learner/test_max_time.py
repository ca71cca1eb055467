"""`max_time` ends a run for good: validated, saved and tested."""

import pytest
import torch
from small_digits import LR, builder, classifier, loaders

from andiron.distributed import World
from andiron.optim import Optimizer
from andiron.plain.cadence import seconds_of
from refusals import message_of


class Clocked(World):
    """A process whose clock is set by the test."""

    seconds = 100.0

    def clock(self):
        return self.seconds


def made(folder, world, max_time="10s"):
    model = classifier()
    chosen = (
        builder(folder, num_epochs=2)
        .with_file_checkpointer()
        .options(max_time=max_time)
        .world(world)
    )
    return chosen.build(model, Optimizer(torch.optim.SGD, model), LR)


@pytest.mark.parametrize("last", [4, 7, 9])
def test_the_run_ends_after_the_update_at_which_the_time_is_over(tmp_path, last):
    world = Clocked()
    with made(tmp_path, world) as learner:
        kinds = []
        for step in learner.steps(*loaders()):
            kinds.append(step.kind)
            if step.updates == last:
                world.seconds = 110.0
    assert learner.updates == last and kinds[-2:] == ["validation", "test"]
    assert learner.ending == "max_time=10s is over"
    assert [row["last_epoch"] for row in learner.summary()["metrics"] if row["split"] == "test"]


def test_a_resumed_run_has_the_whole_time_again(tmp_path):
    world = Clocked()
    with made(tmp_path, world) as learner:
        for step in learner.steps(*loaders()):
            if step.updates == 5:
                world.seconds = 110.0
    with made(tmp_path, world) as learner:
        learner.resume()
        learner.fit(*loaders())
        assert (learner.updates, learner.ending) == (14, None)


def test_without_max_time_no_clock_is_read(tmp_path, monkeypatch):
    world, readings = Clocked(), []
    monkeypatch.setattr(world, "clock", lambda: readings.append(1) or 0.0)
    with made(tmp_path, world, max_time=None) as learner:
        learner.fit(*loaders())
    assert (learner.updates, readings) == (14, [])


@pytest.mark.parametrize(("text", "seconds"), [
    ("90s", 90), ("1second", 1), ("30min", 1800), ("2minutes", 120), ("0.5h", 1800),
    ("8hours", 28800), ("8 hours", 28800), ("1d", 86400), ("2days", 172800),
])  # fmt: skip
def test_a_duration_has_a_number_and_a_unit(text, seconds):
    assert seconds_of(text) == seconds


@pytest.mark.parametrize("text", ["8", "0h", "h", "-1h", "8m", "8weeks", "1e3s", "0.0s", "٣s"])
def test_a_duration_without_a_unit_or_of_zero_is_refused(tmp_path, text):
    assert "like 90s, 30min, 8hours or 2days" in message_of(ValueError, seconds_of, text)
    assert "max_time" in message_of(ValueError, builder(tmp_path).options, max_time=text)
