"""A column of a table as the weights of samples."""

import pytest
import torch

from andiron import errors
from andiron.data import DataLoader, kfold, partial
from andiron.data.on_disk.csv_file import csv


def write(path, weights, delimiter=","):
    rows = [delimiter.join([str(row), str(row % 3), weight]) for row, weight in enumerate(weights)]
    path.write_text("\n".join([delimiter.join(["x", "kind", "count"]), *rows]) + "\n")
    return str(path)


def load(path, **options):
    given = {"target": "kind", "weight": "count", "valid": 0.2, "split_seed": 0, **options}
    return csv(path=path, **given)


def test_weights_follow_the_rows_with_mean_1_and_are_no_feature(tmp_path):
    weights = [str(1 + row % 5) for row in range(60)]  # their mean is 3
    path = write(tmp_path / "table.csv", weights)
    splits = load(path)
    assert splits.facts["columns"] == ["x"]
    for whole in (splits, partial(splits, fraction=0.5, seed=0),
                  kfold(splits, fold=0, num_folds=3, split_seed=0)):  # fmt: skip
        loader = DataLoader(whole.train, whole.batcher, batch_size=7, shuffle_seed=1)
        for batch in loader.epoch(0):
            (mean,), (std,) = whole.batcher.mean, whole.batcher.std
            expected = (1 + (batch.inputs[:, 0] * std + mean).round() % 5) / 3
            assert torch.equal(batch.weights, expected)
    commas = write(tmp_path / "commas.csv", [f"{weight},0" for weight in weights], ";")
    assert torch.equal(load(commas, decimal=",").train.weights, splits.train.weights)


@pytest.mark.parametrize("wrong", ["0", "-1", "", "many", "inf", "1e99"])
def test_a_weight_that_is_not_positive_is_refused_by_its_line(tmp_path, wrong):
    path = write(tmp_path / "table.csv", ["1"] * 30 + [wrong] + ["2"] * 29)
    with pytest.raises(errors.DataError) as raised:
        load(path)
    line = 2 if wrong == "1e99" else 32  # beside it, all others vanish in float32
    assert f"{path}, line {line}, column 'count': " in str(raised.value)
    is_number = wrong in ("0", "-1", "1e99")
    assert ("is not a weight, a number greater than 0" in str(raised.value)) == is_number


def test_a_weight_column_that_is_used_otherwise_is_refused(tmp_path):
    path = write(tmp_path / "table.csv", ["1"] * 60)
    with pytest.raises(errors.DataError, match="column 'kind' is named twice"):
        load(path, weight="kind")
    with pytest.raises(errors.DataError, match="column 'x' is named twice"):
        load(path, weight="x", features=["x"])
    with pytest.raises(errors.DataError, match="has no column 'counts'; did you mean 'count'"):
        load(path, weight="counts")
