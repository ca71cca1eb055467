"""Tensors to files and back, bit for bit."""

from collections.abc import Mapping
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn

from andiron import errors, randomness, serialization
from refusals import message_of

DTYPES = [
    torch.bool, torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64,
    torch.float16, torch.bfloat16, torch.float32, torch.float64,
]  # fmt: skip
SHAPES = [(), (1,), (7,), (3, 5), (2, 3, 4, 5), (0,), (3, 0, 2)]


def bits(tensor: Tensor) -> list[int]:
    return tensor.contiguous().reshape(-1).view(torch.uint8).tolist()


def assert_same(actual: Mapping[str, Tensor], expected: Mapping[str, Tensor]) -> None:
    assert actual.keys() == expected.keys()
    for name, tensor in expected.items():
        assert (name, actual[name].dtype, actual[name].shape) == (name, tensor.dtype, tensor.shape)
        assert bits(actual[name]) == bits(tensor), name


def round_trip(folder: Path, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    serialization.save_tensors(folder / "record.safetensors", tensors)
    return serialization.load_tensors(folder / "record.safetensors")


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_every_shape_of_a_dtype_comes_back_bit_for_bit(dtype: torch.dtype, tmp_path: Path) -> None:
    stream = randomness.stream(0, "bytes")
    tensors = {}
    for shape in SHAPES:
        values = torch.randint(0, 2 if dtype == torch.bool else 100, shape, generator=stream)
        tensors[f"shape {list(shape)}"] = (
            (values * 0.37).to(dtype) if dtype.is_floating_point else values.to(dtype)
        )
    assert_same(round_trip(tmp_path, tensors), tensors)


def test_tensors_that_share_memory_are_written_apart(tmp_path: Path) -> None:
    whole = torch.arange(10.0)
    result = round_trip(
        tmp_path, {"whole": whole, "again": whole, "part": whole[3:7], "overlapping": whole[5:]}
    )
    result["whole"].zero_()
    assert result["again"].tolist() == [0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0, 9.0]
    assert result["part"].tolist() == [3.0, 4.0, 5.0, 6.0]
    assert result["overlapping"].tolist() == [5.0, 6.0, 7.0, 8.0, 9.0]


def test_saving_leaves_a_parameter_and_its_gradient_alone(tmp_path: Path) -> None:
    weight = nn.Parameter(torch.ones(3))
    weight.square().sum().backward()
    assert round_trip(tmp_path, {"weight": weight})["weight"].tolist() == [1.0, 1.0, 1.0]
    assert (
        weight.requires_grad and weight.grad is not None and weight.grad.tolist() == [2.0, 2.0, 2.0]
    )


def test_a_record_that_cannot_be_made_leaves_the_old_one(tmp_path: Path) -> None:
    path = tmp_path / "record.safetensors"
    serialization.save_tensors(path, {"weight": torch.ones(3)})
    with pytest.raises(TypeError, match="complex128"):
        serialization.save_tensors(path, {"weight": torch.ones(3, dtype=torch.complex128)})
    assert serialization.load_tensors(path)["weight"].tolist() == [1.0, 1.0, 1.0]
    assert [file.name for file in tmp_path.iterdir()] == ["record.safetensors"]


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(errors.DataError) as error:
        serialization.load_tensors(tmp_path / "model.safetensors")
    assert str(error.value) == f"{tmp_path / 'model.safetensors'}: no such file"


WHOLE = b"".join(serialization.chunks({"weight": torch.arange(10.0), "bias": torch.zeros(3)}))
DAMAGED = {
    "empty": b"", "cut in the length of the header": WHOLE[:5], "cut in the header": WHOLE[:20],
    "cut in the tensors": WHOLE[:-1], "with a byte too many": WHOLE + b"\0",
    "with a header that is not JSON": WHOLE[:8] + b"[" + WHOLE[9:],
    "a text": b"no tensors here, only a sentence",
}  # fmt: skip


@pytest.mark.parametrize("name", DAMAGED)
def test_a_damaged_file_is_named_with_the_remedy(name: str, tmp_path: Path) -> None:
    path = tmp_path / "model.safetensors"
    path.write_bytes(DAMAGED[name])
    error = message_of(errors.DataError, serialization.load_tensors, path)
    assert error.startswith(f"{path}: not a whole safetensors file (")
    assert error.endswith("); restore it from a copy")
