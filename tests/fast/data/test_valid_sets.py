"""Further validation sets, read as the training data."""

import dataclasses
from functools import partial

import pytest
import torch
from PIL import Image
from safetensors.torch import save_file
from torch.utils.data import TensorDataset

from andiron import data, errors
from andiron.data import csv, digits
from andiron.data.composed.derived_splits import few
from andiron.data.on_disk import csv_file
from andiron.shell.config import schema

DAY = "area,town,kind\n" + "".join(
    f"{row % 7},{'Bonn' if row % 2 else 'Rome'},{'ab'[row % 2]}\n" for row in range(40)
)
NIGHT = "kind,town,area\nb,Rome,1\na,Oslo,\nb,Bonn,3\n"


@pytest.fixture
def read(tmp_path):
    def read(night=NIGHT, **options):
        for name, text in (("day", DAY), ("night", night)):
            (tmp_path / f"{name}.csv").write_text(text)
        paths = {"night": str(tmp_path / "night.csv")}
        options = {"target": "kind", "missing": "mean", "valid_sets": paths} | options
        return csv(path=str(tmp_path / "day.csv"), valid=0.2, split_seed=0, **options)

    return read


def test_a_further_set_is_encoded_as_the_training_rows(read):
    splits = read()
    fill = splits.facts["encoding"]["columns"][0]["fill"]
    expected = [[1, 0, 1], [fill, 0, 0], [3, 1, 0]]  # area, Bonn, Rome; Oslo is unknown
    assert torch.equal(splits.more["night"].inputs, torch.tensor(expected))
    assert splits.more["night"].targets.tolist() == [1, 0, 1]


def test_a_further_set_changes_nothing_else(read):
    splits, alone = read(), read(valid_sets=None)
    assert splits.facts == alone.facts and splits.fingerprint == alone.fingerprint
    assert torch.equal(splits.train.inputs, alone.train.inputs)
    assert list(splits.more_fingerprints) == ["night"] and not alone.more


def test_numbers_to_predict_keep_their_unit(read):
    splits = read("area,town,kind\n1,Rome,b\n2.5,Oslo,a\n", target="area", kind="regression")
    assert splits.more["night"].targets.tolist() == [[1.0], [2.5]]


@pytest.mark.parametrize(("night", "message"), [
    ("area,town,kind\n1,Rome,b\n2,Oslo,c\n",
     "night.csv, line 3, column 'kind': 'c' is not a class of the training data"),
    ("area,kind\n1,b\n", "has no column 'town'"),
    ("area,town,kind\nmany,Rome,b\n", "line 2, column 'area': 'many' is not a finite number"),
])  # fmt: skip
def test_an_unfit_further_set_is_refused_by_its_place(read, night, message):
    with pytest.raises(errors.DataError, match=message):
        read(night)


def test_the_remedies_of_another_file_are_options_that_change_how_it_is_read(read):
    with pytest.raises(errors.DataError) as raised:
        read("area,town,kind\nmany,Rome,b\n2,Rome,\n,Rome,a\n1,Rome,a\n", missing="refuse")
    remedies = "correct or remove them, or set data.missing=drop, or skip them with data.max_bad_li"
    assert remedies in str(raised.value)


def test_another_file_may_be_written_otherwise(read, tmp_path):
    path = tmp_path / "other.csv"
    path.write_text("area;town;kind\n1.234,5;Rome;b\n-;Bonn;a\n")
    options = {"decimal": ",", "thousands": ".", "missing_values": ["-"], "missing": "drop"}
    table = csv_file.read_as(path, read().facts, ["kind"], options)
    assert table.column("area").to_list() == [1234.5] and table.record == {"dropped_rows": 1}


def test_an_index_is_named_only_where_columns_are_chosen_by_default(read, caplog):
    read(",area,town,kind\n0,1,Rome,b\n1,2,Rome,a\n")
    assert "no feature" not in caplog.text


@pytest.mark.parametrize("name", ["train", "all", "valid-ema", "a b", "", "7"])
def test_names_of_sets_are_checked(name):
    splits = digits(valid=0.1, split_seed=0)
    with pytest.raises(errors.DataError, match="should be a name of up to 64 letters"):
        dataclasses.replace(splits, more={name: splits.test})
    node = {"_target_": "andiron.data.csv", "path": "a.csv", "target": "b", "valid": 0.1,
            "split_seed": 0, "valid_sets": {name: "c.csv"}}  # fmt: skip
    assert "letters, digits and _" in schema.problems({"data": node})["data.valid_sets"]


def test_few_samples_of_a_further_set(read):
    assert [len(part) for part in few(read(), 2).by_name.values()] == [2, 2, 2, 2]


def test_paths_of_further_sets_become_absolute(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    node = {"path": "day.csv", "valid_sets": {"night": "night.csv", "far": "/data/far.csv"}}
    absolute = schema._absolute(node)["valid_sets"]
    assert absolute == {"night": str(tmp_path / "night.csv"), "far": "/data/far.csv"}


def images(folder, counts):
    for name, count in counts.items():
        (folder / name).mkdir(parents=True)
        for number in range(count):
            colour = (40 * number, 100, 200)
            Image.new("RGB", (6, 6), colour).save(folder / name / f"{number}.png")


@pytest.mark.parametrize("decoded", ["workers", "once"])
def test_images_of_a_set_have_the_training_classes(tmp_path, decoded):
    images(tmp_path / "day", {"cat": 4, "dog": 4, "owl": 4})
    images(tmp_path / "night", {"owl": 2, "cat": 1})
    paths = {"night": str(tmp_path / "night")}
    options = {"size": 4, "valid": 0.25, "test": 0.25, "split_seed": 0, "decoded": decoded}
    splits = data.image_folder(path=str(tmp_path / "day"), valid_sets=paths, **options)
    inputs, targets = splits.more["night"].__getitems__([0, 1, 2])
    assert targets.tolist() == [0, 2, 2] and inputs.shape == (3, 3, 4, 4)
    images(tmp_path / "night", {"fox": 1})
    with pytest.raises(errors.DataError, match="night/fox: the training data have no such class"):
        data.image_folder(path=str(tmp_path / "day"), valid_sets=paths, **options)


@pytest.mark.parametrize("in_memory", [True, False])
def test_arrays_of_a_set_are_like_the_training_arrays(tmp_path, in_memory):
    def save(name, inputs, targets):
        save_file({"inputs": inputs, "targets": targets}, tmp_path / f"{name}.safetensors")
        return str(tmp_path / f"{name}.safetensors")

    day = save("day", torch.rand(20, 3), torch.arange(20) % 4)
    night = save("night", torch.ones(2, 3), torch.tensor([1, 1]))
    read = partial(
        data.safetensors, path=day, valid=0.2, test=0.2, split_seed=0, in_memory=in_memory
    )
    inputs, targets = read(valid_sets={"night": night}).more["night"].__getitems__([0, 1])
    assert torch.equal(inputs, torch.ones(2, 3)) and targets.tolist() == [1, 1]
    for wrong, message in {
        save("wide", torch.ones(2, 4), torch.tensor([1, 1])): r"a row of 'inputs' is \[4\]",
        save("other", torch.ones(2, 3), torch.tensor([1, 4])): "'targets' has the class 4, and",
    }.items():
        with pytest.raises(errors.DataError, match=message):
            read(valid_sets={"night": wrong})


@pytest.mark.parametrize("level", ["bytes", "characters"])
def test_a_text_of_a_set_has_the_training_tokens(tmp_path, level):
    (tmp_path / "day.txt").write_text("abcde " * 20)
    (tmp_path / "night.txt").write_text("ebb ebb")
    paths = {"night": str(tmp_path / "night.txt")}
    options = {"context_length": 3, "level": level, "valid": 0.2}
    splits = data.text(path=str(tmp_path / "day.txt"), valid_sets=paths, **options)
    known = splits.facts["vocabulary"] or [chr(code) for code in range(256)]
    inputs, targets = splits.more["night"].__getitems__([0])
    assert "".join(known[token] for token in inputs[0]) == "ebb"
    assert "".join(known[token] for token in targets[0]) == "bb "
    (tmp_path / "night.txt").write_text("ebbx")
    if level == "characters":
        with pytest.raises(errors.DataError, match="has 1 characters that the training text lacks"):
            data.text(path=str(tmp_path / "day.txt"), valid_sets=paths, **options)
    (tmp_path / "night.txt").write_text("ebb")
    with pytest.raises(errors.DataError, match="has 3 tokens, where data.context_length=3 takes 4"):
        data.text(path=str(tmp_path / "day.txt"), valid_sets=paths, **options)


def test_a_torch_data_set_is_a_further_set(tmp_path):
    train, night = (TensorDataset(torch.rand(n, 3), torch.rand(n, 1)) for n in (20, 4))
    splits = data.torch_dataset(train=train, valid_sets={"night": night})
    inputs, _ = splits.more["night"].__getitems__([1, 3])
    assert torch.equal(inputs, night.tensors[0][[1, 3]])
    node = {"_target_": "torch.utils.data.TensorDataset"}
    composed = {"_target_": "andiron.data.torch_dataset", "train": node}
    assert "data.valid_sets" in schema.problems({"data": composed | {"valid_sets": {"night": 3}}})
