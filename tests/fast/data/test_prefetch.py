"""Batches on their way to a device; the GPU's streams by stand-ins that tell the order of what is
asked of them.
"""

from contextlib import contextmanager
from types import SimpleNamespace

import pytest
import torch

from andiron.data import RawBatch, prefetch


@pytest.fixture
def asked(monkeypatch):
    """The requests to streams, in order."""
    said = []

    class Stream:
        def __init__(self, device):
            self.events = 0

        def record_event(self):
            self.events += 1
            said.append(f"copied {self.events - 1}")
            return self.events - 1

    @contextmanager
    def on(stream):
        said.append("on the copying stream")
        yield

    step = SimpleNamespace(wait_event=lambda event: said.append(f"step waits for {event}"))
    monkeypatch.setattr(torch.cuda, "Stream", Stream)
    monkeypatch.setattr(torch.cuda, "stream", on)
    monkeypatch.setattr(torch.cuda, "current_stream", lambda device: step)
    monkeypatch.setattr(
        torch.Tensor,
        "record_stream",
        lambda tensor, stream: said.append(f"kept for the step {tensor.item()}"),
    )
    return said


def test_on_a_gpu_the_next_batch_is_on_its_way_when_one_is_given(asked):
    made = prefetch.batches(
        range(3), lambda raw, device: RawBatch(*[torch.tensor(raw)] * 2), torch.device("cuda")
    )
    for number in made:
        asked.append(f"step {number.inputs.item()}")

    copies = [["on the copying stream", f"copied {number}"] for number in range(3)]
    steps = [
        [f"step waits for {n}", f"kept for the step {n}", f"kept for the step {n}", f"step {n}"]
        for n in range(3)
    ]
    assert asked == sum([copies[0], copies[1], steps[0], copies[2], steps[1], steps[2]], [])


def test_elsewhere_each_batch_is_made_when_it_is_asked_for():
    made = []
    batches = prefetch.batches(
        iter([1, 2]), lambda raw, device: made.append(raw) or raw * 10, torch.device("cpu")
    )

    assert (next(batches), made) == (10, [1])
    assert (next(batches), made) == (20, [1, 2])
    assert next(batches, None) is None


def test_every_tensor_of_a_batch_is_kept_whatever_holds_it(asked):
    batch = {"a": (torch.tensor(1), [torch.tensor(2)]), "b": "text"}

    assert list(prefetch.batches([0], lambda raw, device: batch, torch.device("cuda"))) == [batch]
    assert [line for line in asked if line.startswith("kept")] == [
        "kept for the step 1", "kept for the step 2",
    ]  # fmt: skip
    assert list(prefetch.batches([], lambda raw, device: batch, torch.device("cuda"))) == []


def test_pinning_keeps_what_holds_the_tensors(monkeypatch):
    monkeypatch.setattr(torch.Tensor, "pin_memory", lambda tensor: tensor + 1)

    raw = prefetch.pinned(RawBatch(torch.tensor([1]), torch.tensor([2])))

    assert isinstance(raw, RawBatch) and (raw.inputs.item(), raw.targets.item()) == (2, 3)
    assert prefetch.pinned("text") == "text"
