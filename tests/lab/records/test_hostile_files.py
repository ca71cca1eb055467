"""Files whose content asks for more memory than they have, or that are no files."""

import gzip
import json
import os
import socket
import zipfile

import pytest
import torch
from torch import nn

from andiron import errors, serialization
from andiron_lab.records import import_state_dict, messagepack, recorder
from refusals import message_of

SUFFIXES = (".safetensors", ".json", ".json.gz", ".mpk", ".safetensors.gz")


def refusal(path):
    return message_of(errors.DataError, serialization.load_file, nn.Linear(2, 2), path)


def refused_import(path):
    convert = import_state_dict.import_state_dict
    return message_of(errors.DataError, convert, path, path.with_name("out.safetensors"))


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_pipes_devices_sockets_and_folders_are_refused(suffix, tmp_path):
    pipe, device, folder, bound = (tmp_path / f"{kind}{suffix}" for kind in "pdfs")
    os.mkfifo(pipe)
    device.symlink_to("/dev/zero")
    folder.mkdir()
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(bound))
        for path in (pipe, device, folder, bound):
            words = refusal(path)
            assert str(path) in words
            assert str(path) in refused_import(path)


def test_a_gzip_bomb_is_refused_at_the_size_of_the_module(tmp_path):
    path = tmp_path / "bomb.json.gz"
    path.write_bytes(gzip.compress(b" " * 2**26))
    assert "it has more than 16,7" in refusal(path)


def test_many_small_values_are_refused_before_they_are_parsed(tmp_path):
    path = tmp_path / "lists.json"
    path.write_bytes(b"[" + b"[]," * 5_000_000 + b"0]")
    assert "values, more than the" in refusal(path)


def test_many_small_lists_of_messagepack_are_refused(tmp_path):
    path = tmp_path / "lists.mpk"
    path.write_bytes(b"\xdd" + (8_000_000).to_bytes(4, "big") + b"\x90" * 8_000_000)
    refusal(path)
    numbers = b"\xdc\xff\xff" + b"\x00" * 65_535
    path.write_bytes(b"\x91" + b"\xdc\x00\x64" + numbers * 100)
    assert "values allowed" in refusal(path)
    lists = b"\xdc\x00\x64" + b"\x90" * 100
    with pytest.raises(ValueError, match="more than the 1,000 values allowed"):
        messagepack.read(b"\x91" + b"\xdc\x00\x64" + lists * 100, 1_000)


def test_a_header_of_too_many_tensors_is_refused(tmp_path):
    path = tmp_path / "many.safetensors"
    entry = {"dtype": "F32", "shape": [0], "data_offsets": [0, 0]}
    header = json.dumps({str(number): entry for number in range(100_001)}).encode()
    path.write_bytes(len(header).to_bytes(8, "little") + header)
    assert "100,001 tensors, more than" in refusal(path)


def imported(content, tmp_path, suffix=".pt"):
    path = tmp_path / f"source{suffix}"
    torch.save(content, path)
    with pytest.raises(errors.DataError) as raised:
        import_state_dict.import_state_dict(path, tmp_path / "out.safetensors")
    assert not (tmp_path / "out.safetensors").exists()
    return str(raised.value)


def test_a_tensor_that_repeats_its_values_is_not_written_out(tmp_path):
    words = imported({"weight": torch.zeros(1).expand(10**12)}, tmp_path)
    assert "tensor 'weight' of shape 1000000000000 repeats the few values" in words


def test_views_of_one_memory_are_not_written_a_thousand_times(tmp_path):
    memory = torch.zeros(2**18)
    words = imported({str(number): memory[:] for number in range(1000)}, tmp_path)
    assert "they share memory" in words


@pytest.mark.parametrize("tensor", [torch.eye(3).to_sparse(), torch.empty(3, device="meta")])
def test_tensors_without_plain_values_are_refused(tensor, tmp_path):
    assert "tensor 'weight' is" in imported({"weight": tensor}, tmp_path)


def test_dicts_that_name_each_other_are_walked_once(tmp_path):
    nested = {"none": 1}
    for _ in range(60):
        nested = {"one": nested, "two": nested}
    assert "holds no tensors by name" in imported(nested, tmp_path)


def test_a_compressed_archive_is_refused(tmp_path):
    path = tmp_path / "source.pt"
    torch.save({"weight": torch.zeros(10)}, path)
    with zipfile.ZipFile(path) as archive:
        contents = {entry.filename: archive.read(entry) for entry in archive.infolist()}
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in contents.items():
            archive.writestr(name, content)
    assert "its archive is compressed" in refused_import(path)


@pytest.mark.parametrize("size", [0, 5, 60])
def test_damaged_safetensors_are_reported_without_a_traceback(size, tmp_path):
    path = tmp_path / "source.safetensors"
    serialization.save_tensors(path, {"weight": torch.zeros(10)})
    path.write_bytes(path.read_bytes()[:size])
    assert "not a whole safetensors file" in refused_import(path)


def test_whole_safetensors_are_imported(tmp_path):
    path = tmp_path / "source.safetensors"
    serialization.save_tensors(path, {"weight": torch.ones(2)})
    import_state_dict.import_state_dict(path, tmp_path / "out.safetensors", rename={"weight": "w"})
    assert serialization.load(tmp_path / "out.safetensors").tensors["w"].tolist() == [1, 1]


def test_a_record_of_any_size_is_imported(tmp_path, monkeypatch):
    monkeypatch.setattr(recorder, "SMALLEST_LIMIT", 0)
    monkeypatch.setitem(serialization.load.__kwdefaults__, "most_numbers", 1)
    path = tmp_path / "source.mpk"
    serialization.Recorder("msgpack").record(serialization.Record({"w": torch.ones(50)}), path)
    import_state_dict.import_state_dict(path, tmp_path / "out.safetensors")
    assert serialization.load(tmp_path / "out.safetensors").tensors["w"].sum() == 50
