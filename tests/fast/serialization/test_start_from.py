"""`start_from` compares names, files of weights and numbers before a run trains."""

import json
import shlex
from itertools import combinations

import pytest
import torch
from hydra.core.override_parser.overrides_parser import OverridesParser
from safetensors.torch import save_file
from torch import nn

from andiron import errors
from andiron.plain import wings
from andiron.shell.assembly import components
from andiron.shell.config.schema import Train
from andiron.tasks import Classifier
from andiron.wings.trained import start_from
from refusals import message_of

HEAD = "network.2.weight"


def network(classes=2):
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4), nn.Linear(4, classes))


def starting_from(given):
    """A configuration that starts from weights, its components left out."""
    names = "data", "task", "model", "metrics", "optimizer", "scheduler"
    return Train(lr=1.0, **{name: {} for name in names}, start_from=given)


def loaded(given, facts=(), classes=2):
    """The record of loading the weights that `given` names, and the task."""
    config, task = starting_from(given), Classifier(network(classes))
    files = start_from.weights_of(config)
    return start_from.load(config, files, task, dict(facts)), task


def test_without_the_wing_that_reads_weights_the_option_is_refused(monkeypatch):
    monkeypatch.setattr(wings, "optional", lambda name: None)
    message = message_of(errors.ConfigError, components.build, starting_from("a.safetensors"))
    assert "start_from: is read by andiron/wings/trained, which is missing" in message


def lines_of(message):
    """The options that a message offers."""
    words = [word.rstrip(";") for word in shlex.split(message) if word.startswith("start_from={")]
    return [OverridesParser.create().parse_override(word).value() for word in words]


@pytest.fixture
def folder(tmp_path):
    """A folder with the weights of `network`."""
    save_file(network().state_dict(), tmp_path / "model.safetensors")
    return tmp_path


SETTINGS = {
    "transformers": {"id2label": {"0": "bad", "1": "good"}},
    "transformers, by number": {"id2label": {"1": "good", "0": "bad"}},
    "timm": {"label_names": ["bad", "good"]},
}


@pytest.mark.parametrize("settings", SETTINGS.values(), ids=SETTINGS)
@pytest.mark.parametrize("names", [["good", "bad"], ["bad", "mid"], ["Bad", "Good"]])
def test_a_head_for_classes_of_other_names_is_refused_with_both_lists(settings, names, folder):
    (folder / "config.json").write_text(json.dumps(settings))
    facts = {"class_names": names}
    for given in (str(folder), str(folder / "model.safetensors")):
        said = message_of(errors.ConfigError, loaded, given, facts)
        shown = ", ".join(names)
        assert f"network.2 was trained for 'bad, good', and the data have '{shown}'" in said
        new, taken = lines_of(said)
        assert HEAD in loaded(new, facts)[0]["except"]
        assert HEAD in loaded(taken, facts)[0]["loaded"]


KNOWN = {
    "the same": ({"id2label": {"0": "bad", "1": "good"}}, {"class_names": ["bad", "good"]}, 2),
    "a new head": ({"id2label": {"0": "a", "1": "b"}}, {"class_names": ["x", "y", "z"]}, 3),
    "no names here": ({"id2label": {"0": "a", "1": "b"}}, {}, 2),
    "names of transformers": (
        {"id2label": {"0": "LABEL_0", "1": "LABEL_1"}}, {"class_names": ["a", "b"]}, 2,
    ),
    "another program": ({"id2label": 5}, {"class_names": ["a", "b"]}, 2),
    "a list": ([1], {"class_names": ["a", "b"]}, 2),
}  # fmt: skip


@pytest.mark.parametrize(("settings", "facts", "classes"), KNOWN.values(), ids=KNOWN)
def test_weights_load_where_names_are_the_same_or_on_one_side(settings, facts, classes, folder):
    (folder / "config.json").write_text(json.dumps(settings))
    record, _ = loaded(str(folder), facts, classes)
    assert (HEAD in record["new"]) == (classes == 3)


def spoilt(name, value):
    state = network().state_dict()
    state[name].view(-1)[-1] = value
    return state


BROKEN = {
    "NaN in a weight": ("0.weight", float("nan")), "NaN in a bias": ("2.bias", float("nan")),
    "infinity": ("0.weight", float("inf")), "variance": ("1.running_var", float("inf")),
    "mean": ("1.running_mean", float("-inf")), "NaN in statistics": ("1.running_var", float("nan")),
}  # fmt: skip


@pytest.mark.parametrize("suffix", [".safetensors", ".pth"])
@pytest.mark.parametrize(("name", "value"), BROKEN.values(), ids=BROKEN)
def test_weights_that_are_not_finite_are_refused_by_file_and_tensor(name, value, suffix, tmp_path):
    path = tmp_path / f"weights{suffix}"
    save = save_file if suffix == ".safetensors" else torch.save
    save(spoilt(name, value), path)

    said = message_of(errors.ConfigError, loaded, str(path))
    record, task = loaded(lines_of(said)[0])

    assert f"start_from={path}: NaN or infinite numbers in network.{name}; restore" in said
    assert record["new"] == [f"network.{name}"]
    assert all(tensor.isfinite().all() for tensor in task.state_dict().values())


def test_counters_that_became_floats_are_refused_with_the_line_that_leaves_them_out(tmp_path):
    path = tmp_path / "half.safetensors"
    save_file({name: tensor.half() for name, tensor in network().state_dict().items()}, path)

    record, _ = loaded(lines_of(message_of(errors.ConfigError, loaded, str(path)))[0])

    assert record["new"] == ["network.1.num_batches_tracked"] and len(record["loaded"]) == 8


def test_the_log_names_what_is_left_out_of_a_larger_network(folder, caplog):
    save_file(network().state_dict() | {"3.weight": torch.ones(2)}, folder / "model.safetensors")
    with caplog.at_level("INFO"):
        loaded(str(folder))
    assert "9 tensors; 1 of the file left out: network.3.weight" in caplog.text


def test_the_shard_with_the_broken_tensor_is_named(tmp_path):
    state = spoilt("2.weight", float("nan"))
    for number, name in enumerate(state):
        save_file({name: state[name]}, tmp_path / f"{number}.safetensors")
    weight_map = {name: f"{number}.safetensors" for number, name in enumerate(state)}
    (tmp_path / "model.safetensors.index.json").write_text(json.dumps({"weight_map": weight_map}))

    said = message_of(errors.ConfigError, loaded, str(tmp_path))

    assert f"{tmp_path / weight_map['2.weight']}: NaN or infinite" in said


def test_an_infinite_mask_and_broken_weights_that_are_left_out_are_no_matter(tmp_path):
    state = spoilt("2.weight", float("nan"))
    save_file(state, tmp_path / "a.safetensors")
    assert loaded({"path": str(tmp_path / "a.safetensors"), "except": ["2[.]weight"]})
    mask = nn.Sequential(nn.Linear(3, 2))
    mask.register_buffer("mask", torch.full((2,), float("-inf")))
    start_from._check_finite({}, [], mask, {*mask.state_dict()})


def other(name="0.weight"):
    return spoilt(name, 7.0)


def write(path, state):
    if path.name.endswith(".index.json"):
        shard = path.with_name(f"shard-of-{path.name.partition('.index')[0]}")
        write(shard, state)
        weight_map = dict.fromkeys(state, shard.name)
        path.write_text(json.dumps({"weight_map": weight_map}))
    else:
        (save_file if path.suffix == ".safetensors" else torch.save)(state, path)


FILES = ["model.safetensors", "model.safetensors.index.json", "pytorch_model.bin",
         "pytorch_model.bin.index.json"]  # fmt: skip


@pytest.mark.parametrize(("first", "second"), [*combinations(FILES, 2)])
def test_two_kinds_of_weights_in_a_folder_are_refused_unless_equal(first, second, tmp_path, caplog):
    write(tmp_path / first, network().state_dict())
    write(tmp_path / second, network().state_dict())
    with caplog.at_level("INFO"):
        assert len(loaded(str(tmp_path))[0]["loaded"]) == 9
    same = f"{tmp_path / second}: has the same weights as {tmp_path / first}, and is not read"
    assert same in caplog.text

    write(tmp_path / second, other())
    said = message_of(errors.DataError, loaded, str(tmp_path))
    for name in (first, second):
        assert f"start_from={tmp_path / name} (" in said
        assert loaded(str(tmp_path / name))
    assert loaded(str(tmp_path / second))[1].network[0].weight.max() == 7


@pytest.mark.parametrize("name", ["adapter_model.safetensors", "adapter_model.bin"])
def test_an_adapter_beside_weights_is_refused_with_the_line_for_each(name, folder):
    write(folder / name, {"base_model.model.0.lora_A.weight": torch.ones(2, 3)})

    said = message_of(errors.DataError, loaded, str(folder))

    assert f"start_from={folder}/model.safetensors (" in said
    assert f"start_from={folder / name} (" in said
    merge = message_of(errors.DataError, loaded, str(folder / name))
    assert "merge_and_unload()" in merge
    assert loaded(str(folder / "model.safetensors"))


def test_adapters_without_the_record_of_their_run_are_named(tmp_path):
    plain = network().state_dict()
    state = {name.replace("0.", "0.base_layer."): plain[name] for name in plain}
    state |= {f"0.lora_{part}.own.weight": torch.ones(2, 3) for part in "AB"}
    save_file(state, tmp_path / "a.safetensors")
    for given in (str(tmp_path / "a.safetensors"),
                  {"path": str(tmp_path / "a.safetensors"), "partial": True}):  # fmt: skip
        said = message_of(errors.ConfigError, loaded, given)
        assert "give the folder of the run" in said and "--format safetensors" in said
