"""The implementations of torch's optimizers, steps with parts of the gradients, and refusals."""

import inspect
from collections.abc import Mapping
from typing import Any

import pytest
import torch
from tensor_bits import copies, differing
from test_optimizers import OPTIMIZERS
from torch import Tensor, nn
from uneven_batches import loss_of, lr_at

from andiron import gradients, randomness
from andiron.gradients import Gradients
from andiron.optim import Optimizer
from refusals import message_of

NAMES = (
    "Adam", "Adam-amsgrad-decay", "AdamW", "SGD", "SGD-momentum", "SGD-nesterov", "RMSprop",
    "RMSprop-centered-momentum", "Adagrad", "Adagrad-decay",
)  # fmt: skip
each_optimizer = pytest.mark.parametrize("name", NAMES)


def asked(
    optimizer_class: type[torch.optim.Optimizer], value: bool | None
) -> dict[str, bool | None]:
    """Both implementation options at `value`, as far as the class has them."""
    return {
        name: value
        for name in ("foreach", "fused")
        if name in inspect.signature(optimizer_class).parameters
    }


def network(seed: int = 0) -> nn.Sequential:
    randomness.start_stream(seed, "init")
    return nn.Sequential(nn.Linear(6, 9), nn.Tanh(), nn.LayerNorm(9), nn.Linear(9, 4))


def train(model: nn.Module, optimizer: Optimizer, updates: range) -> nn.Module:
    for update in updates:
        model = optimizer.step(
            lr_at(update), model, gradients.backward(loss_of(model, update), model)
        )
    return model


def train_plainly(model: nn.Module, optimizer: torch.optim.Optimizer, updates: range) -> nn.Module:
    for update in updates:
        for group in optimizer.param_groups:
            group["lr"] = lr_at(update)
        optimizer.zero_grad()
        loss_of(model, update).backward()
        optimizer.step()
    return model


def torch_state(optimizer: torch.optim.Optimizer, model: nn.Module) -> dict[str, Tensor]:
    """A torch optimizer's own state under the names that the face gives it."""
    return {
        f"{name}/{slot}": value
        for name, parameter in model.named_parameters()
        for slot, value in optimizer.state[parameter].items()
        if value is not None
    }


@each_optimizer
@pytest.mark.parametrize("value", [False, None], ids=["for-loop", "torch-default"])
def test_updates_equal_the_plain_loop_with_a_given_implementation(
    name: str, value: bool | None
) -> None:
    optimizer_class, settings = OPTIMIZERS[name]
    options = asked(optimizer_class, value)
    model, expected = network(), network()
    optimizer = Optimizer(optimizer_class, model, **settings, **options)
    plain = optimizer_class(expected.parameters(), **settings, **options)
    train(model, optimizer, range(20))
    train_plainly(expected, plain, range(20))
    assert differing(model.state_dict(), network().state_dict()) == model.state_dict().keys()
    assert differing(model.state_dict(), expected.state_dict()) == set()
    assert differing(optimizer.state_dict(), torch_state(plain, expected)) == set()


def effective(
    optimizer_class: type[torch.optim.Optimizer], options: Mapping[str, Any]
) -> dict[str, Any]:
    """Everything torch's own object then goes by, but for the learning rate."""
    defaults = optimizer_class(network().parameters(), **options).defaults
    # AdamW has a default of Adam's that it does not take
    known = inspect.signature(optimizer_class).parameters
    return {name: value for name, value in defaults.items() if name != "lr" and name in known}


@pytest.mark.parametrize(
    "options",
    [{"fused": False}, {"foreach": True}, {"fused": None}, {"differentiable": True}],
    ids=repr,
)
def test_an_implementation_that_was_asked_for_is_left_alone(options: dict[str, Any]) -> None:
    assert Optimizer(torch.optim.Adam, network(), **options).options == effective(
        torch.optim.Adam, options
    )


def test_it_is_named_as_one_would_import_it() -> None:
    assert Optimizer(torch.optim.AdamW, network()).name == "torch.optim.AdamW"
    assert Optimizer(SignDescent, network()).name == f"{__name__}.SignDescent"


class SignDescent(torch.optim.Optimizer):
    """Somebody's own optimizer: p <- p - lr * sign(m), m <- (m + g) / 2."""

    def __init__(self, params: Any):
        super().__init__(params, {"lr": None})

    def step(self) -> None:  # type: ignore[override]
        for group in self.param_groups:
            for p in group["params"]:
                if p.grad is not None:
                    mean = self.state[p]["mean"] = (self.state[p].get("mean", 0) + p.grad) / 2
                    p.sub_(group["lr"] * mean.sign())


def test_an_optimizer_of_ones_own_steps_and_keeps_state_like_torchs() -> None:
    model = nn.Linear(2, 1, bias=False)
    nn.init.zeros_(model.weight)
    optimizer = Optimizer(SignDescent, model)
    optimizer.step(0.5, model, Gradients({"weight": torch.tensor([[4.0, -2.0]])}, model))
    optimizer.step(0.25, model, Gradients({"weight": torch.tensor([[-1.0, -2.0]])}, model))
    assert model.weight.tolist() == [[-0.75, 0.75]]
    tensors = {n: s.tolist() for n, s in optimizer.state_dict().items() if ":text" not in n}
    assert tensors == {"weight/whole.0": [[0.5, -1.5]]}


@each_optimizer
def test_steps_with_the_parts_add_up_to_one_step_with_the_whole(name: str) -> None:
    optimizer_class, settings = OPTIMIZERS[name]
    whole, parts = network(), network()
    by_whole, by_parts = (Optimizer(optimizer_class, model, **settings) for model in (whole, parts))
    for update in range(10):
        by_whole.step(lr_at(update), whole, gradients.backward(loss_of(whole, update), whole))
        rest = gradients.backward(loss_of(parts, update), parts)
        for part in (rest.take(parts[3]), rest.take_names("0.bias"), rest):
            by_parts.step(lr_at(update), parts, part)
    assert differing(parts.state_dict(), whole.state_dict()) == set()
    assert differing(by_parts.state_dict(), by_whole.state_dict()) == set()


def test_a_frozen_parameter_has_no_owner_and_does_not_decay() -> None:
    model = network()
    model[3].requires_grad_(False)
    before = copies(model.state_dict())
    optimizer = Optimizer(torch.optim.AdamW, model, weight_decay=0.5)
    train(model, optimizer, range(3))
    assert list(optimizer.parameters) == ["0.weight", "0.bias", "2.weight", "2.bias"]
    assert differing(model.state_dict(), before) == {"0.weight", "0.bias", "2.weight", "2.bias"}
    assert {key.rpartition("/")[0] for key in optimizer.state_dict()} == {
        "0.weight", "0.bias", "2.weight", "2.bias",
    }  # fmt: skip


def test_a_tied_parameter_is_stepped_as_in_the_plain_loop() -> None:
    def tied() -> nn.Sequential:
        model = network()
        model.append(nn.Linear(4, 9))
        model.append(nn.Linear(9, 4, bias=False))
        model[4].weight = nn.Parameter(model[3].weight.detach().t().clone())
        model[5].weight = model[3].weight
        return model

    model, expected = tied(), tied()
    train(model, Optimizer(torch.optim.Adam, model), range(20))
    train_plainly(expected, torch.optim.Adam(expected.parameters(), fused=True), range(20))
    assert differing(model.state_dict(), expected.state_dict()) == set()
    assert model[5].weight is model[3].weight


def test_a_loaded_state_is_a_copy_that_later_steps_do_not_reach_through() -> None:
    model = network()
    optimizer = Optimizer(torch.optim.Adam, model)
    train(model, optimizer, range(3))
    loaded = copies(optimizer.state_dict())
    before = copies(loaded)
    optimizer.load_state_dict(loaded)
    train(model, optimizer, range(3, 6))
    assert differing(loaded, before) == set()


def test_state_is_named_by_parameter_and_slot() -> None:
    model = nn.Linear(3, 2)
    optimizer = Optimizer(torch.optim.Adam, model)
    optimizer.step(0.1, model, gradients.backward(model(torch.ones(5, 3)).sum(), model))
    assert {name: list(tensor.shape) for name, tensor in optimizer.state_dict().items()} == {
        "weight/step": [], "weight/exp_avg": [2, 3], "weight/exp_avg_sq": [2, 3],
        "bias/step": [], "bias/exp_avg": [2], "bias/exp_avg_sq": [2],
    }  # fmt: skip


@pytest.mark.parametrize("name", ["Adam", "AdamW", "SGD-momentum", "RMSprop"])
def test_state_is_empty_before_the_first_step(name: str) -> None:
    optimizer_class, settings = OPTIMIZERS[name]
    assert Optimizer(optimizer_class, network(), **settings).state_dict() == {}


def test_a_state_saved_before_the_first_step_starts_afresh() -> None:
    model = network()
    optimizer = Optimizer(torch.optim.Adam, model)
    train(model, optimizer, range(5))
    model.load_state_dict(network().state_dict())
    optimizer.load_state_dict({})
    train(model, optimizer, range(10))
    expected = network()
    train(expected, Optimizer(torch.optim.Adam, expected), range(10))
    assert differing(model.state_dict(), expected.state_dict()) == set()


def test_a_gradient_of_an_unowned_parameter_is_refused() -> None:
    model = nn.Linear(3, 2)
    optimizer = Optimizer(torch.optim.Adam, model)
    before = copies(model.state_dict())
    given = gradients.backward(model(torch.ones(5, 3)).sum(), model)
    given["head.weight"] = torch.ones(2, 3)
    assert message_of(KeyError, optimizer.step, 0.1, model, given) == (
        "the optimizer does not own parameter 'head.weight'; it owns: weight, bias"
    )
    assert differing(model.state_dict(), before) == set()
    assert [name for name, p in model.named_parameters() if p.grad is not None] == []


def test_a_step_that_fails_leaves_nothing_on_grad() -> None:
    model = nn.Linear(3, 2)
    optimizer = Optimizer(torch.optim.Adam, model)
    given = Gradients({"weight": torch.ones(2, 3), "bias": torch.ones(7)}, model)
    assert "size" in message_of(RuntimeError, optimizer.step, 0.1, model, given)
    assert [name for name, p in model.named_parameters() if p.grad is not None] == []


def test_a_state_of_unknown_parameters_is_refused() -> None:
    model = network()
    optimizer = Optimizer(torch.optim.Adam, model)
    train(model, optimizer, range(2))
    before = copies(optimizer.state_dict())
    state = {"0.weight/exp_avg": torch.zeros(9, 6), "head.weight/exp_avg": torch.zeros(2, 3)}
    assert message_of(KeyError, optimizer.load_state_dict, state) == (
        "saved optimizer state 'head.weight/exp_avg' is for no parameter of this model"
    )
    assert differing(optimizer.state_dict(), before) == set()


@pytest.mark.parametrize("options", [{}, {"names": []}])
def test_a_model_without_a_trainable_parameter_is_refused(options) -> None:
    model = nn.Linear(3, 2).requires_grad_("names" in options)
    message = message_of(ValueError, Optimizer, torch.optim.Adam, model, **options)
    assert message == "Linear has no trainable parameter for Adam to own"


def test_another_model_is_refused_and_a_wrapper_is_not():
    own, other = nn.Linear(3, 2), nn.Linear(3, 2)
    optimizer = Optimizer(torch.optim.SGD, own)
    before, result = own.weight.clone(), gradients.backward(own(torch.ones(1, 3)).sum(), own)
    words = "is not the model of this optimizer: it lacks weight, bias"
    assert words in message_of(ValueError, optimizer.step, 0.5, other, result)
    assert torch.equal(own.weight, before)

    wrapper = nn.Sequential(own)
    result = gradients.backward(own(torch.ones(1, 3)).sum(), own)
    assert optimizer.step(0.5, wrapper, result) is wrapper
    assert torch.equal(own.weight, before - 0.5)
