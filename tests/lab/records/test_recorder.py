"""Records in every format: content, refusals, and errors of damaged files."""

import gzip
import json
import random

import msgpack
import pytest
import safetensors
import safetensors.torch
import torch
from tensor_bits import bits
from torch import nn

from andiron import errors, serialization
from andiron_lab.records import messagepack
from andiron_lab.records.recorder import SUFFIXES
from refusals import message_of

FILES = [(format, is_compressed) for format in SUFFIXES for is_compressed in (False, True)]
IDS = [f"{format}{' gzip' if is_compressed else ''}" for format, is_compressed in FILES]
VALUES = {
    "epoch": 3,
    "best": 0.1,
    "names": ["é", "", None],
    "nested": {"on": True, "seed": 2**64 - 1, "low": -(2**63)},
}
TENSORS = {
    "weight": torch.tensor([[0.1, -0.0], [float("nan"), -float("inf")]]),
    "count": torch.tensor(300),
    "mask": torch.tensor([True, False]),
    "none": torch.empty(3, 0, dtype=torch.int16),
}


def file(folder, recorder):
    return folder / f"record{recorder.suffix}"


def refusal(call, *arguments):
    return message_of(errors.DataError, call, *arguments)


@pytest.mark.parametrize(("format", "is_compressed"), FILES, ids=IDS)
def test_a_record_comes_back_from_its_files_name_alone(format, is_compressed, tmp_path):
    recorder = serialization.Recorder(format, gzip=is_compressed)
    path = tmp_path / f"record{SUFFIXES[format]}{'.gz' if is_compressed else ''}"
    contents = []
    for _ in range(2):
        recorder.record(serialization.Record(TENSORS, VALUES), file(tmp_path, recorder))
        contents.append(path.read_bytes())
    assert contents[0] == contents[1] and [*tmp_path.iterdir()] == [path]

    result = serialization.load(path)
    assert result.values == VALUES and type(result.values["nested"]["on"]) is bool
    of_result, of_given = ({name: bits(tensor) for name, tensor in tensors.items()}
                           for tensors in (result.tensors, TENSORS))  # fmt: skip
    assert of_result == of_given


def test_json_is_laid_out_for_a_reader(tmp_path):
    tensors = {
        "w": TENSORS["weight"], "c": torch.tensor([1 + 2j]), "s": torch.tensor(3),
        "none": torch.empty(2, 0),
    }  # fmt: skip
    serialization.Recorder("json", narrow=True).record(
        serialization.Record(tensors, {"a": "ü"}), tmp_path / "a.json"
    )

    assert (tmp_path / "a.json").read_text(encoding="utf-8") == """{
  "andiron_record": 1,
  "dtypes": {"s": "int64"},
  "values": {"a": "ü"},
  "tensors": {
    "w": {"dtype": "float32", "shape": [2, 2], "data": [
      [0.10000000149011612, -0.0],
      ["nan", "-inf"]
    ]},
    "c": {"dtype": "complex64", "shape": [1], "data": [
      [1.0, 2.0]
    ]},
    "s": {"dtype": "uint8", "shape": [], "data": 3},
    "none": {"dtype": "float32", "shape": [2, 0], "data": [[], []]}
  }
}
"""


def test_json_written_by_hand_loads(tmp_path):
    tensors = {"w": {"dtype": "float16", "shape": [4], "data": [1, "inf", "nan", "nan:7e01"]}}
    text = json.dumps({"andiron_record": 1, "dtypes": {}, "values": {}, "tensors": tensors})
    (tmp_path / "a.json").write_text(text)

    result = serialization.load(tmp_path / "a.json").tensors["w"]
    assert result.view(torch.uint16).tolist() == [0x3C00, 0x7C00, 0x7E00, 0x7E00]


def test_messagepack_is_one_map_of_dtypes_shapes_and_bytes(tmp_path):
    recorder = serialization.Recorder("msgpack", precision="half")
    recorder.record(
        serialization.Record({"w": torch.tensor([1.0, -2.0])}, {"a": 1}), tmp_path / "a.mpk"
    )

    assert msgpack.unpackb((tmp_path / "a.mpk").read_bytes()) == {
        "andiron_record": 1, "dtypes": {"w": "float32"}, "values": {"a": 1},
        "tensors": {"w": {"dtype": "float16", "shape": [2], "data": b"\x00\x3c\x00\xc0"}},
    }  # fmt: skip


def test_safetensors_says_its_version_and_the_dtypes_that_were(tmp_path):
    recorder = serialization.Recorder(precision="bfloat16", narrow=True)
    record = serialization.Record({"w": torch.ones(2), "n": torch.tensor([300])}, {"a": None})
    recorder.record(record, tmp_path / "a.safetensors")

    with safetensors.safe_open(tmp_path / "a.safetensors", framework="pt") as opened:
        assert opened.metadata() == {
            "format": "pt", "andiron_record": "1", "dtypes": '{"w": "float32", "n": "int64"}',
            "values": '{"a": null}',
        }  # fmt: skip
    result = safetensors.torch.load_file(tmp_path / "a.safetensors")
    assert (result["w"].dtype, result["n"].dtype, result["n"].tolist()) == (
        torch.bfloat16, torch.uint16, [300],
    )  # fmt: skip
    assert serialization.load(tmp_path / "a.safetensors").tensors["n"].dtype == torch.int64


NULL = b'{"__metadata__":null,"w":{"dtype":"I64","shape":[1],"data_offsets":[0,8]}}'


@pytest.mark.parametrize("suffix", [".safetensors", ".safetensors.gz"])
@pytest.mark.parametrize("content", [
    safetensors.torch.save({"w": torch.tensor([7])}),
    safetensors.torch.save({"w": torch.tensor([7])}, {"dtypes": "no JSON", "format": "pt"}),
    len(NULL).to_bytes(8, "little") + NULL + (7).to_bytes(8, "little"),
], ids=["no metadata", "of another", "null"])  # fmt: skip
def test_a_safetensors_file_of_anybody_else_loads(suffix, content, tmp_path):
    path = tmp_path / f"a{suffix}"
    path.write_bytes(gzip.compress(content) if suffix.endswith(".gz") else content)
    record = serialization.load(path)
    assert record.tensors["w"].tolist() == [7] and record.values == {}


@pytest.mark.parametrize(("name", "is_right"), [
    ("a.mpk.gz", True), ("a.b.mpk.gz", True), ("a.mpk", False), ("a.json.gz", False),
])  # fmt: skip
def test_the_name_is_used_as_given_if_it_ends_as_the_recorders_files_do(name, is_right, tmp_path):
    record = serialization.Record({"w": torch.ones(1)})
    if is_right:
        serialization.CompactRecorder().record(record, tmp_path / name)
    else:
        assert refusal(serialization.CompactRecorder().record, record, tmp_path / name) == (
            f"{tmp_path / name}: the name of a gzip of a msgpack record ends with .mpk.gz; "
            "rename it"
        )
    assert [path.name for path in tmp_path.iterdir()] == [name] * is_right


@pytest.mark.parametrize("name", ["model", "model.pt", "mpk", "model.gz", ".gz"])
def test_a_name_that_says_no_format_is_refused(name, tmp_path):
    words = f"{tmp_path / name}: no record format has this suffix; use "
    assert refusal(serialization.load, tmp_path / name).startswith(f"{words}.safetensors; the ")
    assert refusal(
        serialization.Recorder().record, serialization.Record({}), tmp_path / name
    ) == f"{words}one of .safetensors, .mpk, .json, with .gz if compressed"


@pytest.mark.parametrize(("options", "words"), [
    ({"format": "msgpck"},
     "format=msgpck: should be 'safetensors', 'msgpack' or 'json' (Recorder)"),
    ({"precision": "fp64"},
     "precision=fp64: should be 'exact', 'half', 'bfloat16', 'full' or 'double' (Recorder)"),
])  # fmt: skip
def test_an_invalid_option_is_answered_by_the_available_ones(options, words):
    assert message_of(ValueError, serialization.Recorder, **options) == words


def test_the_compact_recorder_is_messagepack_gzip_half_and_narrow(tmp_path):
    tensors = {
        "w": torch.full((1000,), 1.5),
        "n": torch.full((1000,), -7),
        "mask": torch.ones(3, dtype=torch.bool),
    }
    serialization.CompactRecorder().record(serialization.Record(tensors), tmp_path / "a.mpk.gz")
    serialization.Recorder().record(serialization.Record(tensors), tmp_path / "a.safetensors")

    whole = msgpack.unpackb(gzip.decompress((tmp_path / "a.mpk.gz").read_bytes()))
    assert [entry["dtype"] for entry in whole["tensors"].values()] == ["float16", "int8", "bool"]
    result = serialization.load(tmp_path / "a.mpk.gz").tensors
    assert (result["n"].dtype, set(result["n"].tolist()), set(result["w"].tolist())) == (
        torch.int64, {-7}, {1.5},
    )  # fmt: skip
    assert (tmp_path / "a.mpk.gz").stat().st_size * 20 < (tmp_path / "a.safetensors").stat().st_size


@pytest.mark.parametrize(("values", "dtype"), [
    ([0, 255], torch.uint8), ([-1, 127], torch.int8), ([-1, 128], torch.int16),
    ([256], torch.uint16), ([-129], torch.int16), ([65535], torch.uint16), ([65536], torch.uint32),
    ([-32769], torch.int32), ([2**32 - 1], torch.uint32), ([2**32], torch.int64),
    ([-(2**31) - 1], torch.int64), ([], torch.uint8),
])  # fmt: skip
def test_integers_are_stored_in_the_narrowest_dtype_and_never_wrap(values, dtype, tmp_path):
    tensors = {"n": torch.tensor(values, dtype=torch.int64)}
    serialization.Recorder(narrow=True).record(
        serialization.Record(tensors), tmp_path / "a.safetensors"
    )

    assert safetensors.torch.load_file(tmp_path / "a.safetensors")["n"].dtype == dtype
    assert bits(serialization.load(tmp_path / "a.safetensors").tensors["n"]) == bits(tensors["n"])


def test_all_values_too_large_for_half_are_listed_and_nothing_is_written(tmp_path):
    tensors = {
        "head": torch.tensor([1.0, -70000.0, 66000.0]),
        "infinite already": torch.tensor([float("inf"), float("nan")]),
        "rounds down": torch.tensor([65519.0]),
        "rounds up": torch.tensor([65520.0]),
        "whole": torch.tensor([70000]),
    }
    assert refusal(
        serialization.Recorder(precision="half").record,
        serialization.Record(tensors),
        tmp_path / "a.safetensors",
    ) == (
        "precision 'half' ends at 65504; these would become infinite, so nothing was written:\n  "
        "'head': -70000.0, and 1 more\n  'rounds up': 65520.0\nchoose a wider precision "
        "('bfloat16' has nearly the range of 'full'), or 'exact'"
    )
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("precision", "value"), [("full", 1e300), ("bfloat16", torch.finfo(torch.float32).max)]
)
def test_other_precisions_refuse_what_they_would_make_infinite(precision, value, tmp_path):
    record = serialization.Record({"w": torch.tensor([value], dtype=torch.float64)})

    assert f"'w': {value!r}\n" in refusal(
        serialization.Recorder(precision=precision).record, record, tmp_path / "a.safetensors"
    )


@pytest.mark.parametrize(
    ("value", "words"),
    [
        (float("nan"),
         "values['a'][0] is nan, which JSON does not have; write it as a string or None, or keep "
         "it in a tensor"),
        (2**64,
         "values['a'][0] is 18446744073709551616, which needs more than 64 bits; write it as a "
         "string"),
        ((1,),
         "values['a'][0] is a tuple; values are dict, list, str, int, float, bool or None: "
         "convert it, or keep it in a tensor"),
        ({1: 2}, "values['a'][0] has the key 1; keys are strings: '1'"),
        ("\ud800",
         "values['a'][0] has '\\ud800', half a surrogate pair, which no file can hold; rename it"),
    ],
    ids=["nan", "65 bits", "tuple", "key", "surrogate"],
)  # fmt: skip
@pytest.mark.parametrize("format", SUFFIXES)
def test_a_value_that_some_format_has_not_is_refused_by_all(format, value, words, tmp_path):
    recorder = serialization.Recorder(format)

    assert (
        refusal(recorder.record, serialization.Record({}, {"a": [value]}), file(tmp_path, recorder))
        == words
    )
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("format", SUFFIXES)
def test_a_tensor_that_records_have_not_is_refused(format, tmp_path):
    recorder = serialization.Recorder(format)
    for tensor, kind in (
        (torch.zeros(2, dtype=torch.complex128), "torch.complex128"),
        (torch.eye(2).to_sparse(), "torch.sparse_coo"),
    ):
        record = serialization.Record({"c": torch.ones(1), "a": tensor})
        words = refusal(recorder.record, record, file(tmp_path, recorder))
        assert words.startswith(f"tensor 'a' is {kind}, which safetensors does not support")


def test_a_tensor_beyond_messagepack_is_refused_with_the_remedy(tmp_path, monkeypatch):
    monkeypatch.setattr(messagepack, "MAX_TENSOR_BYTES", 7)

    assert refusal(
        serialization.Recorder("msgpack").record,
        serialization.Record({"w": torch.ones(2)}),
        tmp_path / "a.mpk",
    ) == ("tensor 'w' has 8 bytes; MessagePack ends at 7: record as 'safetensors'")


def test_a_refused_record_leaves_the_old_one(tmp_path):
    recorder = serialization.Recorder("json")
    recorder.record(serialization.Record({"w": torch.ones(1)}), tmp_path / "a.json")
    refusal(recorder.record, serialization.Record({}, {"a": float("inf")}), tmp_path / "a.json")

    assert serialization.load(tmp_path / "a.json").tensors["w"].tolist() == [1.0]
    assert [path.name for path in tmp_path.iterdir()] == ["a.json"]


@pytest.mark.parametrize(("format", "is_compressed"), FILES, ids=IDS)
def test_a_file_that_is_not_there_or_is_another_is_named(format, is_compressed, tmp_path):
    recorder = serialization.Recorder(format, gzip=is_compressed)
    path = file(tmp_path, recorder)
    assert refusal(serialization.load, path) == f"{path}: no such file"
    path.mkdir()
    assert refusal(serialization.load, path) == f"{path}: is a folder; name a file in it"
    path.rmdir()
    path.write_bytes(b"no tensors here, only a sentence")
    words = refusal(serialization.load, path)
    assert words.startswith(f"{path}: not a whole ") and words.endswith("; restore it from a copy")


@pytest.mark.parametrize(("format", "is_compressed"), FILES, ids=IDS)
def test_a_cut_file_is_reported_wherever_it_is_cut(format, is_compressed, tmp_path):
    recorder = serialization.Recorder(format, gzip=is_compressed)
    path = file(tmp_path, recorder)
    recorder.record(serialization.Record(TENSORS, VALUES), path)
    whole = path.read_bytes()
    end = len(whole.rstrip(b"\n")) if format == "json" and not is_compressed else len(whole)
    for length in range(0, end, 7):
        path.write_bytes(whole[:length])
        assert "not a whole" in refusal(serialization.load, path), length


@pytest.mark.parametrize(("format", "is_compressed"), FILES, ids=IDS)
def test_a_changed_file_loads_or_is_reported_and_nothing_else(format, is_compressed, tmp_path):
    recorder = serialization.Recorder(format, gzip=is_compressed, narrow=True)
    path = file(tmp_path, recorder)
    recorder.record(serialization.Record(TENSORS, VALUES), path)
    whole, draw, refused = path.read_bytes(), random.Random(format), 0
    for _ in range(300):
        changed = bytearray(whole)
        for _ in range(draw.randint(1, 3)):
            changed[draw.randrange(len(changed))] ^= 1 << draw.randrange(8)
        path.write_bytes(changed)
        try:
            serialization.load(path)
        except errors.DataError as error:
            refused += 1
            assert str(error).startswith(f"{path}: not a whole ")
    assert refused > 100


GOOD = {"andiron_record": 1, "dtypes": {}, "values": {}, "tensors": {}}
ENTRY = {"dtype": "int8", "shape": [2], "data": [1, 2]}
WRONG = {
    "of a later version": ({**GOOD, "andiron_record": 2},
                           "it has andiron_record 2; this andiron reads 1"),
    "of no version": ({"tensors": {}}, "its version, dtypes or values are missing"),
    "of no tensors": ({**GOOD, "tensors": []}, "with tensors"),
    "of nothing": ([], "with tensors"),
    "of no values": ({**GOOD, "values": []}, "its version, dtypes or values are missing"),
    "of an unknown dtype": ({**GOOD, "tensors": {"w": {**ENTRY, "dtype": "int9"}}},
                            "the dtype of tensor 'w' is 'int9', which records do not have"),
    "of a negative shape": ({**GOOD, "tensors": {"w": {**ENTRY, "shape": [-2]}}},
                            "the shape of tensor 'w' is malformed: [-2]"),
    "of more than its shape": ({**GOOD, "tensors": {"w": {**ENTRY, "shape": [3]}}}, "tensor 'w' "),
    "of an endless shape": ({**GOOD, "tensors": {"w": {**ENTRY, "shape": [2**62] * 3}}},
                            "tensor 'w' "),
    "of a dtype it cannot have been": (
        {**GOOD,
         "tensors": {"w": {**ENTRY, "data": [200, 2], "dtype": "uint8"}}, "dtypes": {"w": "int8"}},
        "'w' has values that dtype 'int8' does not have",
    ),
    "of a dtype for nothing": ({**GOOD, "dtypes": {"v": "int8"}},
                               "it names a dtype for 'v', which it does not have"),
}  # fmt: skip


@pytest.mark.parametrize("name", WRONG)
@pytest.mark.parametrize("format", ["json", "msgpack"])
def test_a_record_that_contradicts_itself_is_reported(format, name, tmp_path):
    path, (whole, why) = tmp_path / f"a{SUFFIXES[format]}", WRONG[name]
    if format == "json":
        path.write_text(json.dumps(whole))
    else:

        def as_bytes(item):
            return bytes(item["data"]) if isinstance(item["data"], list) else item["data"]

        if isinstance(whole, dict) and isinstance(whole["tensors"], dict):
            whole = {
                **whole,
                "tensors": {
                    n: {**item, "data": as_bytes(item)} for n, item in whole["tensors"].items()
                },
            }
        path.write_bytes(msgpack.packb(whole))

    words = refusal(serialization.load, path)
    assert words.startswith(
        f"{path}: not a whole {format} record ("
    )
    assert why in words


JSON_DATA = {
    "a number of the wrong kind": ("int8", [1.5], "'w' has 1.5, which is not of torch.int8"),
    "a number too large": ("int8", [128], "integer 128 out of bounds for int8"),
    "a truth for a number": ("int8", [True], "'w' has True, which is not of torch.int8"),
    "a number for a truth": ("bool", [1], "'w' has 1, which is not of torch.bool"),
    "a number between": ("float16", [0.1], "'w' has 0.1, which is not of torch.float16"),
    "a word": ("float32", ["one"], "'w' has 'one', which is not a number"),
    "an infinity that the dtype has not": ("float8_e4m3fn", ["inf"],
                                           "'w' has inf, which is not of torch.float8_e4m3fn"),
    "another depth": ("float32", [[1.0]], "'w' has [1.0], which is not a number"),
}  # fmt: skip


@pytest.mark.parametrize("name", JSON_DATA)
def test_json_data_that_its_dtype_has_not_are_reported(name, tmp_path):
    dtype, data, why = JSON_DATA[name]
    (tmp_path / "a.json").write_text(
        json.dumps({**GOOD, "tensors": {"w": {"dtype": dtype, "shape": [1], "data": data}}})
    )
    assert why in refusal(serialization.load, tmp_path / "a.json")


TWICE = b'{"values": {}, ' + json.dumps(GOOD).encode()[1:]
HARDLY = {
    "json": [b'{"a": NaN}', TWICE, b"[" * 100_000, b"1" * 5000, b'"\\ud800"', b""],
    "msgpack": [  # refused before it allocates what it claims
        msgpack.packb(msgpack.ExtType(5, b"x")), msgpack.packb(msgpack.Timestamp(0)),
        b"\x91" * 5000, b"\xdf\xff\xff\xff\xff", b"\xc6\xff\xff\xff\xff", b"\x81\xa1a\x01\x02",
        b"\x85" + msgpack.packb(GOOD)[1:] + msgpack.packb("values") + b"\x80", b"\x81\x01\x01",
        b"\xa1\xff", b"",
    ],
}  # fmt: skip


@pytest.mark.parametrize("format", HARDLY)
def test_what_is_hardly_a_record_is_refused(format, tmp_path):
    path = tmp_path / f"a{SUFFIXES[format]}"
    for content in HARDLY[format]:
        path.write_bytes(content)
        assert f"not a whole {format} record (" in refusal(serialization.load, path), content[:9]


def test_nothing_is_unpickled(tmp_path, monkeypatch):
    import pickle

    def refuse(*arguments, **options):
        raise ValueError("unpickled")

    monkeypatch.setattr(pickle, "loads", refuse)
    monkeypatch.setattr(pickle, "Unpickler", refuse)
    monkeypatch.setattr(torch, "load", refuse)
    for format, is_compressed in FILES:
        recorder = serialization.Recorder(format, gzip=is_compressed)
        recorder.record(serialization.Record(TENSORS, VALUES), file(tmp_path, recorder))
        assert serialization.load(file(tmp_path, recorder)).values == VALUES


@pytest.mark.parametrize(("format", "is_compressed"), FILES, ids=IDS)
def test_a_module_comes_back_from_every_format(format, is_compressed, tmp_path):
    recorder = serialization.Recorder(format, gzip=is_compressed)
    saved, loaded = nn.BatchNorm1d(3), nn.BatchNorm1d(3)
    saved(torch.randn(7, 3))
    serialization.save_file(saved, file(tmp_path, recorder), recorder)

    assert not serialization.load_file(loaded, file(tmp_path, recorder))
    for name, tensor in saved.state_dict().items():
        assert torch.equal(loaded.state_dict()[name], tensor)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
def test_a_compact_record_loads_into_any_dtype(dtype, tmp_path):
    saved, loaded = nn.Linear(3, 4), nn.Linear(3, 4).to(dtype)
    serialization.save_file(saved, tmp_path / "a.mpk.gz", serialization.CompactRecorder())

    serialization.load_file(loaded, tmp_path / "a.mpk.gz")
    assert torch.equal(loaded.weight, saved.weight.half().to(dtype))
