"""An optimizer's state as tensors and back: nothing changes on the way."""

from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given, strategies
from torch import Tensor, nn

from andiron import serialization
from andiron.optim.own import flat_state
from refusals import message_of

TENSORS = strategies.lists(strategies.floats(width=32, allow_nan=False), max_size=3).map(
    torch.tensor
)
NUMBERS = (
    strategies.booleans()
    | strategies.integers(-(2**63), 2**63 - 1)
    | strategies.floats(allow_nan=False)
    | strategies.text(max_size=5)
)
VALUES = strategies.recursive(
    TENSORS | NUMBERS, lambda inner: strategies.lists(inner | strategies.none(), max_size=3)
)
STATES = strategies.dictionaries(
    strategies.sampled_from(["step", "exp_avg", "old_dirs", "al", "t"]), VALUES
)


def comparable(value: Any) -> Any:
    """With the types beside the values: 1, 1.0 and True are equal in Python."""
    if isinstance(value, Tensor):
        return "tensor", value.dtype, value.tolist()
    if isinstance(value, list):
        return [comparable(item) for item in value]
    return type(value), value


@given(STATES)
def test_what_was_flattened_is_restored_in_any_order(state: dict[str, Any]) -> None:
    flat = flat_state.flattened(state)
    result = flat_state.restored(dict(reversed(flat.items())))
    assert {name: comparable(value) for name, value in result.items()} == {
        n: comparable(v) for n, v in state.items()
    }


def test_nothing_is_left_out_as_if_it_were_not_there() -> None:
    assert flat_state.flattened({"momentum_buffer": None}) == {}


def test_a_tuple_is_restored_as_a_list() -> None:
    assert flat_state.restored(flat_state.flattened({"a": ("b", (1, 2))})) == {"a": ["b", [1, 2]]}


def test_a_matrix_in_columns_is_restored_in_columns(tmp_path: Path) -> None:
    # a product with it rounds differently than with the same numbers in rows
    state = {"Q": [torch.arange(6.0).reshape(2, 3).t(), torch.eye(1)]}
    parameter = nn.Parameter(torch.zeros(3, 2))
    serialization.save_tensors(tmp_path / "s.safetensors", flat_state.flattened(state, parameter))
    saved = serialization.load_tensors(tmp_path / "s.safetensors")
    placed = {slot: flat_state.placed(slot, saved[slot], parameter, False) for slot in saved}
    result = flat_state.restored(placed)["Q"][0]
    assert torch.equal(result, state["Q"][0]) and result.stride() == state["Q"][0].stride()


def test_the_layout_of_a_parameter_in_columns_needs_no_name_of_its_own() -> None:
    parameter = nn.Parameter(torch.zeros(2, 3).t())
    assert [*flat_state.flattened({"exp_avg": torch.zeros_like(parameter)}, parameter)] == [
        "exp_avg"
    ]


@pytest.mark.parametrize("value", [b"bytes", {"a": 1}, {1}], ids=["bytes", "dict", "set"])
def test_what_cannot_be_saved_is_refused_by_name(value: Any) -> None:
    assert message_of(TypeError, flat_state.flattened, {"mode": value}) == (
        f"optimizer state 'mode' is a {type(value).__name__}; only tensors, numbers, texts and "
        "lists can be saved"
    )


def test_a_tensor_of_the_parameters_shape_is_placed_in_its_memory_layout() -> None:
    parameter = nn.Parameter(torch.zeros(2, 3, 4, 5).to(memory_format=torch.channels_last))
    saved = torch.arange(120.0, dtype=torch.float64).reshape(2, 3, 4, 5)
    placed = flat_state.placed("exp_avg", saved, parameter, counters_on_device=True)
    assert torch.equal(placed, saved) and placed.dtype == torch.float64 and not placed.requires_grad
    assert placed.stride() == parameter.stride() != saved.stride()


@pytest.mark.parametrize("slot", ["step", "mu_product", "exp_avg", "t:number", "al:length"])
def test_what_is_placed_is_a_copy(slot: str) -> None:
    saved, parameter = torch.tensor(1.0), nn.Parameter(torch.tensor(0.0))
    flat_state.placed(slot, saved, parameter, counters_on_device=False).add_(1)
    assert saved.item() == 1


@pytest.mark.parametrize("counters_on_device", [False, True])
def test_counters_stay_on_the_cpu_unless_fused_or_capturable(counters_on_device: bool) -> None:
    parameter = nn.Parameter(torch.zeros(2, device="meta"))
    devices = {
        slot: flat_state.placed(slot, torch.tensor(1.0), parameter, counters_on_device).device.type
        for slot in ("step", "mu_product", "exp_avg", "n_iter:number", "al:length")
    }
    counters = "meta" if counters_on_device else "cpu"
    assert devices == {
        "step": counters, "mu_product": counters, "exp_avg": "meta", "n_iter:number": "cpu",
        "al:length": "cpu",
    }  # fmt: skip
