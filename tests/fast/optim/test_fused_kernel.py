"""The fused kernels called directly: the same bits and states as the public `step`."""

import pytest
import torch
from tensor_bits import same
from torch import nn
from torch.nn import functional
from uneven_batches import SIZES, lr_at

from andiron import gradients, randomness
from andiron.optim import Optimizer
from andiron.optim.foreign import torch_step
from andiron.plain import private_torch
from refusals import message_of

CASES = {
    "Adam": (torch.optim.Adam, {}),
    "Adam, decay": (torch.optim.Adam, {"weight_decay": 0.1, "betas": (0.8, 0.9), "eps": 1e-5}),
    "Adam, amsgrad": (torch.optim.Adam, {"amsgrad": True}),
    "Adam, maximize": (torch.optim.Adam, {"maximize": True}),
    "Adam, decoupled": (torch.optim.Adam, {"decoupled_weight_decay": True, "weight_decay": 0.1}),
    "AdamW": (torch.optim.AdamW, {}),
    "AdamW, amsgrad": (torch.optim.AdamW, {"amsgrad": True, "weight_decay": 0.3}),
    "SGD": (torch.optim.SGD, {}),
    "SGD, decay": (torch.optim.SGD, {"weight_decay": 0.1, "maximize": True}),
    "SGD, momentum": (torch.optim.SGD, {"momentum": 0.9, "dampening": 0.1}),
    "SGD, nesterov": (torch.optim.SGD, {"momentum": 0.9, "nesterov": True, "weight_decay": 0.01}),
}


class Network(nn.Module):
    """Two layers and one that only some updates use; the second bias is frozen."""

    def __init__(self, dtype=torch.float32):
        super().__init__()
        randomness.start_stream(0, "init")
        self.first = nn.Linear(6, 9, dtype=dtype)
        self.second = nn.Linear(9, 4, dtype=dtype)
        self.sometimes = nn.Linear(4, 4, dtype=dtype)
        self.second.bias.requires_grad_(False)

    def loss(self, update, *, skips=False):
        stream, size = randomness.stream(0, "batch", update), SIZES[update % len(SIZES)]
        inputs = torch.randn(size, 6, generator=stream).to(self.first.weight.dtype)
        outputs = self.second(torch.tanh(self.first(inputs)))
        outputs = outputs if skips else self.sometimes(outputs)
        return functional.cross_entropy(outputs, torch.randint(4, (size,), generator=stream))


def trained(kind, options, *, may_fuse, skipped=(), dtype=torch.float32, lr=lr_at):
    """Weights and state after 30 updates, saved and loaded after 12; and how many steps were
    public."""
    model, public_steps = Network(dtype), []
    optimizer = made(kind, options, model, may_fuse, public_steps)
    for update in range(30):
        if update == 12:
            state = {name: tensor.clone() for name, tensor in optimizer.state_dict().items()}
            optimizer = made(kind, options, model, may_fuse, public_steps)
            optimizer.load_state_dict(state)
        loss = model.loss(update, skips=update in skipped)
        optimizer.step(lr(update), model, gradients.backward(loss, model))
    assert all(parameter.grad is None for parameter in model.parameters())
    return model.state_dict() | optimizer.state_dict(), len(public_steps)


def made(kind, options, model, may_fuse, public_steps):
    """An optimizer that notes each of its public steps in a list."""
    optimizer = Optimizer(kind, model, **options)
    if optimizer.held.needs_rate:
        optimizer.held.expect([0.1])
    if not may_fuse:
        optimizer.held.step.by_kernel = lambda *given: False
    public_step = optimizer.held.step.plain
    optimizer.held.step.plain = lambda *given: (public_steps.append(1), public_step(*given))
    return optimizer


@pytest.mark.parametrize(
    "case, skipped", [(case, skipped) for case in CASES for skipped in ((), (5, 6, 20), (0, 5, 12))]
)
def test_bits_and_states_equal_the_public_step(case, skipped):
    expected, public = trained(*CASES[case], may_fuse=False, skipped=skipped)
    actual, remaining = trained(*CASES[case], may_fuse=True, skipped=skipped)
    assert same(actual, expected)
    # public are the steps with a gradient missing, and the first whole one; two for a late momentum
    assert public >= 30 and remaining <= len(skipped) + 2


def test_float64_has_the_same_bits():
    expected, _ = trained(torch.optim.AdamW, {}, may_fuse=False, dtype=torch.float64)
    actual, public = trained(torch.optim.AdamW, {}, may_fuse=True, dtype=torch.float64)
    assert same(actual, expected) and public == 1


@pytest.mark.parametrize("options", [{}, {"nesterov": True}, {"dampening": 0.3}])
def test_a_branch_whose_first_gradient_comes_late_trains_as_with_torch(options):
    model, plain = Network(torch.float64), Network(torch.float64)
    if "dampening" not in options:
        options = {"weight_decay": 0.1, **options}
    ours = Optimizer(torch.optim.SGD, model, momentum=0.9, **options)
    theirs = torch.optim.SGD(plain.parameters(), lr=0.1, momentum=0.9, fused=False, **options)
    for update in range(9):
        loss, expected = (value.loss(update, skips=update < 4) for value in (model, plain))
        ours.step(0.1, model, gradients.backward(loss, model))
        theirs.zero_grad()
        expected.backward()
        theirs.step()
    for name, tensor in plain.state_dict().items():  # two kernels round by themselves
        torch.testing.assert_close(model.state_dict()[name], tensor, rtol=0, atol=1e-13)


@pytest.mark.parametrize("kind, options", [
    (torch.optim.RMSprop, {}),
    (torch.optim.NAdam, {}),
    (torch.optim.Adam, {"fused": False}),
    (torch.optim.Adam, {"foreach": True}),
    (torch.optim.Adam, {"betas": (torch.tensor(0.9), torch.tensor(0.99))}),
    (type("Mine", (torch.optim.Adam,), {}), {}),
])  # fmt: skip
def test_an_unknown_class_or_option_keeps_the_public_step(kind, options):
    model, public_steps = Network(), []
    optimizer = made(kind, options, model, True, public_steps)
    for update in range(3):
        optimizer.step(0.1, model, gradients.backward(model.loss(update), model))
    assert len(public_steps) == 3


@pytest.mark.parametrize("name", ["Adam", "AdamW", "SGD, momentum"])
@pytest.mark.parametrize("is_refused", [True, False])
def test_a_kernel_that_does_something_else_is_left_to_torch(monkeypatch, name, is_refused):
    known = private_torch.fused_kernel

    def other(*given):
        def changed(*tensors, lr, **options):
            if is_refused:
                raise TypeError("got an unexpected keyword argument")
            known(*given)(*tensors, lr=1.001 * lr, **options)

        return changed

    monkeypatch.setattr(private_torch, "fused_kernel", other)
    torch_step._agrees.cache_clear()
    try:
        assert trained(*CASES[name], may_fuse=True)[1] == 30
    finally:
        torch_step._agrees.cache_clear()


def test_a_learning_rate_that_is_no_float_keeps_the_public_step():
    _, public = trained(*CASES["Adam"], may_fuse=True, lr=lambda update: 1)
    assert public == 30


def test_parameters_of_two_dtypes_keep_the_public_step():
    model = Network()
    model.sometimes.double()
    public_steps = []
    optimizer = made(torch.optim.Adam, {}, model, True, public_steps)
    for _ in range(3):
        tensors = {
            name: torch.ones_like(parameter)
            for name, parameter in model.named_parameters()
            if parameter.requires_grad
        }
        optimizer.step(0.1, model, gradients.Gradients(tensors, model))
    assert len(public_steps) == 3


@pytest.mark.parametrize("gradient", [torch.zeros(2, 2), torch.zeros(6, 9)])
def test_a_gradient_of_another_shape_is_refused_before_the_kernel(gradient):
    model = Network()
    optimizer = Optimizer(torch.optim.Adam, model)
    for update in range(2):
        optimizer.step(0.1, model, gradients.backward(model.loss(update), model))
    before = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    result = gradients.backward(model.loss(2), model)
    result["first.weight"] = gradient
    assert "size" in message_of(RuntimeError, optimizer.step, 0.1, model, result)
    assert same(model.state_dict(), before)
    assert all(parameter.grad is None for parameter in model.parameters())


@pytest.mark.parametrize("case", CASES)
def test_a_rate_in_a_tensor_has_the_bits_of_the_rate_rounded(monkeypatch, case):
    """A graph reads its rates from float32 tensors; other steps on such a device round them."""
    monkeypatch.setattr(torch_step, "ROUNDING", {"cpu"})
    kind, options = CASES[case]
    results = []
    for rate in (None, torch.tensor(0.1), torch.tensor(0.1).item()):
        model = Network()
        optimizer = Optimizer(kind, model, **options)
        for update in range(4):
            made = gradients.backward(model.loss(update), model)
            if rate is None or not update:
                optimizer.step(0.1, model, made)
                continue
            step = optimizer.held.step
            (kernel,) = step.kernels([optimizer.parameters], step.set_rates([0.1]))
            with torch.no_grad():
                kernel([*made.values()], rate, None)
        results.append({**model.state_dict(), **optimizer.state_dict()})
    assert same(results[0], results[1]) and same(results[0], results[2])
