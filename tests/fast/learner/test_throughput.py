"""The speed of a window, by a clock that the test turns."""

import pytest
import torch
from torch import nn

from andiron.data import ArrayBatcher, ArrayDataset, DataLoader
from andiron.learner import LearnerBuilder
from andiron.learner.extras import throughput
from andiron.metrics import Loss
from andiron.tasks import Classifier
from threaded_world import in_threads


class Clock:
    """A clock that stands still until it is turned."""

    def __init__(self):
        self.now = 100.0

    def perf_counter(self):
        return self.now

    process_time = perf_counter


def window_of(measured, *, updates, waited=0.0):
    """The readings of a window of `updates`, each of one batch of 8 samples."""
    measured.batches = measured.updates = updates
    measured.waited = waited
    return measured.close_window(samples_per_batch=8.0)


@pytest.fixture
def clock(monkeypatch):
    clock = Clock()
    monkeypatch.setattr(throughput, "time", clock)
    return clock


def test_a_window_has_the_means_of_its_updates(clock):
    measured = throughput.Throughput(torch.device("cpu"))
    measured.start_epoch()
    clock.now += 0.5
    values = window_of(measured, updates=5, waited=0.125)

    assert values == {"time/step": 0.1, "time/data": 0.25, "time/samples_per_second": 80.0}
    assert measured.close_window(samples_per_batch=8.0) == {}
    assert measured.seconds_of_epoch == 0.5


def test_the_machine_is_read_at_most_once_a_second(clock):
    measured = throughput.Throughput(torch.device("cpu"))
    measured.start_epoch()
    read = []
    for update in range(1, 41):
        clock.now += 0.125
        values = window_of(measured, updates=1)
        if "system/cpu_percent" in values:
            read.append(update)
            assert values.get("system/memory_gib", 1) > 0.01

    assert read == [8, 16, 24, 32, 40]


def test_training_time_leaves_out_what_follows_an_epoch_and_is_continued(clock):
    measured = throughput.Throughput(torch.device("cpu"))
    measured.resume(10.0, 0, 0)
    for seconds in (2.0, 3.0):
        measured.start_epoch()
        clock.now += seconds
        measured.close_epoch()
        clock.now += 50.0  # validation

    assert measured.training_seconds == 15.0


def test_a_validation_within_an_epoch_is_no_training_time_and_an_open_epoch_is(
    clock, monkeypatch
):
    class Slow(nn.Linear):
        def forward(self, inputs):
            clock.now += 1 if self.training else 100
            return super().forward(inputs)

    model, samples = Classifier(Slow(4, 3)), ArrayDataset(torch.ones(14, 4), torch.arange(14) % 3)
    builder = LearnerBuilder(num_epochs=1, log_every=2, validate_every=3).renderer(None)
    builder = builder.metric_valid_numeric(Loss()).unrecorded()
    seconds, points, loader = {}, [], DataLoader(samples, ArrayBatcher(), batch_size=2)
    with builder.build(model, torch.optim.SGD(model.parameters(), lr=0.1)) as learner:
        monkeypatch.setattr(learner.metric_log.writers, "write", points.append)
        for step in learner.steps(loader, loader):
            seconds[step.updates] = learner.metric_log.state_dict()[0]["seconds"]
    assert seconds == {update: update for update in range(1, 8)}
    times = [point.values["time/step"] for point in points if "time/step" in point.values]
    assert times == [1, 1, 1, 1]


def test_the_readings_of_every_process_are_together(clock):
    def readings(world):
        measured = throughput.Throughput(torch.device("cpu"), world)
        measured.start_epoch()
        world.gathered(None)
        clock.now += 0.5 * world.rank
        world.gathered(None)
        world.waited = 0.125 * (1 + world.rank)
        return window_of(measured, updates=5, waited=0.05 * (1 + world.rank))

    expected = {"time/step": 0.1, "time/data": 0.1, "time/samples_per_second": 80.0,
                "time/exchange": 0.25, "time/data/rank1": 0.2,
                "time/exchange/rank1": 0.5}  # fmt: skip
    assert in_threads(readings, 2) == [expected, expected]
