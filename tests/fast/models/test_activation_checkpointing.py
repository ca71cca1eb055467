"""Recomputed activations: the same gradients and state, bit for bit, out of less memory."""

import copy
from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn

from andiron import gradients, randomness
from andiron.models import Dropout, activation_checkpointing

SIZES = (7, 3, 5, 1)  # samples in a batch: uneven


class Block(nn.Module):
    """Normalisation, a wide hidden layer and both kinds of dropout, around a residual."""

    def __init__(self, size: int = 6):
        super().__init__()
        self.norm = nn.BatchNorm1d(size)
        self.layers = nn.Sequential(
            nn.Linear(size, 32), nn.GELU(), Dropout(0.25), nn.Linear(32, size), nn.Dropout(0.5)
        )

    def forward(self, inputs: Tensor, scale: float = 1.0) -> Tensor:
        return inputs + scale * self.layers(self.norm(inputs))


class Network(nn.Module):
    def __init__(self, block: Callable[[], nn.Module] = Block):
        super().__init__()
        self.stem = nn.Linear(4, 6)
        self.blocks = nn.ModuleList([block() for _ in range(3)])
        self.head = nn.Linear(6, 2)

    def forward(self, inputs: Tensor) -> Tensor:
        outputs = self.stem(inputs)
        for block in self.blocks:
            outputs = block(outputs, scale=0.5)
        return self.head(outputs)


def network(block: Callable[[], nn.Module] = Block) -> Network:
    randomness.start_stream(0, "init")
    return Network(block)


def inputs_of(update: int) -> Tensor:
    return torch.randn(
        1 + SIZES[update % len(SIZES)], 4, generator=randomness.stream(0, "batch", update)
    )


def loss_of(model: nn.Module, update: int) -> Tensor:
    randomness.start_stream(0, "update", update)
    return model(inputs_of(update)).square().mean()


def gradients_of(model: nn.Module, update: int) -> dict[str, Tensor]:
    return dict(gradients.backward(loss_of(model, update), model))


def saved_bytes(model: nn.Module) -> int:
    """Tensors saved for backward, except the parameters, which exist anyway."""
    kept: dict[int, int] = {}
    own = {parameter.untyped_storage().data_ptr() for parameter in model.parameters()}

    def pack(tensor: Tensor) -> Tensor:
        storage = tensor.untyped_storage()
        if storage.data_ptr() not in own:
            kept[storage.data_ptr()] = storage.nbytes()
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        loss = loss_of(model, 0)
    assert loss.requires_grad  # and is alive until here, with all that its graph keeps
    return sum(kept.values())


def assert_same(actual: dict[str, Tensor], expected: dict[str, Tensor]) -> None:
    assert list(actual) == list(expected)
    assert [name for name in expected if not torch.equal(actual[name], expected[name])] == []


@pytest.mark.parametrize(
    "pattern", [r"^blocks[.]\d+$", r"blocks[.]1", "layers", "stem|blocks|head"]
)
def test_gradients_and_state_are_those_without_it_bit_for_bit(pattern: str) -> None:
    plain, recomputed = network(), network()
    activation_checkpointing.apply(recomputed, pattern)
    for update in range(5):
        assert_same(gradients_of(recomputed, update), gradients_of(plain, update))
        # the running statistics were updated once
        assert_same(recomputed.state_dict(), plain.state_dict())


def test_draws_after_backward_equal_draws_without_checkpointing() -> None:
    plain, recomputed = network(), network()
    activation_checkpointing.apply(recomputed, "blocks")
    drawn = []
    for model in (plain, recomputed):
        gradients_of(model, 0)
        drawn.append(torch.rand(5))
    assert torch.equal(*drawn)


def test_a_block_keeps_its_input_and_nothing_else() -> None:
    plain, recomputed = network(), network()
    activation_checkpointing.apply(recomputed, r"^blocks[.]\d+$")
    samples = inputs_of(0).shape[0]
    outside = 4 * samples * (4 + 6 + 2)  # float32: what stem, head and the square were given
    assert saved_bytes(recomputed) == outside + 4 * samples * 3 * 6
    assert saved_bytes(plain) > outside + 4 * samples * 3 * 32 * 2  # around each GELU, and more


@pytest.mark.parametrize(
    ("pattern", "expected"),
    [
        (
            "blocks",
            ["blocks.0", "blocks.1", "blocks.2"],
        ),  # a ModuleList has no forward pass, its items have
        (r"^blocks[.][02]$", ["blocks.0", "blocks.2"]),
        (
            r"[12]",
            ["blocks.0.layers.1", "blocks.0.layers.2", "blocks.1", "blocks.2"],
        ),  # the outermost
        ("norm|head", ["blocks.0.norm", "blocks.1.norm", "blocks.2.norm", "head"]),
    ],
)
def test_the_outermost_modules_that_match_are_recomputed(pattern: str, expected: list[str]) -> None:
    assert activation_checkpointing.apply(network(), pattern) == expected


def test_a_module_under_two_names_is_recomputed_once() -> None:
    model = nn.Sequential(nn.Linear(3, 3), nn.Tanh(), nn.Linear(3, 3))
    model[2] = model[0]
    assert activation_checkpointing.apply(model, "[02]") == ["0"]
    assert activation_checkpointing.apply(nn.ModuleDict({"a": model, "b": model}), "b[.]1") == [
        "b.1"
    ]


def test_each_block_runs_once_forward_and_once_in_backward() -> None:
    model = network()
    runs: list[int] = []
    for number, block in enumerate(model.blocks):
        block.layers.register_forward_pre_hook(
            lambda module, inputs, number=number: runs.append(number)
        )
    activation_checkpointing.apply(model, r"^blocks[.]\d+$")
    loss = loss_of(model, 0)
    assert runs == [0, 1, 2]
    gradients.backward(loss, model)
    assert runs == [0, 1, 2, 2, 1, 0]


def test_evaluation_is_as_without_it_and_runs_once() -> None:
    plain, recomputed = network().eval(), network().eval()
    activation_checkpointing.apply(recomputed, "blocks")
    runs: list[Tensor] = []
    recomputed.blocks[0].register_forward_pre_hook(lambda module, inputs: runs.append(inputs[0]))
    for context in (torch.no_grad, torch.inference_mode):
        with context():
            assert torch.equal(recomputed(inputs_of(0)), plain(inputs_of(0)))
    assert len(runs) == 2
    # a gradient in evaluation mode is the same too
    assert_same(gradients_of(recomputed, 0), gradients_of(plain, 0))


class Replacing(nn.Module):
    """A buffer that is replaced instead of being written to, and that autograd has saved."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("count", torch.zeros(6))

    def forward(self, inputs: Tensor, scale: float) -> Tensor:
        self.count = self.count + 1
        return inputs.sin() * scale


def test_a_buffer_that_is_replaced_is_updated_once() -> None:
    model = network(Replacing)
    activation_checkpointing.apply(model, "blocks")
    for update in range(3):
        gradients_of(model, update)
    assert model.blocks[1].count.tolist() == [3.0] * 6


def test_gradients_under_autocast_are_those_without_it() -> None:
    plain, recomputed = network(), network()
    activation_checkpointing.apply(recomputed, "blocks")
    with torch.autocast("cpu", torch.bfloat16):
        assert_same(gradients_of(recomputed, 0), gradients_of(plain, 0))


def test_a_copy_of_the_model_recomputes_with_its_own_weights() -> None:
    model = network()
    activation_checkpointing.apply(model, "blocks")
    twin = copy.deepcopy(model)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.zero_()
    assert_same(gradients_of(twin, 0), gradients_of(network(), 0))
