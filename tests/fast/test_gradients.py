"""Gradients as values: what `backward` gives, and how parts are taken out of it."""

from collections.abc import Callable, Mapping

import pytest
import torch
from torch import Tensor, nn

from andiron import gradients, randomness
from andiron.plain import private_torch
from andiron.gradients import Gradients
from refusals import message_of


class Scaled(nn.Module):
    """A nested model: own and frozen parameters, a list, no bias in one layer, an unused layer."""

    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Sequential(
            nn.Linear(5, 7), nn.Sequential(nn.Tanh(), nn.LayerNorm(7)), nn.Linear(7, 3, bias=False)
        )
        self.gains = nn.ParameterList(
            [nn.Parameter(torch.ones(3)), nn.Parameter(torch.full((3,), 0.5))]
        )
        self.frozen = nn.Parameter(torch.full((3,), 2.0), requires_grad=False)
        self.unused = nn.Linear(3, 2)
        # the model's own comes first in named_parameters()
        self.scale = nn.Parameter(torch.tensor(1.5))

    def forward(self, inputs: Tensor) -> Tensor:
        return self.scale * self.body(inputs) * (self.gains[0] + self.gains[1]) * self.frozen


REACHED = [
    "scale", "body.0.weight", "body.0.bias", "body.1.1.weight", "body.1.1.bias", "body.2.weight",
    "gains.0", "gains.1",
]  # fmt: skip


class Tied(nn.Module):
    """An output layer that shares the embedding's weight, as in a language model."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(11, 4)
        self.output = nn.Linear(4, 11, bias=False)
        self.output.weight = self.embedding.weight

    def forward(self, tokens: Tensor) -> Tensor:
        return self.output(self.embedding(tokens))


def scaled() -> Scaled:
    randomness.start_stream(0, "init")
    return Scaled()


def loss_of(model: nn.Module, size: int = 13) -> Tensor:
    inputs = torch.randn(size, 5, generator=randomness.stream(0, "inputs"))
    return model(inputs).square().mean()


def plain(loss: Tensor, model: nn.Module) -> dict[str, Tensor]:
    """The gradients of a plain loop, from `.grad`, which is then cleared."""
    loss.backward()
    result = {name: p.grad.clone() for name, p in model.named_parameters() if p.grad is not None}
    model.zero_grad()
    return result


def same(actual: Mapping[str, Tensor], expected: Mapping[str, Tensor]) -> bool:
    return list(actual) == list(expected) and all(
        torch.equal(actual[name], expected[name]) for name in expected
    )


def test_backward_gives_what_a_plain_loop_finds_on_grad() -> None:
    model = scaled()
    for size in (13, 1, 6):
        assert same(
            gradients.backward(loss_of(model, size), model), plain(loss_of(model, size), model)
        )


class Number(nn.Module):
    """A model whose only parameter can be its own loss."""

    def __init__(self, value: Tensor) -> None:
        super().__init__()
        self.value = nn.Parameter(value)


def engine_is_used(monkeypatch: pytest.MonkeyPatch, loss: Tensor, model: nn.Module) -> bool:
    """Whether `backward` bypasses `Tensor.backward`."""
    calls = []
    with monkeypatch.context() as patched:
        public = Tensor.backward
        patched.setattr(Tensor, "backward", lambda *args: (calls.append(1), public(*args)))
        patched.setattr(gradients, "BACKWARD", Tensor.backward)
        gradients.backward(loss, model)
    return not calls


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
def test_a_loss_that_is_a_parameter_leaves_the_kept_one_alone(dtype: torch.dtype) -> None:
    model = Number(torch.tensor(3.0, dtype=dtype))
    for _ in range(2):
        result = gradients.backward(model.value, model)
        assert same(result, {"value": torch.tensor(1.0, dtype=dtype)})
        result["value"].fill_(9.0)


def test_a_plain_scalar_goes_to_the_engine_and_all_else_to_tensor_backward(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    model = Number(torch.tensor([3.0]))
    assert engine_is_used(monkeypatch, model.value.sum() * 2, model)
    assert not engine_is_used(monkeypatch, model.value * 2, model)  # a loss of one dimension
    with monkeypatch.context() as patched:
        patched.setattr(gradients, "_engine_agrees", lambda: False)
        assert not engine_is_used(monkeypatch, model.value.sum() * 2, model)
        assert same(
            gradients.backward(model.value.sum() * 2, model), {"value": torch.tensor([2.0])}
        )


@pytest.mark.parametrize("other", [lambda *_: None, lambda: None])
def test_an_engine_that_is_called_otherwise_is_left_to_torch(
    monkeypatch: pytest.MonkeyPatch, other: Callable[..., None]
) -> None:
    assert gradients._engine_agrees()
    monkeypatch.setattr(private_torch, "run_engine", other)
    assert not gradients._engine_agrees.__wrapped__()


def test_the_first_backward_of_a_process_may_run_under_no_grad() -> None:
    model = Number(torch.tensor([3.0]))
    loss = model.value.square().sum()
    gradients._engine_agrees.cache_clear()
    with torch.no_grad():
        made = gradients.backward(loss, model)
    assert same(made, {"value": torch.tensor([6.0])})
    assert gradients._engine_agrees()


def test_losses_that_torch_refuses_are_refused_with_its_words() -> None:
    model = Number(torch.tensor([3.0, 4.0]))
    loss = model.value.square().sum()
    gradients.backward(loss, model)
    for refused, words in (
        (model.value * 2, "grad can be implicitly created only for scalar"),
        (torch.tensor(1.0), "does not require grad"), (loss, "a second time"),
    ):  # fmt: skip
        assert words in message_of(RuntimeError, gradients.backward, refused, model)


def test_hooks_see_and_change_the_gradients() -> None:
    model = Number(torch.tensor([3.0, 4.0]))
    model.value.register_hook(lambda gradient: gradient * 10)
    seen: list[Tensor] = []
    model.value.register_post_accumulate_grad_hook(lambda parameter: seen.append(parameter.grad))
    result = gradients.backward(model.value.sum(), model)
    assert same(result, {"value": torch.tensor([10.0, 10.0])})
    assert seen[0] is result["value"]


def test_a_parameter_whose_gradient_is_zero_has_an_entry() -> None:
    model = nn.Linear(3, 2)
    result = gradients.backward((model(torch.ones(5, 3)) * 0).sum(), model)
    assert same(result, {"weight": torch.zeros(2, 3), "bias": torch.zeros(2)})


def test_a_second_backward_is_not_added_to_the_first() -> None:
    model = scaled()
    first = gradients.backward(loss_of(model), model)
    kept = {name: tensor.clone() for name, tensor in first.items()}
    assert same(gradients.backward(loss_of(model), model), kept)
    assert same(first, kept)


def test_a_tied_parameter_has_one_entry_with_both_contributions() -> None:
    randomness.start_stream(0, "init")
    model = Tied()
    tokens = torch.tensor([1, 4, 4, 9, 0])
    expected = plain(model(tokens).square().sum(), model)
    result = gradients.backward(model(tokens).square().sum(), model)
    assert same(result, expected)
    assert list(result) == ["embedding.weight"]
    assert model.output.weight.grad is None


def test_a_module_used_under_two_names_has_its_gradients_under_the_first() -> None:
    shared = nn.Linear(5, 5)
    model = nn.Sequential(shared, nn.Tanh(), shared)
    result = gradients.backward(loss_of(model), model)
    assert same(result, plain(loss_of(model), model))
    assert list(result) == ["0.weight", "0.bias"]


def test_take_moves_the_gradients_of_one_module() -> None:
    model = scaled()
    whole = plain(loss_of(model), model)
    rest = gradients.backward(loss_of(model), model)
    part = rest.take(model.body[1])
    assert same(part, {name: whole[name] for name in ("body.1.1.weight", "body.1.1.bias")})
    assert same(rest, {name: tensor for name, tensor in whole.items() if name not in part})


def test_take_takes_what_a_module_still_has_of_the_whole_or_of_a_part() -> None:
    model = scaled()
    rest = gradients.backward(loss_of(model), model)
    assert len(rest.take(model.unused)) == 0 and list(rest) == REACHED
    body = rest.take(model.body)
    assert list(body.take(model.body[0])) == ["body.0.weight", "body.0.bias"]
    assert list(body) == ["body.1.1.weight", "body.1.1.bias", "body.2.weight"]
    assert list(rest.take(model)) == ["scale", "gains.0", "gains.1"] and len(rest) == 0


def test_take_finds_a_tied_parameter_through_either_module() -> None:
    model = Tied()
    tokens = torch.tensor([3, 3, 7])
    for module in (model.embedding, model.output):
        rest = gradients.backward(model(tokens).sum(), model)
        assert list(rest.take(module)) == ["embedding.weight"]
        assert len(rest) == 0


def test_take_refuses_a_module_from_elsewhere_and_takes_nothing() -> None:
    model = scaled()
    rest = gradients.backward(loss_of(model), model)
    assert message_of(ValueError, rest.take, nn.Sequential(model.body[0], nn.Linear(2, 2))) == (
        "Sequential is not part of the Scaled that these gradients belong to; take a submodule of "
        "the model given to backward"
    )
    assert list(rest) == REACHED


def test_take_names_moves_the_named_gradients_in_the_order_asked() -> None:
    model = scaled()
    whole = plain(loss_of(model), model)
    rest = gradients.backward(loss_of(model), model)
    part = rest.take_names("gains.1", "scale")
    assert same(part, {name: whole[name] for name in ("gains.1", "scale")})
    assert list(rest) == [name for name in REACHED if name not in ("gains.1", "scale")]


def test_take_names_refuses_a_name_without_a_gradient_and_takes_a_repeated_one_once() -> None:
    model = nn.Linear(3, 2)
    rest = gradients.backward(model(torch.ones(5, 3)).sum(), model)
    message = message_of(KeyError, rest.take_names, "weight", "wieght")
    assert message == "no gradient for parameter 'wieght'; available: weight, bias"
    assert list(rest) == ["weight", "bias"]
    assert list(rest.take_names("bias", "bias")) == ["bias"] and list(rest) == ["weight"]


def test_pop_gives_the_gradient_once_and_then_none() -> None:
    model = scaled()
    whole = plain(loss_of(model), model)
    rest = gradients.backward(loss_of(model), model)
    removed = rest.pop("scale", None)
    assert removed is not None and torch.equal(removed, whole["scale"])
    assert rest.pop("scale", None) is None
    assert list(rest) == REACHED[1:]


def test_setting_replaces_in_place_and_adds_at_the_end() -> None:
    result = Gradients({"weight": torch.zeros(2, 3)}, nn.Linear(3, 2))
    result["bias"] = torch.ones(2)
    result["weight"] = torch.full((2, 3), 4.0)
    assert same(result, {"weight": torch.full((2, 3), 4.0), "bias": torch.ones(2)})


def test_a_gradients_value_is_independent_of_the_mapping_it_was_made_from() -> None:
    tensors = {"weight": torch.zeros(2, 3), "bias": torch.ones(2)}
    result = Gradients(tensors, nn.Linear(3, 2))
    del result["bias"]
    assert list(tensors) == ["weight", "bias"]


def test_repr_names_each_parameter_and_its_shape() -> None:
    result = Gradients({"weight": torch.zeros(2, 3), "scale": torch.tensor(1.0)}, nn.Linear(3, 2))
    assert repr(result) == "Gradients(weight: [2, 3], scale: [])"
