"""Files of weights as other programs leave them: read without running their code, or named."""

import argparse
import datetime
import fractions
import json
import pathlib
import shlex
import types

import numpy as np
import pytest
import torch
from safetensors.torch import save_file
from torch import nn

from andiron import errors
from andiron.serialization import weight_files
from refusals import message_of

PLAIN = {
    "Namespace": argparse.Namespace(lr=0.1, out=pathlib.Path("x"), sizes=np.array([1, 2])),
    "SimpleNamespace": types.SimpleNamespace(lr=0.1),
    "numbers": [np.float64(0.3), np.int64(3), np.bool_(True), np.float32(1), np.str_("x")],
    "array": np.arange(3), "objects": np.array([None, "x"]), "random state": np.random.get_state(),
    "paths": [pathlib.Path("/a"), pathlib.PurePosixPath("a"), pathlib.PureWindowsPath("C:/a")],
    "times": [datetime.datetime(2026, 1, 2, tzinfo=datetime.UTC), datetime.date(2026, 1, 2),
              datetime.timedelta(1)],
    "Python's": [frozenset([1]), range(3), slice(1), {2}, 1j, fractions.Fraction(1, 2)],
}  # fmt: skip


@pytest.mark.parametrize("value", PLAIN.values(), ids=PLAIN)
def test_plain_values_beside_weights_are_not_made_and_the_weights_are_read(value, tmp_path):
    path, weights = tmp_path / "w.pth", nn.Sequential(nn.Linear(2, 3)).state_dict()
    torch.save({"model": weights, "epoch": 3, "args": value}, path)

    whole, _ = weight_files.read_weights([path], 100)

    assert {name: t.tolist() for name, t in whole.tensors.items()} == {
        name: t.tolist() for name, t in weights.items()
    }
    args = weight_files.unpickled(path)["args"]
    values = args if isinstance(args, list | tuple) else [args]
    known = weight_files.ValueNotRead | set | complex | str | int | float | torch.Tensor
    assert all(isinstance(entry, known) for entry in values)


@pytest.mark.filterwarnings("ignore")
def test_a_checkpoint_of_a_script_of_timm_is_read(tmp_path):
    saver = pytest.importorskip("timm.utils").CheckpointSaver
    network = nn.Sequential(nn.Linear(2, 3))
    optimizer = torch.optim.Adam(network.parameters())
    network(torch.ones(1, 2)).sum().backward()
    optimizer.step()
    args, folders = argparse.Namespace(model="resnet", lr=0.1), [str(tmp_path)] * 2
    saver(network, optimizer, args, None, None, "checkpoint", "recovery", *folders).save_checkpoint(
        1, np.float64(0.5)
    )
    (path,) = tmp_path.glob("checkpoint-*.pth.tar")
    assert weight_files.read_weights([path], 100)[0].tensors.keys() == network.state_dict().keys()


class Own:
    pass


@pytest.mark.parametrize("content", [
    {"model": {"a.b": torch.ones(2)}, "args": Own()},
    {"weights": {"a.b": torch.ones(2)}, "hyper_parameters": {"loss": Own()}},
    {"a.b": torch.ones(2), "args": Own()},
    nn.ModuleDict({"a": nn.ParameterDict({"b": torch.ones(2)})}),
    {"net": nn.ModuleDict({"a": nn.ParameterDict({"b": torch.ones(2)})}), "epoch": 3},
], ids=["model", "other names", "alone", "network", "network inside"])  # fmt: skip
def test_an_object_of_another_class_is_refused_with_a_line_for_who_trusts_its_maker(
    content, tmp_path
):
    torch.save(content, tmp_path / "w.pth")

    said = message_of(errors.DataError, weight_files.unpickled, tmp_path / "w.pth")

    line = said.partition("if you trust who made it: python -c ")[2]
    (code,) = shlex.split(line)
    exec(code.replace("weights.pth", str(tmp_path / "weights.pth")), {})
    assert weight_files.read_weights([tmp_path / "weights.pth"], 9)[0].tensors.keys() == {"a.b"}


def test_nothing_of_a_listed_class_runs(tmp_path):
    class Harmful:
        def __reduce__(self):
            return np.dtype, ("O", False, True), (3, "|", None, None, None, -1, -1, 63)

    torch.save({"model": {"a.b": torch.ones(2)}, "args": Harmful()}, tmp_path / "w.pth")
    made = weight_files.unpickled(tmp_path / "w.pth")["args"]
    assert type(made) is weight_files.ValueNotRead and not vars(made)


POINTER = "version https://git-lfs.github.com/spec/v1\noid sha256:{}\nsize 12345\n"
PAGES = ["<!DOCTYPE html>\n<html>no</html>", "\n <html><body>Sign in</body></html>"]


@pytest.mark.parametrize("name", ["w.pth", "pytorch_model.bin", "model.safetensors", "w.mpk",
                                  "w.ckpt", "w.safetensors.gz"])  # fmt: skip
def test_a_pointer_or_a_web_page_in_the_place_of_weights_is_named(name, tmp_path):
    if name.endswith((".mpk", ".gz")):
        pytest.importorskip("andiron_lab", reason="reads these formats")
    path = tmp_path / name
    for content, words in (
        (POINTER.format("0" * 64), "a pointer of Git LFS, not the file: run git lfs pull"),
        *((page, "a web page, not the file: download the file itself") for page in PAGES),
    ):
        path.write_text(content)
        said = message_of(
            errors.DataError, lambda: weight_files.read_weights(weight_files.shards_of(path), 10)
        )
        assert said.startswith(f"{path}: ") and words in said


def test_a_folder_without_usual_weights_says_what_it_holds(tmp_path):
    for name, words in (
        ("model-00001-of-00002.safetensors", "without their index, a .index.json; restore it"),
        ("pytorch_model-00001-of-00002.bin", "without their index"),
        ("weights.pth", "holds weights.pth, and no weights by a usual name; name a file"),
    ):
        folder = tmp_path / name.partition(".")[0]
        folder.mkdir()
        (folder / name).write_bytes(b"")
        said = message_of(errors.DataError, weight_files.files_of_weights, folder)
        assert said.startswith(f"{folder}: holds {name}") and words in said
    empty = tmp_path / "empty"
    empty.mkdir()
    said = message_of(errors.DataError, weight_files.files_of_weights, empty)
    assert "holds nothing, and no weights" in said


def test_a_damaged_second_kind_of_weights_is_named(tmp_path):
    save_file({"a.b": torch.ones(2)}, tmp_path / "model.safetensors")
    index = tmp_path / "model.safetensors.index.json"
    index.write_text(json.dumps({"weight_map": {"a.b": "absent.safetensors"}}))
    files = weight_files.files_of_weights(tmp_path)
    said = message_of(errors.DataError, weight_files.check_same, *files)
    assert f"{tmp_path}/absent.safetensors: no such file" in said
