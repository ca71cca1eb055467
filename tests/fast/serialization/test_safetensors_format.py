"""The pieces of a safetensors file are a file that the format's own library reads, bit for bit."""

import json
import struct

import pytest
import safetensors
import safetensors.torch
import torch

from andiron import randomness, serialization
from andiron.serialization import safetensors_codec
from refusals import lacking, message_of

DTYPES = list(safetensors_codec.DTYPES)
SHAPES = [(), (1,), (7,), (3, 5), (2, 3, 4, 5), (0,), (3, 0, 2)]


def of_bytes(dtype, shape, seed=0):
    """A tensor of random bits."""
    number = torch.Size(shape).numel() * dtype.itemsize
    drawn = torch.randint(
        0, 2 if dtype == torch.bool else 256, (number,), generator=randomness.stream(seed, "bytes")
    )
    return drawn.to(torch.uint8).view(dtype).reshape(shape)


def bits(tensor):
    return (
        tensor.clone(memory_format=torch.contiguous_format).reshape(-1).view(torch.uint8).tolist()
    )


def written(tensors, metadata=None):
    return b"".join(serialization.chunks(tensors, metadata))


def assert_same(actual, expected):
    assert actual.keys() == expected.keys()
    for name, tensor in expected.items():
        assert (actual[name].dtype, actual[name].shape, bits(actual[name])) == (
            tensor.dtype, tensor.shape, bits(tensor),
        ), name  # fmt: skip


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_the_library_reads_every_shape_of_a_dtype_bit_for_bit(dtype, tmp_path):
    tensors = {f"shape {list(shape)} é": of_bytes(dtype, shape) for shape in SHAPES}
    (tmp_path / "a.safetensors").write_bytes(written(tensors, {"note": 'ü"\n'}))

    assert_same(safetensors.torch.load_file(tmp_path / "a.safetensors"), tensors)
    with safetensors.safe_open(tmp_path / "a.safetensors", framework="pt") as file:
        assert file.metadata() == {"note": 'ü"\n'}
        assert_same({name: file.get_tensor(name) for name in file.keys()}, tensors)


def test_the_bytes_are_those_the_library_writes():
    dtypes = [
        torch.uint8, torch.float64, torch.float16, torch.int64, torch.float32, torch.bool,
        torch.int32, torch.bfloat16,
    ]  # fmt: skip
    tensors = {
        f"{place} ö": of_bytes(dtype, (place % 3, 3), place)
        for place, dtype in enumerate(dtypes * 2)
    }

    assert written(tensors, {"a": "b"}) == safetensors.torch.save(tensors, {"a": "b"})
    assert written({}) == safetensors.torch.save({})


def test_every_tensor_starts_on_a_multiple_of_its_elements_size():
    tensors = {f"{number}": of_bytes(dtype, (3,)) for number, dtype in enumerate(DTYPES)}
    content = written(tensors)
    (length,) = struct.unpack("<Q", content[:8])
    header = json.loads(content[8 : 8 + length])

    assert length % 8 == 0
    for name, tensor in tensors.items():
        assert header[name]["data_offsets"][0] % tensor.element_size() == 0, name


def test_a_piece_is_the_tensors_own_memory():
    tensor = torch.arange(5, dtype=torch.int16)
    header, piece = serialization.chunks({"a": tensor})
    tensor.fill_(258)

    assert isinstance(header, bytes) and isinstance(piece, memoryview)
    assert piece.readonly and bytes(piece) == b"\x02\x01" * 5


def test_one_element_or_none_of_any_stride_is_written():
    tensors = {
        "one": torch.arange(6, dtype=torch.int16)[3::4], "none": torch.ones(0, 3).t(),
        "scalar": torch.arange(6.0)[4],
    }  # fmt: skip

    assert_same(safetensors.torch.load(written(tensors)), tensors)


@pytest.mark.parametrize(("kind", "tensors", "words"), [
    *[(TypeError, {"fine": torch.ones(2), "head.weight": torch.empty(2, dtype=dtype)},
       f"tensor 'head.weight' is {dtype}, which safetensors does not support; cast it to one of "
       "bool, ... , int64, uint64")
      for dtype in (torch.complex128, torch.float4_e2m1fn_x2, torch.bits8)],
    (TypeError, {"w": torch.eye(3).to_sparse()},
     "'w' is torch.sparse_coo, which safetensors does not support; make it dense first"),
    (ValueError, {"__metadata__": torch.ones(1)}, "reserves the name '__metadata__'; rename"),
])  # fmt: skip
def test_tensors_and_names_that_the_format_has_not_are_refused_at_once(kind, tensors, words):
    assert lacking(words, message_of(kind, serialization.chunks, tensors)) == []


@pytest.mark.parametrize(
    "tensor",
    [
        torch.arange(12.0).view(3, 4).t(), torch.arange(6.0)[::2],
        torch.complex(torch.ones(3), torch.ones(3)).conj(), torch._neg_view(torch.ones(3)),
    ],
    ids=["transposed", "every other", "conjugated", "negated"],
)  # fmt: skip
def test_a_view_is_written_by_its_values(tensor):
    plain = tensor.clone(memory_format=torch.contiguous_format).resolve_conj().resolve_neg()

    assert written({"w": tensor}) == safetensors.torch.save({"w": plain})
