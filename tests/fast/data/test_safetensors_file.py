"""Arrays of a safetensors file as a data set: in memory and from the file alike."""

import hashlib
import json

import pytest
import torch
from safetensors.torch import save_file

from andiron import errors
from andiron.data import ArrayDataset, DataLoader
from andiron.data.on_disk import safetensors_arrays
from andiron.data.batchers import ArrayBatcher
from andiron.data.on_disk.safetensors_arrays import safetensors
from andiron.data.on_disk.stored import StoredDataset
from refusals import message_of

CPU = torch.device("cpu")
GENERATOR = torch.Generator().manual_seed(0)
IMAGES = torch.randint(256, (43, 3, 4, 5), dtype=torch.uint8, generator=GENERATOR)
FLOATS = torch.randn(43, 7, generator=GENERATOR)
CLASSES = torch.arange(43) * 5 % 4
NUMBERS = torch.randn(43, 2, generator=GENERATOR, dtype=torch.float64) * 30 + 100


@pytest.fixture
def file(tmp_path):
    """Writes arrays and gives their file's path."""

    def write(**arrays):
        save_file(
            {name: array.contiguous() for name, array in arrays.items()}, tmp_path / "x.safetensors"
        )
        return str(tmp_path / "x.safetensors")

    return write


def load(path, **options):
    return safetensors(**{"path": path, "valid": 0.2, "split_seed": 0, **options})


def refused(path, **options):
    return message_of(errors.DataError, load, path, **options).replace(path, "FILE")


def parts(splits):
    return splits.train, splits.valid, splits.test


def content(splits):
    """Inputs and targets of the three parts, one behind the other."""
    batches = [part.__getitems__(range(len(part))) for part in parts(splits)]
    return [torch.cat(value) for value in zip(*batches, strict=True)]


@pytest.mark.parametrize("in_memory", [True, False])
@pytest.mark.parametrize(
    "inputs, targets",
    [
        (IMAGES, CLASSES), (FLOATS, CLASSES.to(torch.uint8)), (FLOATS.double(), NUMBERS),
        (IMAGES.int(), CLASSES > 1), (FLOATS.half(), NUMBERS.float()[:, 0]),
    ],
    ids=["images", "bytes as classes", "doubles", "integers, two classes", "halves, one number"],
)  # fmt: skip
def test_the_parts_are_disjoint_and_make_up_the_arrays(file, in_memory, inputs, targets):
    splits = load(file(inputs=inputs, targets=targets), in_memory=in_memory)
    found_inputs, found_targets = content(splits)
    expected = {
        row.numpy().tobytes(): target
        for row, target in zip(inputs.to(found_inputs.dtype), targets.float().tolist())
    }
    assert len(expected) == 43
    result = {
        row.numpy().tobytes(): t
        for row, t in zip(found_inputs, found_targets.float().view(targets.shape).tolist())
    }
    assert result == expected
    assert [type(part) for part in parts(splits)] == [
        ArrayDataset if in_memory else StoredDataset
    ] * 3


@pytest.mark.parametrize(
    "targets", [CLASSES, NUMBERS, NUMBERS[:, :1] > 100], ids=["classes", "numbers", "labels"]
)
@pytest.mark.parametrize(
    "inputs", [IMAGES, FLOATS, FLOATS.double()], ids=["images", "floats", "doubles"]
)
def test_in_memory_and_from_the_file_the_batches_and_all_else_are_the_same(file, inputs, targets):
    path = file(inputs=inputs, targets=targets)
    one, other = load(path, in_memory=True), load(path, in_memory=False)
    assert (one.facts, one.fingerprint, one.batcher) == (
        other.facts, other.fingerprint, other.batcher,
    )  # fmt: skip
    for mine, theirs in zip(parts(one), parts(other), strict=True):
        loaders = [
            DataLoader(part, one.batcher, batch_size=5, shuffle_seed=1) for part in (mine, theirs)
        ]
        for batches in zip(*(loader.epoch(2) for loader in loaders), strict=True):
            assert all(map(torch.equal, *batches))


def test_auto_is_in_memory_below_the_bound(file, monkeypatch):
    # of the two arrays alone
    path = file(inputs=IMAGES, targets=CLASSES, others=torch.zeros(10_000))
    size = IMAGES.nbytes + CLASSES.nbytes
    monkeypatch.setattr(safetensors_arrays, "IN_MEMORY_BYTES", size + 1)
    assert isinstance(load(path).train, ArrayDataset)
    monkeypatch.setattr(safetensors_arrays, "IN_MEMORY_BYTES", size)
    assert isinstance(load(path).train, StoredDataset)


def test_the_seed_chooses_what_validates_and_not_what_is_tested(file):
    path = file(inputs=IMAGES, targets=CLASSES)
    one, other = (parts(load(path, split_seed=seed)) for seed in (0, 1))
    are_equal = [torch.equal(part.inputs, its.inputs) for part, its in zip(one, other)]
    assert are_equal == [False, False, True]


def test_classes_have_a_share_in_every_part_and_targets_become_int64(file):
    splits = load(file(inputs=IMAGES, targets=CLASSES.to(torch.uint8)))
    assert (splits.facts, splits.offered["num_outputs"]) == (
        {"input_shape": (3, 4, 5), "num_classes": 4}, 4,
    )  # fmt: skip
    # of 11, 11, 11 and 10: a tenth, then a fifth of the rest
    assert [torch.bincount(part.targets).tolist() for part in parts(splits)] == [
        [8, 8, 8, 7], [2, 2, 2, 2], [1, 1, 1, 1],
    ]  # fmt: skip
    assert splits.batcher(splits.test.__getitems__([0]), CPU).targets.dtype == torch.int64


def test_numbers_to_predict_have_mean_and_deviation_of_training_targets(file, monkeypatch):
    monkeypatch.setattr(safetensors_arrays, "ROWS_AT_ONCE", 10)
    splits = load(file(inputs=FLOATS, targets=NUMBERS), in_memory=False)
    train = splits.train.targets.read(splits.train.indices)
    assert splits.facts["num_outputs"] == 2
    # sums in another order
    assert splits.facts["target_mean"] == pytest.approx(train.mean(0).tolist(), rel=1e-12)
    assert splits.facts["target_std"] == pytest.approx(
        train.std(0, correction=0).tolist(), rel=1e-12
    )
    assert json.loads(json.dumps(splits.facts))["input_shape"] == [7]


def test_doubles_that_float32_makes_one_number_are_named(file, caplog):
    seconds = 1.7e9 + torch.arange(43.0, dtype=torch.float64)[:, None]
    load(file(inputs=seconds, targets=CLASSES))
    assert "column 'inputs[:, 0]' varies by 12.4 around 1700000021, and float32 " in caplog.text
    load(file(inputs=FLOATS.double(), targets=seconds))
    assert "column 'targets[:, 0]' varies by 12.4 " in caplog.text and len(caplog.records) == 2


def test_one_number_a_sample_is_a_column(file):
    splits = load(file(inputs=FLOATS, targets=NUMBERS[:, 0].float()))
    assert splits.facts["num_outputs"] == 1
    assert splits.train.targets.shape == (len(splits.train), 1)


def test_booleans_are_labels_of_which_several_may_hold(file):
    splits = load(file(inputs=FLOATS, targets=NUMBERS > 100))
    assert splits.offered == {"input_shape": (7,), "num_outputs": 2}


def test_classes_of_every_position_may_be_ignored(file):
    targets = torch.arange(43 * 6).view(43, 6) % 9
    targets[5, 3] = -100
    assert load(file(inputs=FLOATS, targets=targets)).facts == {
        "input_shape": (7,), "num_classes": 9,
    }  # fmt: skip


def test_arrays_may_have_other_names(file):
    path = file(images=IMAGES, labels=CLASSES, targets=NUMBERS)
    splits = load(path, inputs="images", targets="labels")
    assert (splits.input_shape, splits.num_classes, splits.name) == ((3, 4, 5), 4, "x.safetensors")
    with open(path, "rb") as written:
        assert splits.fingerprint == hashlib.sha256(written.read()).hexdigest()


def test_bytes_are_scaled_and_floats_pass(file):
    assert load(file(inputs=IMAGES, targets=CLASSES)).batcher == ArrayBatcher((0.0,), (255.0,))
    assert load(file(inputs=FLOATS, targets=CLASSES)).batcher == ArrayBatcher((0.0,), (1.0,))
    splits = load(file(inputs=IMAGES, targets=CLASSES))
    raw = splits.train.__getitems__([3, 1])
    assert torch.equal(splits.batcher(raw, CPU).inputs, raw.inputs / 255)


def test_mean_and_deviation_are_in_the_unit_of_what_the_network_takes(file):
    path = file(inputs=IMAGES, targets=CLASSES)
    assert load(path, mean=0.5, std=0.25).batcher == ArrayBatcher((127.5,), (63.75,))
    batcher = load(path, mean=[0.5, 0.25, 0.0], std=[1, 0.5, 0.25]).batcher
    raw = load(path).train.__getitems__([3, 1])
    expected = (raw.inputs / 255 - torch.tensor([0.5, 0.25, 0.0])[:, None, None]) / torch.tensor(
        [1, 0.5, 0.25]
    )[:, None, None]
    # values up to 4 with three roundings each to float32, 2**-24 relative
    torch.testing.assert_close(batcher(raw, CPU).inputs, expected, rtol=0, atol=4 * 3 * 2**-24)
    assert load(file(inputs=FLOATS, targets=CLASSES), mean=0.5, std=2).batcher == ArrayBatcher(
        (0.5,), (2.0,)
    )


@pytest.mark.parametrize("options, said", [
    ({"mean": [0.5, 0.5]},
     "data.mean=[0.5, 0.5]: has 2 numbers where a sample of 'inputs' has 3 channels; give one, "
     "or one for each"),
    ({"std": [1, 1, 1, 1]},
     "data.std=[1, 1, 1, 1]: has 4 numbers where a sample of 'inputs' has 3 channels; give one, "
     "or one for each"),
    ({"inputs": "input"},
     "data.inputs=input: FILE has no such array; did you mean 'inputs'?; its arrays are: inputs "
     "[43, 3, 4, 5], targets [43]"),
    ({"targets": "y"},
     "data.targets=y: FILE has no such array; its arrays are: inputs [43, 3, 4, 5], targets [43]"),
    ({"test": 0.01},
     "data.test=0.01: divides 43 samples into 43 and 0; choose a fraction that leaves samples on "
     "both sides"),
])  # fmt: skip
def test_options_that_do_not_fit_the_file_are_refused(file, options, said):
    assert refused(file(inputs=IMAGES, targets=CLASSES), **options) == said


def test_mean_of_integers_is_refused(file):
    assert refused(file(inputs=IMAGES.int(), targets=CLASSES), mean=1.0) == (
        "data.mean and data.std are for floats and bytes, and 'inputs' is torch.int32; leave them "
        "null"
    )


def changed(array, index, value):
    array = array.clone()
    array[index] = value
    return array


@pytest.mark.parametrize("inputs, targets, said", [
    (IMAGES, CLASSES[:42], "'inputs' has 43 rows and 'targets' 42; each input needs one target"),
    (IMAGES[:0], CLASSES[:0], "'inputs' of shape [0, 3, 4, 5] has no rows to learn from"),
    (torch.zeros(43, 0), CLASSES, "'inputs' of shape [43, 0] has no rows to learn from"),
    (torch.tensor(3.0), CLASSES, "'inputs' of shape [] has no rows to learn from"),
    (IMAGES, changed(CLASSES, 17, -1),
     "'targets' has the class -1 in row 17, counted from 0; classes are numbered from 0 on: "
     "renumber them"),
    (IMAGES, changed(CLASSES, 17, -100),
     "'targets' has the class -100 in row 17, counted from 0; classes are numbered from 0 on: "
     "renumber them"),
    (IMAGES,
     changed(CLASSES.view(43, 1).expand(43, 3), (17, 2), -2),
     "'targets' has the class -2 in row 17, counted from 0; classes are numbered from 0 on: "
     "renumber them"),
    (IMAGES, CLASSES + 2**20,
     "the largest class in 'targets' is 1048579; it should be from 1 to 1048575, as classes are "
     "counted from 0: store numbers to predict as floats"),
    (IMAGES, CLASSES * 0,
     "the largest class in 'targets' is 0; it should be from 1 to 1048575, as classes are "
     "counted from 0: store numbers to predict as floats"),
    (IMAGES, changed(NUMBERS, (9, 1), torch.nan),
     "'targets' has a NaN or infinity in row 9, counted from 0; correct it, or leave it out"),
])  # fmt: skip
@pytest.mark.parametrize("in_memory", [True, False])
def test_arrays_that_make_no_data_set_are_refused(file, in_memory, inputs, targets, said):
    assert refused(file(inputs=inputs, targets=targets), in_memory=in_memory) == f"FILE: {said}"


@pytest.mark.parametrize("value", [torch.nan, -torch.inf])
def test_a_non_finite_feature_is_reported_at_loading_or_by_its_batch(file, value):
    path = file(inputs=changed(FLOATS, (30, 2), value), targets=NUMBERS)
    said = (
        "FILE: 'inputs' has a NaN or infinity in row 30, counted from 0; correct it, or leave it "
        "out"
    )
    assert refused(path) == said
    splits = load(path, in_memory=False)
    with pytest.raises(errors.DataError) as raised:
        for part in parts(splits):
            list(DataLoader(part, splits.batcher, batch_size=5).epoch(0))
    assert str(raised.value).replace(path, "FILE") == said


@pytest.mark.parametrize("in_memory", [True, False])
def test_pictures_of_sixteen_bits_are_floats_and_other_integers_are_tokens(tmp_path, in_memory):
    numbers = torch.arange(40 * 12).view(40, 3, 2, 2) * 136
    tensors = {"inputs": numbers.to(torch.uint16), "targets": torch.arange(40) % 2}
    options = {"valid": 0.2, "split_seed": 0, "in_memory": in_memory}

    def inputs(name, **more):
        save_file(tensors, tmp_path / name)
        splits = safetensors(path=str(tmp_path / name), **options, **more)
        raw = splits.train.__getitems__(range(len(splits.train)))
        return raw.inputs, splits.batcher(raw, torch.device("cpu")).inputs

    stored, actual = inputs("plain.safetensors")
    assert torch.equal(actual, stored.float() / 65535)
    stored, actual = inputs("units.safetensors", mean=0.5, std=[0.1, 0.2, 0.4])
    std = torch.tensor([0.1, 0.2, 0.4]).view(3, 1, 1)
    assert torch.allclose(actual, (stored / 65535 - 0.5) / std, atol=1e-5)
    tensors["inputs"] = tensors["inputs"].flatten(1)
    stored, actual = inputs("tokens.safetensors")
    assert actual.dtype == torch.int64 and torch.equal(actual, stored.long())
