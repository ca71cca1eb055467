"""Weights that torch saved, imported without running code from the file."""

import collections
import tracemalloc
from pathlib import Path

import pytest
import torch
from in_process import called
from torch import nn

from andiron import errors, serialization
from andiron.serialization import weight_files
from andiron_lab.records import import_state_dict


class Ran:
    """The object that a malicious file would make."""

    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return (Path.touch, (self.path,))


@pytest.fixture
def imported(here):
    """The command on a value that torch saved: exit code, lines printed, line of error."""

    def run(value, *arguments, target="out.safetensors", **options):
        torch.save(value, "weights.pt", **options)
        ended = called(import_state_dict.main, "weights.pt", target, *arguments)
        return ended.code, ended.output.splitlines(), ended.errors.rstrip("\n")

    return run


def loaded():
    return serialization.load(Path("out.safetensors")).tensors


@pytest.mark.parametrize("is_old", [False, True], ids=["zip", "before torch 1.6"])
def test_a_state_dict_becomes_safetensors_bit_for_bit(is_old, imported):
    model = nn.Sequential(nn.Linear(3, 2), nn.BatchNorm1d(2))
    code, lines, _ = imported(model.state_dict(), _use_new_zipfile_serialization=not is_old)

    assert (code, lines) == (0, ["out.safetensors: 7 tensors"])
    assert loaded().keys() == model.state_dict().keys()
    for name, tensor in model.state_dict().items():
        assert torch.equal(loaded()[name], tensor) and loaded()[name].dtype == tensor.dtype
    other = nn.Sequential(nn.Linear(3, 2), nn.BatchNorm1d(2))
    serialization.load_file(other, Path("out.safetensors"))
    assert torch.equal(other[0].weight, model[0].weight)


def test_tensors_that_share_memory_or_lie_otherwise_are_written_apart(imported):
    whole = torch.arange(6.0).reshape(2, 3)
    parameter = nn.Parameter(whole)
    imported(
        {
            "a": parameter, "b": parameter, "part": whole[0], "turned": whole.t(),
            "step": whole[1, ::2],
        }
    )  # fmt: skip

    assert loaded()["a"].tolist() == loaded()["b"].tolist() == [[0.0, 1.0, 2.0], [3.0, 4.0, 5.0]]
    assert (loaded()["part"].tolist(), loaded()["step"].tolist()) == ([0.0, 1.0, 2.0], [3.0, 5.0])
    assert loaded()["turned"].tolist() == [[0.0, 3.0], [1.0, 4.0], [2.0, 5.0]]


def test_a_key_selects_a_nested_dict_without_its_other_values(imported):
    inner = collections.OrderedDict(
        {"w": torch.ones(2), "epoch": 3, "deeper": {"x": torch.ones(1)}, 7: torch.ones(1)}
    )
    code, lines, _ = imported(
        {"model": {"state_dict": inner}, "args": None}, "--key", "model.state_dict"
    )

    assert code == 0 and loaded().keys() == {"w"}
    assert lines == ["out.safetensors: 1 tensors"]


def test_names_are_changed_in_the_order_given(imported):
    imported(
        {"module.0.w": torch.ones(1)}, "--rename", r"^module\.=net.", "--rename", r"\.w$=.weight",
        "--rename", "(?=net)=x.",
    )  # fmt: skip

    assert loaded().keys() == {"x.net.0.weight"}


@pytest.mark.parametrize(("value", "arguments", "words"), [
    ({"epoch": 1, "best": {"a": 2}}, [], "holds no tensors by name"),
    ({"model": {"epoch": 1}}, ["--key", "model"], "holds no tensors by name"),
    ({"model": {"w": torch.ones(1)}}, ["--key", "modle"], "holds dicts of tensors, model: "),
    ([torch.ones(1)], [], "holds no tensors by name"),
])  # fmt: skip
def test_an_unusable_state_dict_is_refused_with_its_content(value, arguments, words, imported):
    code, lines, error = imported(value, *arguments)
    assert (code, lines) == (1, []) and error.startswith(f"error: weights.pt: {words}")
    assert not Path("out.safetensors").exists()


def test_deep_nesting_takes_little_memory(monkeypatch):
    content = {}
    for _ in range(2000):
        content = {"k" * 100: content}
    monkeypatch.setattr(weight_files, "unpickled", lambda path: content)
    tracemalloc.start()
    with pytest.raises(errors.DataError, match="no tensors by name"):
        import_state_dict.import_state_dict(Path("a.pt"), Path("b.safetensors"))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 10e6  # texts of all paths would take 200 MB


def test_an_object_is_refused_and_nothing_of_it_runs(imported, here):
    code, lines, words = imported({"w": torch.ones(1), "x": Ran(here / "ran")})

    assert (code, lines) == (1, []) and not (here / "ran").exists()
    assert not Path("out.safetensors").exists()
    assert words.startswith("error: weights.pt: holds more than tensors (")
    assert "call torch.save(model.state_dict(), path), and import that file" in words


@pytest.mark.parametrize("length", [0, 1, 30, 200, -30])
def test_a_truncated_file_is_refused(length, here):
    torch.save({"w": torch.ones(100)}, "weights.pt")
    whole = Path("weights.pt").read_bytes()
    Path("weights.pt").write_bytes(whole[:length])

    ended = called(import_state_dict.main, "weights.pt", "out.safetensors")
    words = ended.errors
    assert words.startswith("error: weights.pt: not a whole file of torch.save (")
    assert words.endswith("); restore it from a copy\n") and ended.code == 1
    assert len(words.splitlines()) == 1 and not Path("out.safetensors").exists()


@pytest.mark.parametrize(("arguments", "target", "words"), [
    (["--rename", "w"], "out.safetensors", "--rename 'w' has no '='; write REGEX=NEW"),
    (["--rename", "v=u"], "out.safetensors",
     "rename 'v' matches no name; there are w: correct it, or leave it out"),
    ([], "other.pt", "other.pt: the name of a safetensors record ends with .safetensors"),
    ([], "none/out.safetensors",
     "none/out.safetensors: cannot be written (there is no folder none)"),
])  # fmt: skip
def test_arguments_that_make_no_sense_are_refused(arguments, target, words, imported):
    code, lines, error = imported({"w": torch.ones(1)}, *arguments, target=target)
    assert (code, lines) == (1, []) and error.startswith(f"error: {words}")


@pytest.mark.parametrize(("value", "words"), [
    (nn.Linear(1, 1), "weights.pt: holds more than tensors (torch.nn.modules.linear.Linear), whi"),
    ({"w": torch.ones(1, dtype=torch.complex128)},
     "tensor 'w' is torch.complex128, which safetensors does not support"),
])  # fmt: skip
def test_values_that_no_record_has_are_refused(value, words, imported):
    assert imported(value)[2].startswith(f"error: {words}")


def test_a_missing_file_is_refused(here):
    ended = called(import_state_dict.main, "none.pt", "out.safetensors")
    assert (ended.code, ended.errors) == (1, "error: none.pt: no such file\n")
