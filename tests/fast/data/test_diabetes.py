"""The diabetes that comes with the package: the file, its parts, and what happens when it is not as
shipped.
"""

import importlib
import json

import pytest
import torch

from andiron import serialization

# the package has a function of the same name
module = importlib.import_module("andiron.data.sources.diabetes")
diabetes = module.diabetes


def shipped():
    return serialization.load_tensors(module.FILE)


def rows(*datasets):
    return sorted(
        (*inputs.tolist(), *targets.tolist())
        for part in datasets
        for inputs, targets in zip(part.inputs, part.targets)
    )


def test_the_numbers_are_scikit_learns_unscaled():
    bundle = pytest.importorskip("sklearn.datasets").load_diabetes(scaled=False)
    assert torch.equal(shipped()["inputs"], torch.from_numpy(bundle.data).float())
    assert torch.equal(shipped()["targets"][:, 0], torch.from_numpy(bundle.target).float())
    assert list(module.COLUMNS) == bundle.feature_names


def test_the_same_patients_are_held_out_however_the_rest_is_split():
    one, other, all_ = (
        diabetes(valid=valid, split_seed=seed) for valid, seed in ((0.1, 0), (0.3, 1), ("test", 0))
    )
    assert rows(one.test) == rows(other.test) == rows(all_.test) == rows(all_.valid)
    assert rows(all_.train) == rows(one.train, one.valid)
    assert rows(one.valid) != rows(diabetes(valid=0.1, split_seed=1).valid)
    assert [splits.validates_on_test for splits in (one, other, all_)] == [False, False, True]


def test_what_is_trained_on_has_mean_0_and_deviation_1_after_the_batcher():
    splits = diabetes(valid=0.1, split_seed=3)
    inputs = splits.batcher(
        splits.train.__getitems__(range(319)), torch.device("cpu")
    ).inputs.double()
    # float32 stores 13 to 301 with a relative error of 2**-24, and the deviations are at least 0.5
    torch.testing.assert_close(
        inputs.mean(0), torch.zeros(10, dtype=torch.float64), rtol=0, atol=1e-5
    )
    torch.testing.assert_close(
        inputs.std(0, correction=0), torch.ones(10, dtype=torch.float64), rtol=0, atol=1e-5
    )


def test_targets_keep_their_unit_and_facts_have_mean_and_deviation():
    splits = diabetes(valid=0.1, split_seed=0)
    targets = splits.train.targets.double()
    assert targets.shape == (319, 1)
    assert (float(shipped()["targets"].min()), float(shipped()["targets"].max())) == (25.0, 346.0)
    # sums in another order
    assert splits.facts["target_mean"] == pytest.approx([float(targets.mean())], rel=1e-12)
    assert splits.facts["target_std"] == pytest.approx(
        [float(targets.std(correction=0))], rel=1e-12
    )


def test_the_splits_say_what_they_are():
    splits = diabetes(valid=0.1, split_seed=0)
    assert (splits.name, splits.input_shape, splits.fingerprint) == (
        "diabetes", (10,), module.SHA256,
    )  # fmt: skip
    assert splits.offered["num_outputs"] == 1
    assert splits.facts["columns"] == [
        "age", "sex", "bmi", "bp", "s1", "s2", "s3", "s4", "s5", "s6",
    ]  # fmt: skip
    assert (tuple(splits.facts["mean"]), tuple(splits.facts["std"])) == (
        splits.batcher.mean, splits.batcher.std,
    )  # fmt: skip
    assert json.loads(json.dumps(splits.facts))["target_columns"] == ["progression"]
