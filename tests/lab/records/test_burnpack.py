"""Burn's `.bpk`: files that Burn 0.22.1 wrote (benchmarks/burn/src/sample.rs), and damaged ones."""

import struct
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from andiron import errors, serialization
from andiron_lab.records import burnpack

BURN = Path(__file__).parent / "burn"
SAMPLE, ADAM = BURN / "sample.bpk", BURN / "sample_adam.bpk"
# the outputs that Burn computed, for images of the values 0/9 to 17/9
OUTPUTS = [
    [-1.6933494806289673, 0.18812841176986694, 1.0025990009307861],
    [-1.7144523859024048, 0.798949122428894, 0.37926745414733887],
]
SCALARS = {"a": 1, "b": -2, "c": 1.5, "d": True, "e": None}


class Sample(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv, self.norm = nn.Conv2d(1, 2, 2), nn.BatchNorm2d(2)
        self.linear, self.last = nn.Linear(8, 3), nn.LayerNorm(3)

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        return self.last(self.linear(self.norm(self.conv(images)).flatten(1)))


def cbor(value: Any) -> bytes:
    """A plain value as CBOR, with lengths of 4 bytes."""
    constants = {False: b"\xf4", True: b"\xf5", None: b"\xf6"}
    match value:
        case bool() | None:
            return constants[value]
        case int():
            kind, number = (0x3B, -1 - value) if value < 0 else (0x1B, value)
            return struct.pack(">BQ", kind, number)
        case float():
            return struct.pack(">Bd", 0xFB, value)
        case str():
            return struct.pack(">BI", 0x7A, len(value.encode())) + value.encode()
        case list():
            return struct.pack(">BI", 0x9A, len(value)) + b"".join(map(cbor, value))
        case dict():
            pairs = b"".join(cbor(element) for pair in value.items() for element in pair)
            return struct.pack(">BI", 0xBA, len(value)) + pairs
    raise TypeError(value)


def entry(shape: list[int], begin: int, end: int, dtype: Any = "F32") -> dict[str, Any]:
    return {"dtype": dtype, "shape": shape, "data_offsets": [begin, end]}


def write(path: Path, metadata: Any, data: bytes = b"", *, version: int = 1) -> Path:
    encoded = metadata if isinstance(metadata, bytes) else cbor(metadata)
    head = struct.pack("<4sHI", b"NRUB", version, len(encoded)) + encoded
    path.write_bytes(head + bytes(-len(head) % 256) + data)
    return path


def refusal(path: Path) -> str:
    with pytest.raises(errors.DataError) as refused:
        serialization.load(path)
    begin, end = f"{path}: not a whole burnpack record (", "); restore it from a copy"
    words = str(refused.value)
    assert words.startswith(begin) and words.endswith(end)
    return words.removeprefix(begin).removesuffix(end)


def test_a_module_from_burns_file_has_burns_outputs() -> None:
    module = Sample().eval()
    assert not serialization.load_file(module, SAMPLE)  # the file's layout is Burn's
    images = torch.arange(18.0).div(9).reshape(2, 1, 3, 3)
    # the two programs add in another order
    torch.testing.assert_close(module(images), torch.tensor(OUTPUTS), rtol=1e-5, atol=1e-6)


def test_an_optimizers_file_has_its_moments_and_numbers() -> None:
    record = serialization.load(ADAM)
    names = {name: number for number, name in record.values["metadata"].items()}
    moment = record.tensors[f"{names['linear.weight']}.momentum.moment_1"]
    assert moment.shape == (8, 3) and moment.abs().max() > 0
    assert record.values["scalars"][f"{names['linear.weight']}.momentum.time"] == {"UInt": 3}


def test_every_dtype_and_scalar_that_burn_writes_is_read(tmp_path: Path) -> None:
    data = struct.pack("<dH2xiq", 2.5, 0x3C00, -7, 2**40) + b"\x00\x01\x02" + struct.pack("<I", 9)
    tensors = {
        "double": entry([], 0, 8, "F64"), "half": entry([1], 8, 10, "F16"),
        "int": entry([1, 1], 12, 16, "I32"), "long": entry([], 16, 24, "I64"),
        "empty": entry([0, 3], 24, 24), "flags": entry([3], 24, 27, {"Bool": "Native"}),
        "wide": entry([1], 27, 31, {"Bool": "U32"}),
    }  # fmt: skip
    metadata = {"tensors": tensors, "metadata": {"producer": "burn"}, "scalars": SCALARS}
    record = serialization.load(write(tmp_path / "a.bpk", metadata, data))
    assert {name: tensor.tolist() for name, tensor in record.tensors.items()} == {
        "double": 2.5, "half": [1.0], "int": [[-7]], "long": 2**40, "empty": [],
        "flags": [False, True, True], "wide": [True],
    }  # fmt: skip
    assert record.values == {"layout": "burn", "metadata": {"producer": "burn"}, "scalars": SCALARS}


def test_a_file_cut_anywhere_is_refused(tmp_path: Path) -> None:
    content, path = SAMPLE.read_bytes(), tmp_path / "cut.bpk"
    for length in range(0, len(content), 61):
        path.write_bytes(content[:length])
        refusal(path)


def test_a_changed_byte_of_the_header_never_ends_in_another_error(tmp_path: Path) -> None:
    content, path = SAMPLE.read_bytes(), tmp_path / "changed.bpk"
    for place in range(0, 800, 19):
        for value in (0x00, 0x9B, 0xFF):
            path.write_bytes(content[:place] + bytes([value]) + content[place + 1 :])
            try:
                serialization.load(path)
            except errors.DataError:
                pass


@pytest.mark.parametrize("metadata, words", [
    ({"tensors": []}, "have no tensors, or too many"),
    ({"tensors": {"w": entry([2, 2], 0, 8)}}, "'w' is at bytes 0 to 8 of 16; its shape [2"),
    ({"tensors": {"w": entry([4], 8, 24)}}, "of float32 takes 16"),
    ({"tensors": {"w": entry([2**62, 4], 0, 0)}}, f"takes {2**66}"),
    ({"tensors": {"w": entry([-1], 0, 0)}}, "'w' has no shape, or no offsets"),
    ({"tensors": {"w": {"dtype": "F32"}}}, "'w' has no shape, or no offsets"),
    ({"tensors": {"w": entry([4], 0, 16, "F4")}}, "'w' has no dtype that records have"),
    ({"tensors": {"w": entry([4], 0, 4, {"QFloat": {}})}}, "'w' is quantised; dequantise"),
    ({"tensors": {name: entry([4], 0, 16) for name in ("v", "w")}}, "'w' shares bytes with others"),
    (b"\xba\x00\x00\x00\x02" + 2 * (cbor("tensors") + cbor({})), "a name occurs twice"),
    (b"\x9a\xff\xff\xff\xff", "its metadata end too early"),
    (b"\x9f\xff", "have lengths that Burn does not write"),
    (b"\xc0\x00", "CBOR's kind 6"),
    (b"\x81" * 5_000 + b"\x00", "more values, or levels, than allowed"),
    (b"\xa1\x00\x00", "a key that is not a text"),
    (cbor({"tensors": {}}) + b"\x00", "do not end where they should"),
    ({"tensors": {}, "scalars": {"a": float("inf")}}, "scalars"),
])  # fmt: skip
def test_metadata_that_no_burn_writes_are_refused(
    metadata: Any, words: str, tmp_path: Path
) -> None:
    assert words in refusal(write(tmp_path / "a.bpk", metadata, bytes(16)))


def test_a_length_beyond_the_file_is_refused_before_it_is_read(tmp_path: Path) -> None:
    path = tmp_path / "a.bpk"
    path.write_bytes(struct.pack("<4sHI", b"NRUB", 1, 2**32 - 1) + bytes(100))
    assert refusal(path) == "its metadata would be 4,294,967,295 of its 110 bytes"


def test_many_values_are_refused_at_the_limit(tmp_path: Path) -> None:
    path = write(tmp_path / "a.bpk", b"\x99" + (1_000).to_bytes(2, "big") + b"\x00" * 1_000)
    with pytest.raises(ValueError, match="more values, or levels, than allowed"):
        burnpack.read(path.read_bytes(), most_values=1_000)


def test_another_version_and_other_content_are_reported(tmp_path: Path) -> None:
    path = tmp_path / "a.bpk"
    assert refusal(write(path, {"tensors": {}}, version=2)) == (
        "it has version 2 of burnpack; this andiron reads 1"
    )
    path.write_bytes(b"PK\x03\x04 and more")
    assert refusal(path) == "it does not begin with the magic number of burnpack"
