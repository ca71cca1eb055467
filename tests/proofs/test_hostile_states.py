"""A whole checkpoint whose values are none that a run can have: refused before any is used.

Each value of the state, and each tensor, is replaced in turn. What is accepted trains to the end.
"""

import copy
import itertools
import json
import math
import signal
from contextlib import contextmanager

import pytest
import torch
from small_digits import LR, builder, classifier, loaders, two_optimizers

from andiron import errors
from andiron.checkpoint import Checkpoint
from andiron.learner import EarlyStopping
from andiron.metrics import AUROC, ConfusionMatrix
from andiron.optim import Optimizer
from andiron.optim.foreign import slot_checks
from andiron.optim.own.averaging import Ema
from andiron.schedules import Plateau, Warmup

VALUES = (
    -1, 7, 2**31, 2**63, 10**30, 10**400, 0.5, -0.0, 1e308, math.nan, math.inf, "", "x",
    "ff" * 2500, None, True, [], {}, [[]], {"tensor": "99", "device": "cpu"}, {"tuple": [1]},
)  # fmt: skip
SECONDS = 20
STRIDE = 61  # every so many of 5,000 cases, which take six minutes


def made(folder):
    model = classifier()
    return (
        builder(folder, num_epochs=1)
        .metric_train_numeric(AUROC(), ConfusionMatrix())
        .averages(ema=Ema(0.9))
        .early_stopping(rule=EarlyStopping("loss", patience=2, restores_best=True))
        .options(validate_every=4)
        .build(model, two_optimizers(model), Warmup(Plateau(LR, patience=1), 3))
    )


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    learner = made(tmp_path_factory.mktemp("run"))
    train, *_ = loaders()
    with learner.training(train):
        for batches in itertools.islice(learner.batches_of_epoch(train), 5):
            learner.update(batches, train)
    state = learner.state()
    return Checkpoint(**vars(state) | {"state": json.loads(json.dumps(state.state))})


def places(value, above=()):
    """The path of every value inside, of lists the first three places."""
    if isinstance(value, dict | list):
        items = value.items() if isinstance(value, dict) else enumerate(value[:3])
        for key, inner in items:
            yield (*above, key)
            yield from places(inner, (*above, key))


def holder(value, place):
    for key in place[:-1]:
        value = value[key]
    return value


def outcome(state, folder):
    """The error of a learner that continues from the state, or None; anything else is raised."""
    learner = made(folder)
    try:
        learner.load(state)
        learner.fit(*loaders())
    except errors.AndironError as error:
        return str(error)
    return None


def timed_out(number, frame):
    raise TimeoutError


@contextmanager
def limited():
    before = signal.signal(signal.SIGALRM, timed_out)
    signal.alarm(SECONDS)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


def faults_of(attempts, folder):
    """The cases that end without an AndironError that names the place or a trained model."""
    faults = []
    for named, what, state in attempts:
        try:
            with limited():
                message = outcome(state, folder)
        except Exception as error:  # noqa: BLE001
            faults.append(f"{what}: {error!r}"[:300])
            continue
        if message is not None and not any(name in message for name in named):
            faults.append(f"{what} is not named: {message}"[:300])
    return faults


def test_each_value_replaced_and_each_key_removed(saved, tmp_path):
    def attempts():
        cases = itertools.product(places(saved.state), (*VALUES, KeyError))
        for place, value in itertools.islice(cases, 0, None, STRIDE):
            state = copy.deepcopy(saved.state)
            owner = holder(state, place)
            if value is KeyError:
                del owner[place[-1]]
            else:
                owner[place[-1]] = value
            changed = Checkpoint(**vars(saved) | {"state": state})
            words = str(place[0]), "state", "measured", "loss", "update"
            yield words, f"{place} = {str(value)[:40]}", changed

    faults = faults_of(attempts(), tmp_path)
    assert not faults, "\n".join(faults)


CHANGES = {
    "shape [1]": lambda tensor: torch.ones(1, dtype=tensor.dtype),
    "no elements": lambda tensor: torch.ones(0, dtype=tensor.dtype),
    "one more row": lambda tensor: torch.cat([tensor.reshape(-1), tensor.reshape(-1)[:1]]),
    "one dimension more": lambda tensor: tensor[None].clone(),
    "float64": lambda tensor: tensor.double(),
    "int64": lambda tensor: tensor.to(torch.int64),
    "bfloat16": lambda tensor: tensor.to(torch.bfloat16),
    "complex64": lambda tensor: tensor.to(torch.complex64),
    "bool": lambda tensor: tensor.to(torch.bool),
    "NaN": lambda tensor: torch.full_like(tensor, math.nan) if tensor.is_floating_point() else None,
    "minus one": lambda tensor: torch.full_like(tensor, -1),
    "huge": lambda tensor: torch.full_like(tensor, 1e30) if tensor.is_floating_point() else None,
    "missing": lambda tensor: None,
}


def with_tensors(saved, part, name, tensor):
    """The checkpoint with one tensor of `model`, `optimizer`, `metrics` or an average replaced."""
    tensors = dict(saved.averages[part] if part in saved.averages else getattr(saved, part))
    tensors[name] = tensor
    tensors = {key: value for key, value in tensors.items() if value is not None}
    changed = {"averages": saved.averages | {part: tensors}}
    return Checkpoint(**vars(saved) | (changed if part in saved.averages else {part: tensors}))


@pytest.mark.parametrize("part", ["model", "optimizer", "metrics", "ema"])
def test_each_tensor_replaced_removed_or_added(part, saved, tmp_path):
    tensors = saved.averages[part] if part in saved.averages else getattr(saved, part)

    def attempts():
        for number, (name, tensor) in enumerate(tensors.items()):
            for place, (what, change) in enumerate(CHANGES.items()):
                if part == "optimizer" or (number + place) % 3 == 0:
                    changed = with_tensors(saved, part, name, change(tensor))
                    yield (name, "state", "loss", "update"), f"{name} {what}", changed
        for name in ("x", "x/exp_avg", f"{next(iter(tensors))}.more"):
            changed = with_tensors(saved, part, name, torch.ones(2))
            yield (name, "state.json"), f"{name} added", changed

    faults = faults_of(attempts(), tmp_path)
    assert not faults, "\n".join(faults)


def test_state_of_an_optimizer_that_is_gone_is_missed(saved, tmp_path):
    unlisted = {name: value for name, value in saved.state.items() if name != "stateless"}
    missing = "'stateless' is missing"
    for state, words in (saved.state, "no state"), (unlisted, missing):
        message = outcome(Checkpoint(**vars(saved) | {"state": state, "optimizer": {}}), tmp_path)
        assert words in message, message


def test_a_length_that_stands_for_memory_is_refused():
    model = classifier()
    optimizer = Optimizer(torch.optim.LBFGS, model)
    bomb = {f"{[*optimizer.parameters][0]}/old_dirs:length": torch.tensor(10**12)}
    assert any("counts" in problem for problem in slot_checks._slot_problems(optimizer, bomb))
