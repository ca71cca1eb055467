"""Further validation sets, read as the training data."""

import dataclasses

import pytest
import torch

from andiron import errors
from andiron.config import schema
from andiron.data import csv, digits
from andiron.data.composed.derived_splits import few

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


@pytest.mark.parametrize(
    ("night", "message"),
    [
        ("area,town,kind\n1,Rome,b\n2,Oslo,c\n",
         "night.csv, line 3, column 'kind': 'c' is not a class of the training data"),
        ("area,kind\n1,b\n", "has no column 'town'"),
        ("area,town,kind\nmany,Rome,b\n", "line 2, column 'area': 'many' is not a number"),
    ],
)  # fmt: skip
def test_an_unfit_further_set_is_refused_by_its_place(read, night, message):
    with pytest.raises(errors.DataError, match=message):
        read(night)


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
