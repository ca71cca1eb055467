"""Schedulers of torch, transformers, timm and the user's own continue exactly from their files."""

import functools
import json
import math
from collections import deque
from types import SimpleNamespace

import pytest
import torch
from torch.optim import lr_scheduler

from andiron import errors
from andiron.disk import files
from andiron.serialization import state_trees
from andiron.optim.torch_schedule import TorchPlateau, TorchSchedule


class Own(lr_scheduler.LRScheduler):
    """The user's own, with a state that JSON lacks."""

    def __init__(self, optimizer, kept):
        self.kept, self.function = kept, math.sqrt
        super().__init__(optimizer)

    def get_lr(self):
        self.kept.append(self.kept.popleft())
        return [base * self.kept[0] for base in self.base_lrs]


class Drops(Own):
    def get_lr(self):
        return [base * 0.5 ** (self.last_epoch in self.kept) for base in self.base_lrs]


TORCH = {
    "multi step": lambda o: lr_scheduler.MultiStepLR(o, [1, 3, 6, 6]),
    "multi step in sequential": lambda o: lr_scheduler.SequentialLR(
        o, [lr_scheduler.LinearLR(o), lr_scheduler.MultiStepLR(o, [2, 4])], milestones=[2]
    ),
    "chained": lambda o: lr_scheduler.ChainedScheduler(
        [lr_scheduler.MultiStepLR(o, [4]), lr_scheduler.ExponentialLR(o, 0.9)]
    ),
    "step": lambda o: lr_scheduler.StepLR(o, 3),
    "constant": lambda o: lr_scheduler.ConstantLR(o, total_iters=6),
    "cosine": lambda o: lr_scheduler.CosineAnnealingLR(o, T_max=7),
    "restarts": lambda o: lr_scheduler.CosineAnnealingWarmRestarts(o, T_0=4),
    "polynomial": lambda o: lr_scheduler.PolynomialLR(o, total_iters=8, power=2),
    "multiplicative": lambda o: lr_scheduler.MultiplicativeLR(o, lambda epoch: 0.9),
    "one cycle": lambda o: lr_scheduler.OneCycleLR(o, 0.2, total_steps=30),
    "cyclic": lambda o: lr_scheduler.CyclicLR(o, 0.01, 0.1, step_size_up=3, mode="exp_range"),
    "lambda": lambda o: lr_scheduler.LambdaLR(o, functools.partial(pow, 0.5)),
}  # fmt: skip
OWN = {
    "deque": lambda o: Own(o, deque([1.0, 0.5, 0.25], maxlen=3)),
    "set": lambda o: Drops(o, {2, 5, 7}),
    "tensor": lambda o: Drops(o, torch.tensor([2, 6])),
    "tuples": lambda o: Drops(o, {(2, 1): 3, 5: 1, None: {6}}),
}


def of_transformers():
    hub = pytest.importorskip("transformers")
    names = ["linear", "cosine", "polynomial", "constant_with_warmup", "inverse_sqrt"]
    return {
        name: lambda o, name=name: hub.get_scheduler(name, o, 3, 20) for name in names
    } | {"wsd": lambda o: hub.get_wsd_schedule(o, 3, 5, num_stable_steps=4)}


def of_timm():
    timm = pytest.importorskip("timm.scheduler")
    given = dict(t_in_epochs=False, warmup_t=2, warmup_lr_init=1e-4, noise_range_t=[3, 9])
    return {
        "cosine": lambda o: timm.CosineLRScheduler(o, 8, cycle_limit=2, **given),
        "multi step": lambda o: timm.MultiStepLRScheduler(o, [3, 6], **given),
        "step": lambda o: timm.StepLRScheduler(o, 3, **given),
        "epochs": lambda o: timm.PolyLRScheduler(o, 4, warmup_t=1),
    }


def optimizer():
    return torch.optim.SGD(
        [{"params": [torch.nn.Parameter(torch.ones(1))], "lr": rate} for rate in (0.1, 0.03)],
        momentum=0.9,
    )


def rates_of(schedule, updates, per_epoch=3):
    """The rates of updates, in epochs of three."""
    for update in updates:
        schedule.start(SimpleNamespace(epoch=update // per_epoch))
        yield [schedule(update, group) for group in range(2)]


def through_files(state):
    """The state as a checkpoint gives it back."""
    plain, tensors = state_trees.encoded_parts({"schedules": {"mine": state}})
    read = files.parsed_json(files.as_json(plain))
    return state_trees.decoded_parts(read, tensors)["schedules"]["mine"]


def as_written_before(state):
    """The state in the form of versions that wrote JSON, which left out what JSON lacks."""
    lists = [{k: v for k, v in value.items() if is_json(v)} for value in state["torch"]]
    return {**state, "torch": json.dumps(lists)}


def is_json(value):
    try:
        json.dumps(value)
    except TypeError:
        return False
    return True


@pytest.mark.parametrize("every", ["update", "epoch"])
@pytest.mark.parametrize("makers", [TORCH, OWN, of_transformers, of_timm])
def test_a_scheduler_continues_from_its_files(makers, every):
    for name, make in (makers() if callable(makers) else makers).items():
        whole = [*rates_of(TorchSchedule(make(optimizer()), every=every), range(28))]
        for length in (0, 1, 4, 10):
            first = TorchSchedule(make(optimizer()), every=every)
            assert [*rates_of(first, range(length))] == whole[:length], name
            states = [through_files(first.state_dict())]
            if makers is TORCH:
                states.append(as_written_before(first.state_dict()))
            for state in states:
                resumed = TorchSchedule(make(optimizer()), every=every)
                resumed.load_state_dict(state)
                assert [*rates_of(resumed, range(length, 28))] == whole[length:], (name, length)


def test_a_setting_that_the_checkpoint_changes_back_is_named(caplog):
    long, short = (lr_scheduler.CosineAnnealingLR(optimizer(), n, eta_min=0.01) for n in (8, 4))
    TorchSchedule(long).load_state_dict(TorchSchedule(short).state_dict())
    assert long.T_max == 4  # torch's states have settings too: the rate rises from epoch 4 on
    warnings = [record.message for record in caplog.records if record.levelname == "WARNING"]
    assert warnings == ["the checkpoint's T_max=4 counts, not 8"]


def test_a_scheduler_of_timm_gives_the_rates_of_its_own_loop():
    for name, make in of_timm().items():
        plain, expected = make(optimizer()), []
        groups = plain.optimizer.param_groups
        for update in range(12):
            if update:
                plain.step_update(update)
            if update and update % 3 == 0:
                plain.step(update // 3)
            expected.append([group["lr"] for group in groups])
        assert [*rates_of(TorchSchedule(make(optimizer())), range(12))] == expected, name


def test_a_state_that_cannot_be_saved_is_named():
    schedule = TorchSchedule(Drops(optimizer(), {b"bytes"}), every="update")
    with pytest.raises(errors.ConfigError, match=r"mine.torch\[0\].kept\[0\]: is b'bytes'"):
        through_files(schedule.state_dict())


@pytest.mark.filterwarnings("ignore:PlateauLRScheduler is deprecated")
def test_a_scheduler_that_steps_by_a_metric_is_refused_with_what_works():
    plateau = lr_scheduler.ReduceLROnPlateau(optimizer())
    with pytest.raises(errors.MismatchError, match="steps by metrics; give TorchPlateau"):
        TorchSchedule(plateau)
    assert TorchPlateau(plateau)(0, 1) == 0.03
    of_timm = pytest.importorskip("timm.scheduler").PlateauLRScheduler(optimizer())
    with pytest.raises(errors.MismatchError, match="ReduceLROnPlateau in its lr_scheduler"):
        TorchSchedule(of_timm)
