"""Checkpoints for the tests to save, and what they look at afterwards."""

from dataclasses import replace

import torch

from andiron.checkpoint import Checkpoint, FileCheckpointer, checkpointing

FILES = {"manifest.json", "model.safetensors", "optimizer.safetensors", "state.json"}
ALL_FILES = FILES | {"model-ema.safetensors", "metrics.safetensors"}
LAST_TWO_AND_BEST = checkpointing().strategy


def checkpoint(updates):
    """Four files; every number in them tells the update."""
    model = {"network.weight": torch.full((3, 2), float(updates)), "network.steps": torch.tensor(7)}
    return Checkpoint(model, {"network.weight/exp_avg": torch.full((3, 2), updates / 8)}, {
        "updates": updates, "epoch": 1,
    })  # fmt: skip


def rich(updates):
    """A checkpoint with every file and every kind of tensor that is special."""
    torch.manual_seed(updates)
    square = torch.randn(5, 7)
    model = {
        "half": torch.randn(3).bfloat16(), "transposed": square.t(),
        "tied": square, "again": square, "empty": square[:0],
        "count": torch.tensor(2**40 + updates), "flags": torch.tensor([True, False]),
        "Gödel": torch.tensor(0.5),
    }  # fmt: skip
    state = {
        "updates": updates, "epoch": 2, "seed": 2**63 - 1,
        "history": {"valid": {"loss": [0.1, {"best": 1 / 3}]}},
    }  # fmt: skip
    averages = {"ema": {"tied": torch.randn(5, 7)}}
    return Checkpoint(
        model, {"tied/exp_avg": torch.randn(5, 7)}, state, averages,
        {"train/loss": torch.randn(2).double()},
    )  # fmt: skip


def big(updates, *, megabytes):
    """A state of this number of megabytes, half of them in the optimizer."""
    numbers = megabytes * 2**20 // 8
    tensors = {"weight": torch.arange(numbers, dtype=torch.float32) + updates}
    return Checkpoint(tensors, {"weight/exp_avg": -tensors["weight"]}, {"updates": updates})


def frozen(updates, *, megabytes):
    """A state of `big`, beside weights of equal size that do not train."""
    trained = big(updates, megabytes=megabytes)
    body = torch.arange(megabytes * 2**20 // 4, dtype=torch.float32)
    return replace(trained, model=trained.model | {"body": body}, frozen=frozenset(["body"]))


def save(saver, updates, *, loss=0.5):
    saver.save(updates, checkpoint(updates), {"valid": {"loss": loss}} if loss is not None else {})


def saved(place, strategy, *checkpoints):
    """A checkpointer that has written these one after the other: updates, or updates and loss."""
    saver = FileCheckpointer(place, strategy)
    for one in checkpoints:
        updates, loss = one if isinstance(one, tuple) else (one, 0.5)
        save(saver, updates, loss=loss)
        assert saver.wait()
    return saver


def names(folder):
    """The files of a folder."""
    return {path.name for path in folder.iterdir()} if folder.exists() else set()


def equal(actual, expected):
    """Whether two checkpoints are the same: names, types, shapes, bits, values; the list of those
    kept left out.
    """
    for a, b in zip(_parts(actual), _parts(expected), strict=True):
        if set(a) != set(b) or not all(
            a[name].dtype == b[name].dtype and torch.equal(a[name], b[name]) for name in b
        ):
            return False
    states = [
        {key: value for key, value in entry.state.items() if key != "checkpoints"}
        for entry in (actual, expected)
    ]
    return states[0] == states[1]


def _parts(value):
    return [
        value.model, value.optimizer, value.metrics,
        *(value.averages[name] for name in sorted(value.averages)),
    ]  # fmt: skip
