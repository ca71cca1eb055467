"""Copies in the memory of the host: equal to what was copied, and nobody else's."""

import threading
import time

import pytest
import torch
from checkpoints_made import equal, rich
from waiting import until

from andiron.checkpoint import Checkpoint, contents
from andiron.plain.background import Background
from andiron.checkpoint.contents import copied
from refusals import message_of


def buffers_of(checkpoint):
    return {
        (file, name): tensor
        for file, tensors in contents.tensors_by_file(checkpoint).items()
        for name, tensor in tensors.items()
    }


def addresses(copy):
    buffers = buffers_of(copy.checkpoint)
    return {key: buffer.data_ptr() for key, buffer in buffers.items() if buffer.numel()}


def test_a_copy_is_equal_and_shares_no_memory():
    original = rich(3)
    copy = copied(original, dict(original.state))
    assert equal(copy.checkpoint, original)
    theirs = {
        tensor.data_ptr()
        for tensor in (*original.model.values(), *original.optimizer.values())
        if tensor.numel()
    }
    assert not theirs & set(addresses(copy).values())
    assert list(copy.checkpoint.model) == list(original.model)


def test_every_tensor_of_a_copy_lies_contiguous():
    copy = copied(rich(3), {})
    assert all(buffer.is_contiguous() for buffer in buffers_of(copy.checkpoint).values())


def test_copying_a_parameter_leaves_no_graph():
    weight = torch.nn.Parameter(torch.ones(3))
    copy = copied(Checkpoint({"weight": weight}, {}, {}), {})
    assert not copy.checkpoint.model["weight"].requires_grad
    assert weight.grad is None and weight.is_leaf


def test_plain_values_are_copied_all_the_way_down():
    value = {"a": [1, {"b": [2.5, None, "text"]}], "c": (1, 2)}
    copy = copied(Checkpoint({}, {}, {}), value).checkpoint.state
    assert copy == {"a": [1, {"b": [2.5, None, "text"]}], "c": [1, 2]}
    value["a"][1]["b"].append(3)
    assert copy["a"][1]["b"] == [2.5, None, "text"]


@pytest.mark.gpu
def test_from_a_gpu_the_copy_is_what_was_there_before_the_next_kernel():
    weights = {
        f"{number}": torch.full((1 << 22,), float(number), device="cuda") for number in range(8)
    }
    for _ in range(3):
        expected = {name: tensor.cpu() for name, tensor in weights.items()}
        copy = copied(Checkpoint(weights, {}, {}), {})
        for tensor in weights.values():
            tensor.add_(1)
        copy.wait()
        assert all(torch.equal(copy.checkpoint.model[name], expected[name]) for name in weights)
        assert all(buffer.is_pinned() for buffer in buffers_of(copy.checkpoint).values())


# the thread


def test_what_is_asked_for_several_times_meanwhile_is_done_once():
    done, may_go = [], threading.Event()

    def work():
        done.append(time.monotonic())
        may_go.wait(10)

    background = Background(work, seconds=0.0)
    background.ask()
    while not done:
        time.sleep(0.001)
    for _ in range(5):
        background.ask()
    may_go.set()
    background.finish()
    assert len(done) == 2
    background.close()


def test_work_begins_again_only_after_its_seconds_unless_it_is_waited_for():
    began = []
    background = Background(lambda: began.append(time.monotonic()), seconds=0.5)
    for number in (1, 2, 3):
        background.ask()
        until(lambda: len(began) == number)  # noqa: B023
    background.ask()
    background.finish()
    background.close()
    gaps = [later - earlier for earlier, later in zip(began, began[1:], strict=False)]
    # as the work sees it, which begins a little late
    assert gaps[0] > 0.3 and gaps[1] > 0.3 and gaps[2] < 0.3


def test_what_the_work_raises_is_raised_once_by_the_next_check():
    def work():
        raise ValueError("a bug")

    background = Background(work, seconds=0.0)
    background.ask()
    background.finish()
    assert "a bug" in message_of(ValueError, background.check)
    background.check()
    background.close()


def test_nothing_is_begun_for_nobody_and_closing_twice_is_closing():
    background = Background(lambda: pytest.fail("not asked for"), seconds=0.0)
    background.finish()
    background.close()
    background.close()
    assert background._thread is None
