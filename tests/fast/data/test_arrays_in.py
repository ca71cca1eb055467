"""The header of a safetensors file: the arrays as the format's own library has them, and files that
are damaged.
"""

import json

import pytest
import safetensors.torch
import torch

from andiron import errors
from andiron.data.on_disk import stored
from refusals import message_of

REMEDY = "restore it from a copy, or write it again with safetensors.torch.save_file"
ARRAYS = {
    "images": torch.arange(7 * 6, dtype=torch.uint8).view(7, 2, 3),
    "halves": torch.arange(10).view(5, 2).half(),
    "brains": torch.arange(10).view(5, 2).bfloat16(),
    "doubles": torch.arange(3, dtype=torch.float64).sin(),
    "flags": torch.tensor([[True, False], [False, False]]),
    "words": torch.tensor([65535, 0], dtype=torch.uint16),
    "small": torch.tensor([-3, 4], dtype=torch.int8),
}


@pytest.mark.parametrize("metadata", [None, {"about": "what they are"}])
def test_every_array_is_read_as_the_formats_library_wrote_it(tmp_path, metadata):
    file = tmp_path / "x.safetensors"
    safetensors.torch.save_file(ARRAYS, file, metadata=metadata)
    arrays = stored.arrays_in(file)
    assert set(arrays) == set(ARRAYS)
    for name, array in arrays.items():
        read = array.read(range(len(array)))
        assert read.dtype == ARRAYS[name].dtype
        assert torch.equal(read, ARRAYS[name])


def written(tmp_path, header, data=b"", length=None):
    file = tmp_path / "x.safetensors"
    content = header if isinstance(header, bytes) else json.dumps(header).encode()
    file.write_bytes(
        (len(content) if length is None else length).to_bytes(8, "little") + content + data
    )
    return file


def refused(file):
    return message_of(errors.DataError, stored.arrays_in, file).replace(str(file), "FILE")


def entry(shape, begin, end, dtype="F32"):
    return {"dtype": dtype, "shape": shape, "data_offsets": [begin, end]}


def test_a_truncated_file_is_reported_by_the_first_array_that_it_cuts(tmp_path):
    file = written(tmp_path, {"a": entry([2], 0, 8), "b": entry([3, 2], 8, 32)}, bytes(31))
    size = file.stat().st_size
    assert refused(file) == (
        f"FILE: not a whole safetensors file: 'b' ends at byte {size + 1}, the file at "
        f"{size}; {REMEDY}"
    )


@pytest.mark.parametrize("content, header", [
    (b"", 0), (b"1234567", 0), (b"12345678", 0x3837363534333231), (bytes(20), 0),
])  # fmt: skip
def test_a_file_without_a_header_is_refused(tmp_path, content, header):
    file = tmp_path / "x.safetensors"
    file.write_bytes(content)
    assert refused(file) == (
        f"FILE: not a whole safetensors file: its header would be {header} of its {len(content)} "
        f"bytes; {REMEDY}"
    )


@pytest.mark.parametrize(
    "header",
    [
        b"{no json", b"[1, 2]", {"a": {"dtype": "F32"}}, {"a": 3}, {"a": entry([2], 0, 4)},
        {"a": entry([2], -8, 0)}, {"a": entry(["x"], 0, 4)}, b"\xff\xfe",
    ],
    ids=[
        "no JSON", "a list", "no shape", "no entry", "too few bytes", "before the data", "no size",
        "no text",
    ],
)  # fmt: skip
def test_a_damaged_header_is_refused(tmp_path, header):
    message = refused(written(tmp_path, header, bytes(64)))
    assert message.startswith("FILE: not a whole safetensors file: its header is damaged: ")
    assert message.endswith(f"; {REMEDY}")


def test_a_type_that_cannot_be_read_is_named(tmp_path):
    message = refused(written(tmp_path, {"a": entry([4], 0, 4, "F8_E4M3")}, bytes(4)))
    assert message.startswith(
        "FILE: 'a' has type F8_E4M3, which is not supported; store it as one of BOOL, U8, "
    )


def test_a_missing_file_is_refused(tmp_path):
    assert (
        refused(tmp_path / "none")
        == "FILE: cannot be read (No such file or directory); put the file there"
    )
