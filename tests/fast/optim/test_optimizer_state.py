"""Features of single optimizers: a closure, weights for evaluation, numbers and lists in their
state."""

import functools
import json
from collections.abc import Callable
from typing import Any

import pytest
import schedulefree
import torch
from tensor_bits import copies, differing
from torch import Tensor, nn

from andiron import gradients
from andiron.gradients import Gradients
from andiron.optim import Optimizer
from andiron.optim.foreign.whole_state import TREE
from refusals import message_of

INPUTS = torch.tensor(
    [[1.0, -2.0, 0.5], [0.0, 1.0, 3.0], [2.0, 2.0, -1.0], [0.5, 0.0, 1.0], [1.0, 1.0, 1.0]]
)
LBFGS = functools.partial(Optimizer, torch.optim.LBFGS)
ONES = {"weight": torch.ones(2, 3)}
ScheduleFree = functools.partial(Optimizer, schedulefree.AdamWScheduleFree)
NEEDS_CLOSURE = (
    "torch.optim.LBFGS evaluates the loss several times a step: give `step` a closure that "
    "returns the gradients at the current weights"
)


def line() -> nn.Linear:
    model = nn.Linear(3, 2)
    with torch.no_grad():
        model.weight.copy_(torch.tensor([[0.5, -0.25, 1.0], [2.0, 0.0, -1.0]]))
        model.bias.zero_()
    return model


def taken(model: nn.Module) -> Gradients:
    return gradients.backward((model(INPUTS) - 1).square().mean(), model)


def counted(model: nn.Module) -> tuple[Callable[[], Gradients], list[float]]:
    """A closure, and the losses that its calls came to."""
    losses: list[float] = []

    def closure() -> Gradients:
        result = taken(model)
        losses.append(float(result.loss))
        return result

    return closure, losses


def stepped(model: nn.Module, optimizer: Optimizer, number: int = 3) -> nn.Module:
    for _ in range(number):
        optimizer.step(0.05, model, taken(model))
    return model


@pytest.mark.parametrize("max_iter", [1, 2, 3, 5])
def test_given_gradients_serve_the_first_evaluation(max_iter: int) -> None:
    model = line()
    closure, losses = counted(model)
    optimizer = LBFGS(model, max_iter=max_iter, max_eval=100)
    given = taken(model)
    optimizer.step(0.1, model, given, closure)
    assert len(losses) == max_iter - 1  # without a search torch evaluates once an iteration
    assert all(later < earlier for earlier, later in zip([float(given.loss), *losses], losses))
    optimizer.step(0.1, model, taken(model), closure)
    assert len(losses) == 2 * (max_iter - 1)


def test_an_optimizer_says_whether_it_needs_a_closure_and_has_evaluation_weights() -> None:
    made = LBFGS(line()), Optimizer(torch.optim.Adam, line()), ScheduleFree(line())
    assert [one.needs_closure for one in made] == [True, False, False]
    assert [one.has_evaluation_weights for one in made] == [False, False, True]


def test_a_closure_that_is_not_needed_is_not_called() -> None:
    model, expected = line(), line()
    closure, losses = counted(model)
    Optimizer(torch.optim.Adam, model).step(0.1, model, taken(model), closure)
    Optimizer(torch.optim.Adam, expected).step(0.1, expected, taken(expected))
    assert losses == []
    assert differing(model.state_dict(), expected.state_dict()) == set()


NEEDS_LOSS = "torch.optim.LBFGS needs the loss: give gradients with one, as `backward` returns"
NOT_OWNED = "the optimizer does not own parameter 'bias'; it owns: weight"


@pytest.mark.parametrize(
    ("names", "given", "closure", "kind", "words"),
    [
        (None, taken, None, ValueError, NEEDS_CLOSURE),
        (None, lambda model: Gradients(ONES, model), taken, ValueError, NEEDS_LOSS),
        (None, taken, lambda model: Gradients(ONES, model), ValueError, NEEDS_LOSS),
        (["weight"], lambda model: taken(model).take_names("weight"), taken, KeyError, NOT_OWNED),
    ],
    ids=["no closure", "no first loss", "no second loss", "not its own"],
)
def test_a_step_of_lbfgs_that_cannot_be_made_is_refused(names, given, closure, kind, words) -> None:
    model = line()
    step = LBFGS(model, names=names).step
    closures = [] if closure is None else [lambda: closure(model)]
    assert message_of(kind, step, 0.1, model, given(model), *closures) == words
    assert [parameter.grad for parameter in model.parameters()] == [None, None]
    assert closures or differing(model.state_dict(), line().state_dict()) == set()


def test_numbers_and_lists_of_a_state_have_names_that_tell_which_they_are() -> None:
    model = line()
    optimizer = LBFGS(model, max_iter=2, max_eval=9, history_size=3)
    optimizer.step(0.1, model, taken(model), lambda: taken(model))
    state = optimizer.state_dict()
    assert {
        key: tensor.item() for key, tensor in state.items() if key.endswith(("number", "length"))
    } == {
        "weight/func_evals:number": 2, "weight/n_iter:number": 2, "weight/t:number": 0.1,
        "weight/prev_loss:number": optimizer.held.inner.state[model.weight]["prev_loss"],
        "weight/old_dirs:length": 1, "weight/old_stps:length": 1, "weight/ro:length": 1,
        "weight/al:length": 3,
    }  # fmt: skip
    assert {
        key: list(tensor.shape)
        for key, tensor in state.items()
        if not key.endswith(("number", "length"))
    } == {
        "weight/d": [8], "weight/prev_flat_grad": [8], "weight/H_diag": [],
        "weight/old_dirs.0": [8], "weight/old_stps.0": [8], "weight/ro.0": [], "weight/al.0": [],
    }  # fmt: skip


def test_evaluation_weights_are_schedulefrees_and_swap_back_exactly() -> None:
    model, expected = line(), line()
    plain = schedulefree.AdamWScheduleFree(expected.parameters(), lr=0.05)
    plain.train()
    for _ in range(3):
        (expected(INPUTS) - 1).square().mean().backward()
        plain.step()
        plain.zero_grad()
    optimizer = ScheduleFree(model)
    stepped(model, optimizer)
    trained = copies(model.state_dict())
    plain.eval()
    with optimizer.evaluated():
        assert differing(model.state_dict(), expected.state_dict()) == set()
        assert differing(model.state_dict(), trained) == {"weight", "bias"}
    assert differing(model.state_dict(), trained) == set()


def test_evaluating_in_between_changes_no_bit_of_what_follows() -> None:
    model, expected = line(), line()
    optimizer, undisturbed = ScheduleFree(model), ScheduleFree(expected)
    for _ in range(7):
        stepped(model, optimizer, 1)
        stepped(expected, undisturbed, 1)
        with optimizer.evaluated(), torch.inference_mode():
            model(INPUTS)
    assert differing(model.state_dict(), expected.state_dict()) == set()
    assert differing(optimizer.state_dict(), undisturbed.state_dict()) == set()


def test_a_block_within_a_block_and_one_that_fails_change_nothing() -> None:
    model = line()
    optimizer = ScheduleFree(model)
    trained = copies(stepped(model, optimizer).state_dict())
    with pytest.raises(ZeroDivisionError), optimizer.evaluated():
        outer = copies(model.state_dict())
        with optimizer.evaluated():
            assert differing(model.state_dict(), outer) == set()
        assert differing(model.state_dict(), outer) == set()
        _ = 1 / 0
    assert differing(model.state_dict(), trained) == set()
    stepped(model, optimizer)


def test_for_other_optimizers_the_weights_stay_and_may_be_stepped() -> None:
    model, expected = line(), line()
    optimizer, plain = Optimizer(torch.optim.Adam, model), Optimizer(torch.optim.Adam, expected)
    with optimizer.evaluated():
        stepped(model, optimizer)
    assert differing(stepped(expected, plain).state_dict(), model.state_dict()) == set()


def tree_of(state: dict[str, Tensor]) -> Any:
    """The state of a class of another package, without its tensors."""
    return json.loads(bytes(state[f"weight/{TREE}"].tolist()))


def test_the_state_inside_evaluated_holds_the_stepped_weights() -> None:
    model = line()
    optimizer = ScheduleFree(model, warmup_steps=2)
    trained = copies(stepped(model, optimizer).state_dict())
    outside = copies(optimizer.state_dict())
    with optimizer.evaluated():
        assert differing(optimizer.state_dict(), outside) == set()
    assert (
        differing({name: outside[f"{name}/training_weights"] for name in trained}, trained) == set()
    )
    assert tree_of(outside)["groups"] == [{
        "k": 3, "lr_max": 0.05, "scheduled_lr": 0.05,
        # lr squared, with its warm-up
        "weight_sum": (0.05 / 2) ** 2 + 0.05**2 + 0.05**2,
    }]  # fmt: skip


def test_a_step_or_a_load_within_an_evaluation_is_refused() -> None:
    model = line()
    optimizer = ScheduleFree(model)
    state, given = copies(stepped(model, optimizer) and optimizer.state_dict()), taken(model)
    with optimizer.evaluated():
        message = message_of(RuntimeError, optimizer.step, 0.05, model, given)
        assert message.startswith("a step inside `evaluated` would be lost with its weights")
        message = message_of(RuntimeError, optimizer.load_state_dict, state)
        assert message.startswith("a state loaded inside `evaluated` would lose its weights")
    assert differing(optimizer.state_dict(), state) == set()


def test_a_state_without_stepped_weights_is_refused() -> None:
    model = line()
    optimizer = ScheduleFree(model)
    stepped(model, optimizer)
    before = copies(optimizer.state_dict())
    state = {key: tensor + 1 for key, tensor in before.items() if key != "bias/training_weights"}
    assert message_of(ValueError, optimizer.load_state_dict, state) == (
        f"saved optimizer state lacks the weights that {optimizer.name} steps of bias; the model's "
        "file has others, for evaluation: load a state that this class saved"
    )
    assert differing(optimizer.state_dict(), before) == set()


def test_a_state_from_before_the_first_step_resets_counts() -> None:
    model, expected = line(), line()
    optimizer, fresh = ScheduleFree(model, warmup_steps=5), ScheduleFree(expected, warmup_steps=5)
    first = copies(optimizer.state_dict())
    stepped(model, optimizer)
    optimizer.load_state_dict(first)
    assert (
        differing(stepped(model, optimizer).state_dict(), stepped(expected, fresh).state_dict())
        == set()
    )
    assert differing(optimizer.state_dict(), fresh.state_dict()) == set()


class Tallying(torch.optim.Optimizer):
    """Somebody's own, which adds to its group as it goes: p <- p - lr * calls * g, calls kept in
    the group."""

    def __init__(self, params: Any, lr: float):
        super().__init__(params, {"lr": lr})

    def step(self) -> None:  # type: ignore[override]
        group = self.param_groups[0]
        group["calls"] = group.get("calls", 0) + 1
        for p in group["params"]:
            p.sub_(group["lr"] * group["calls"] * p.grad)
            p.grad.zero_()


def test_the_laws_hold_for_an_odd_optimizer() -> None:
    model = nn.Linear(2, 1, bias=False)
    nn.init.zeros_(model.weight)
    optimizer = Optimizer(Tallying, model)
    given = Gradients({"weight": torch.tensor([[1.0, -2.0]])}, model)
    optimizer.step(0.5, model, given)
    state = copies(optimizer.state_dict())
    optimizer.step(0.25, model, given)
    assert model.weight.tolist() == [[-1.0, 2.0]]  # 0.5 * 1 + 0.25 * 2
    assert given["weight"].tolist() == [[1.0, -2.0]]
    assert tree_of(state) == {
        "rates": [0.5], "groups": [{"calls": 1}], "rest": {}, "generators": {}, "state": []
    }
    optimizer.load_state_dict(state)
    # the second call again
    assert optimizer.step(1.0, model, given).weight.tolist() == [[-3.0, 6.0]]
    optimizer.load_state_dict({})
    assert optimizer.step(1.0, model, given).weight.tolist() == [[-4.0, 8.0]]  # the first
    assert optimizer.options == {}
