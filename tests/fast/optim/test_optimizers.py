"""Every optimizer a config can choose, and one by its name alone, against its own plain loop."""

import functools
import inspect
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import lion_pytorch
import numpy as np
import pytest
import pytorch_optimizer
import schedulefree
import torch
from tensor_bits import copies, differing
from torch import Tensor, nn
from torch.nn import functional
from uneven_batches import SIZES, batch, lr_at

from andiron import errors, gradients, randomness, serialization
from andiron.gradients import Gradients
from andiron.optim import GroupedOptimizer, Optimizer
from andiron.optim.foreign import slot_checks
from andiron.optim.own.flat_state import GROUP, LENGTH, NUMBER
from andiron.plain import wings

OF_LAB = wings.optional("andiron_lab.optim")

OPTIMIZERS: dict[str, tuple[type[torch.optim.Optimizer], dict[str, Any]]] = {
    "SGD": (torch.optim.SGD, {}),
    "SGD-momentum": (torch.optim.SGD, {"momentum": 0.9, "dampening": 0.1, "weight_decay": 0.01}),
    "SGD-nesterov": (torch.optim.SGD, {"momentum": 0.9, "nesterov": True}),
    "Adam": (torch.optim.Adam, {}),
    "Adam-amsgrad-decay": (torch.optim.Adam,
                           {"amsgrad": True, "weight_decay": 0.01, "betas": [0.8, 0.95]}),
    "AdamW": (torch.optim.AdamW, {"weight_decay": 0.05}),
    "RMSprop": (torch.optim.RMSprop, {}),
    "RMSprop-centered-momentum": (torch.optim.RMSprop,
                                  {"centered": True, "momentum": 0.9, "weight_decay": 0.01}),
    "Adagrad": (torch.optim.Adagrad, {}),
    "Adagrad-decay": (torch.optim.Adagrad,
                      {"lr_decay": 0.01, "weight_decay": 0.01, "initial_accumulator_value": 0.1}),
    "NAdam": (torch.optim.NAdam, {"weight_decay": 0.01}),
    "NAdam-decoupled": (torch.optim.NAdam, {"weight_decay": 0.01, "decoupled_weight_decay": True}),
    "RAdam": (torch.optim.RAdam, {"weight_decay": 0.01}),
    "Adamax": (torch.optim.Adamax, {"weight_decay": 0.01}),
    "Adadelta": (torch.optim.Adadelta, {"weight_decay": 0.01}),
    "ASGD": (torch.optim.ASGD, {"t0": 20.0}),  # averages from update 20 on
    "Adafactor": (torch.optim.Adafactor, {"weight_decay": 0.01}),
    "LBFGS": (torch.optim.LBFGS, {"max_iter": 3, "history_size": 5}),
    "LBFGS-strong_wolfe": (torch.optim.LBFGS, {"max_iter": 4, "line_search_fn": "strong_wolfe"}),
    "Muon": (torch.optim.Muon, {}),
    "Muon-adamw_lr": (torch.optim.Muon, {"adjust_lr_fn": "match_rms_adamw", "nesterov": False}),
    **({name: (getattr(OF_LAB, name), {"weight_decay": 0.01}) for name in ("Adan", "Lamb")}
       if OF_LAB else {}),
    "SOAP": (pytorch_optimizer.SOAP, {"precondition_frequency": 3}),
    "Kron": (pytorch_optimizer.Kron, {"weight_decay": 0.01, "balance_prob": 0.5}),
    "Rprop": (torch.optim.Rprop, {}),
    "Lion": (lion_pytorch.Lion, {"weight_decay": 0.01}),
    "schedule-free": (schedulefree.AdamWScheduleFree,
                      {"weight_decay": 0.01, "warmup_steps": 10, "r": 0.5}),
    "schedule-free-for-loop": (schedulefree.AdamWScheduleFree, {"foreach": False}),
    "schedule-free-closure": (schedulefree.AdamWScheduleFreeClosure, {"warmup_steps": 10}),
}  # fmt: skip
each_optimizer = pytest.mark.parametrize("name", OPTIMIZERS)


def network(name: str, seed: int = 0) -> nn.Sequential:
    """For Muon one of matrices alone."""
    randomness.start_stream(seed, "init")
    if name.startswith("Muon"):
        return nn.Sequential(nn.Linear(6, 9, bias=False), nn.Tanh(), nn.Linear(9, 4, bias=False))
    return nn.Sequential(nn.Linear(6, 9), nn.Tanh(), nn.LayerNorm(9), nn.Linear(9, 4))


def taken(model: nn.Module, update: int) -> Gradients:
    inputs, targets = batch(update)
    return gradients.backward(functional.cross_entropy(model(inputs), targets), model)


def start_draws(update: int) -> None:
    """Kron draws from torch's and NumPy's generators."""
    randomness.start_stream(0, "step", update)
    np.random.seed(update)


def train(model: nn.Module, optimizer: Optimizer, updates: range) -> None:
    for update in updates:
        start_draws(update)
        again = functools.partial(taken, model, update)
        assert optimizer.step(lr_at(update), model, again(), again) is model


def train_plainly(model: nn.Module, optimizer: torch.optim.Optimizer, updates: range) -> None:
    for update in updates:
        start_draws(update)
        for group in optimizer.param_groups:
            group["lr"] = lr_at(update)
        optimizer.step(closure_of(model, optimizer, update))


def closure_of(
    model: nn.Module, optimizer: torch.optim.Optimizer, update: int
) -> Callable[[], Tensor]:
    def closure() -> Tensor:
        optimizer.zero_grad()
        inputs, targets = batch(update)
        loss = functional.cross_entropy(model(inputs), targets)
        loss.backward()
        return loss

    return closure


def chosen(optimizer_class: type[torch.optim.Optimizer]) -> dict[str, bool]:
    """The implementation that the face chooses."""
    known = [
        name
        for name in ("fused", "foreach")
        if name in inspect.signature(optimizer_class).parameters
    ]
    return {known[0]: True} if known else {}


def as_lists(value: Any) -> Any:
    """Tensors and what is in lists as plain values, for a comparison with `==` to the bit."""
    if isinstance(value, list | tuple):
        return [as_lists(item) for item in value]
    return (value.dtype, value.tolist()) if isinstance(value, Tensor) else value


def state_within(optimizer: torch.optim.Optimizer, model: nn.Module) -> dict[str, Any]:
    """Everything a torch optimizer goes by besides the weights."""
    slots = {
        f"{name}/{slot}": as_lists(value)
        for name, parameter in model.named_parameters()
        for slot, value in optimizer.state[parameter].items()
        if value is not None
    }
    return slots | {
        key: value
        for key, value in optimizer.param_groups[0].items()
        if key not in ("params", "foreach", "fused")
    }


@each_optimizer
def test_updates_equal_the_plain_loop_including_the_state(name: str) -> None:
    optimizer_class, settings = OPTIMIZERS[name]
    model, expected = network(name), network(name)
    optimizer = Optimizer(optimizer_class, model, **settings)
    plain = optimizer_class(expected.parameters(), **(chosen(optimizer_class) | settings))
    if isinstance(plain, schedulefree.AdamWScheduleFree):
        plain.train()
    train(model, optimizer, range(40))
    train_plainly(expected, plain, range(40))
    assert differing(model.state_dict(), network(name).state_dict()) == model.state_dict().keys()
    assert differing(model.state_dict(), expected.state_dict()) == set()
    assert state_within(optimizer.held.inner, model) == state_within(plain, expected)


@each_optimizer
def test_going_on_from_files_in_a_fresh_optimizer_is_never_having_stopped(
    name: str, tmp_path: Path
) -> None:
    optimizer_class, settings = OPTIMIZERS[name]
    straight = network(name)
    by_straight = Optimizer(optimizer_class, straight, **settings)
    train(straight, by_straight, range(30))
    with by_straight.evaluated():  # as a checkpoint is written
        serialization.save_tensors(tmp_path / "model.safetensors", straight.state_dict())
        serialization.save_tensors(tmp_path / "optimizer.safetensors", by_straight.state_dict())
    train(straight, by_straight, range(30, 60))

    resumed = network(name, seed=1)
    by_resumed = Optimizer(optimizer_class, resumed, **settings)
    train(resumed, by_resumed, range(60, 65))  # of which nothing may be left
    resumed.load_state_dict(serialization.load_tensors(tmp_path / "model.safetensors"))
    by_resumed.load_state_dict(serialization.load_tensors(tmp_path / "optimizer.safetensors"))
    train(resumed, by_resumed, range(30, 60))
    assert differing(resumed.state_dict(), straight.state_dict()) == set()
    assert differing(by_resumed.state_dict(), by_straight.state_dict()) == set()
    inner = (optimizer.held.inner for optimizer in (by_resumed, by_straight))
    assert state_within(next(inner), resumed) == state_within(next(inner), straight)


@each_optimizer
def test_its_state_is_accepted_and_a_changed_or_missing_slot_named(name: str) -> None:
    optimizer_class, settings = OPTIMIZERS[name]
    model = network(name)
    optimizer = Optimizer(optimizer_class, model, **settings)
    train(model, optimizer, range(3))
    whole, state = GroupedOptimizer.of(optimizer, model), optimizer.state_dict()
    stateless = whole.without_state(state)
    saved = {"stateless": stateless, "frozen": (), "updates": 3, "owners": whole.owners()}

    def problems(changed: Mapping[str, Tensor]) -> list[str]:
        return [*slot_checks.problems(whole, changed, saved)]

    assert problems(state) == []
    fresh = GroupedOptimizer.of(Optimizer(optimizer_class, model, **settings), model)
    assert [*slot_checks.problems(fresh, state, saved)] == []
    for key, tensor in copies(state).items():
        if optimizer.needs_closure and not key.endswith((NUMBER, LENGTH)):
            continue  # its tensors are taken as the file has them
        changes = [state | {key: torch.ones(1234, dtype=tensor.dtype)}]
        if not optimizer.is_own and not key.endswith("training_weights"):  # its class checks them
            with pytest.raises(errors.DataError, match="is damaged"):
                whole.load_state_dict({other: state[other] for other in state if other != key})
            continue
        if GROUP not in key and not optimizer.needs_closure:
            without = {other: state[other] for other in state if other != key}
            changes += [without, state | {key: tensor.to(torch.int8)}]
        for changed in changes:
            parameter = key.rpartition("/")[0]
            assert [problem for problem in problems(changed) if parameter in problem], key


@each_optimizer
def test_a_step_leaves_gradients_as_they_were_and_one_without_any_changes_nothing(name) -> None:
    optimizer_class, settings = OPTIMIZERS[name]
    model = network(name)
    optimizer = Optimizer(optimizer_class, model, **settings)
    for update in range(5):
        given = taken(model, update)
        before = copies(given)
        optimizer.step(lr_at(update), model, given, functools.partial(taken, model, update))
        assert differing(given, before) == set()
        assert [n for n, p in model.named_parameters() if p.grad is not None] == []
    parameters, state = copies(model.state_dict()), copies(optimizer.state_dict())
    optimizer.step(0.1, model, Gradients({}, model))
    assert differing(model.state_dict(), parameters) == set()
    assert differing(optimizer.state_dict(), state) == set()


@each_optimizer
def test_two_with_a_part_each_keep_to_it_and_share_no_name_in_their_states(name: str) -> None:
    optimizer_class, settings = OPTIMIZERS[name]
    model = network(name)
    names = [n for n, _ in model.named_parameters()]
    parts = (names[::2], names[1::2])
    optimizers = [Optimizer(optimizer_class, model, part[::-1], **settings) for part in parts]
    states: list[dict[str, Tensor]] = []
    for part, optimizer in zip(parts, optimizers, strict=True):
        before = copies(model.state_dict())
        again = functools.partial(taken_of, model, part)
        optimizer.step(0.01, model, again(), again)
        optimizer.step(0.01, model, again(), again)  # SOAP's first moves nothing
        assert list(optimizer.parameters) == part
        assert differing(model.state_dict(), before) == {*part}
        states.append(optimizer.state_dict())
        assert {key.rpartition("/")[0] for key in states[-1]} <= {*part}
    assert states[0].keys() & states[1].keys() == set()
    assert not states[0] or states[1]


def taken_of(model: nn.Module, names: list[str]) -> Gradients:
    return taken(model, 0).take_names(*names)


@pytest.mark.parametrize(
    "name",
    [name for name in OPTIMIZERS if OPTIMIZERS[name][0].__module__.startswith("torch.optim")],
)
def test_options_are_torchs_with_the_implementation_chosen(name: str) -> None:
    optimizer_class, settings = OPTIMIZERS[name]
    given = settings | chosen(optimizer_class)
    known = inspect.signature(optimizer_class).parameters
    defaults = {key: known[key].default for key in known if key not in ("params", "lr")}
    if optimizer_class is torch.optim.LBFGS:
        defaults["max_eval"] = settings["max_iter"] * 5 // 4  # what torch makes of None
    options = Optimizer(optimizer_class, network(name), **settings).options
    expected = {key: as_lists(value) for key, value in (defaults | given).items()}
    assert {key: as_lists(value) for key, value in options.items()} == expected


def test_options_of_schedule_free_are_what_it_takes_and_not_what_it_counts() -> None:
    optimizer = Optimizer(schedulefree.AdamWScheduleFree, network("schedule-free"), warmup_steps=10)
    expected = {
        "betas": (0.9, 0.999), "eps": 1e-8, "weight_decay": 0, "warmup_steps": 10, "r": 0.0,
        "weight_lr_power": 2.0, "foreach": True,
    }  # fmt: skip
    assert optimizer.options == expected
    train(optimizer._model, optimizer, range(2))
    assert optimizer.options == expected


def test_a_convolution_in_channels_last_resumes_exactly(tmp_path: Path) -> None:
    # a file has rows only, and a fused step goes by address: state in rows would meet weights in
    # channels
    def convolution(seed: int) -> nn.Sequential:
        randomness.start_stream(seed, "init")
        return nn.Sequential(nn.Conv2d(3, 5, 3), nn.Flatten(), nn.Linear(5 * 4, 4)).to(
            memory_format=torch.channels_last
        )

    def train_it(model: nn.Module, optimizer: Optimizer, updates: range) -> None:
        for update in updates:
            stream = randomness.stream(0, "images", update)
            images = torch.randn(SIZES[update % 4], 3, 4, 4, generator=stream).to(
                memory_format=torch.channels_last
            )
            optimizer.step(
                lr_at(update), model, gradients.backward(model(images).square().mean(), model)
            )

    straight, resumed = convolution(0), convolution(1)
    by_straight, by_resumed = (Optimizer(torch.optim.Adam, model) for model in (straight, resumed))
    train_it(straight, by_straight, range(5))
    serialization.save_tensors(tmp_path / "model.safetensors", straight.state_dict())
    serialization.save_tensors(tmp_path / "optimizer.safetensors", by_straight.state_dict())
    train_it(straight, by_straight, range(5, 10))
    resumed.load_state_dict(serialization.load_tensors(tmp_path / "model.safetensors"))
    by_resumed.load_state_dict(serialization.load_tensors(tmp_path / "optimizer.safetensors"))
    train_it(resumed, by_resumed, range(5, 10))
    assert differing(resumed.state_dict(), straight.state_dict()) == set()
    assert differing(by_resumed.state_dict(), by_straight.state_dict()) == set()
