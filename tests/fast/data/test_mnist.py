"""MNIST and Fashion-MNIST: the genuine files, and files that are missing or damaged."""

import importlib
import struct
from urllib.error import URLError

import pytest
import torch
from torchvision import datasets

from andiron import data, errors
from refusals import message_of

# the package has a function of the same name
module = importlib.import_module("andiron.data.sources.mnist")
FILES = (
    "train-images-idx3-ubyte", "train-labels-idx1-ubyte", "t10k-images-idx3-ubyte",
    "t10k-labels-idx1-ubyte",
)  # fmt: skip
TRAIN_LABELS, TEST_LABELS = [3, 1, 4, 1, 3, 4, 4], [1, 4, 3]


def idx(array):
    """A tensor of bytes as an IDX file: LeCun's own format, http://yann.lecun.com/exdb/mnist."""
    return (
        struct.pack(f">HBB{array.dim()}I", 0, 8, array.dim(), *array.shape)
        + array.numpy().tobytes()
    )


def images(number):
    return torch.arange(number * 4, dtype=torch.uint8).view(number, 2, 2)


@pytest.fixture
def small(tmp_path, monkeypatch):
    """A root with seven images to train on and three to test, which is then what belongs there."""
    monkeypatch.setattr(module, "SIZES", {True: 7, False: 3})
    contents = (images(7), torch.tensor(TRAIN_LABELS), images(3), torch.tensor(TEST_LABELS))
    for name in ("MNIST", "FashionMNIST"):
        raw = tmp_path / name / "raw"
        raw.mkdir(parents=True)
        for file, content in zip(FILES, contents, strict=True):
            (raw / file).write_bytes(idx(content.to(torch.uint8)))
    return tmp_path


@pytest.fixture
def offline(monkeypatch):
    """Every address tried, none of which answers."""
    tried = []

    def refuse(url, **_):
        tried.append(url)
        raise URLError("no route to host")

    monkeypatch.setattr(datasets.mnist, "download_and_extract_archive", refuse)
    return tried


def load(root, *, valid="test", dataset=data.mnist):
    return dataset(root=str(root), valid=valid, split_seed=0)


def test_the_genuine_files_have_the_known_sizes_and_labels(mnist_root):
    splits = load(mnist_root)
    assert (splits.train.inputs.shape, splits.test.inputs.shape) == (
        (60_000, 1, 28, 28),
        (10_000, 1, 28, 28),
    )
    assert splits.train.targets[:10].tolist() == [5, 0, 4, 1, 9, 2, 1, 3, 1, 4]
    assert splits.test.targets[:10].tolist() == [7, 2, 1, 0, 4, 1, 4, 9, 5, 9]
    assert torch.bincount(splits.train.targets).tolist() == [
        5923, 6742, 5958, 6131, 5842, 5421, 5918, 6265, 5851, 5949,
    ]  # fmt: skip
    assert torch.bincount(splits.test.targets).tolist() == [
        980, 1135, 1032, 1010, 982, 892, 958, 1028, 974, 1009,
    ]  # fmt: skip
    assert splits.valid is splits.test
    assert splits.validates_on_test


def test_mean_and_deviation_are_over_the_training_pixels(mnist_root):
    splits = load(mnist_root)
    pixels = splits.train.inputs.double() / 255
    assert splits.batcher.scale == 255.0
    assert splits.batcher.mean == round(float(pixels.mean()), 4)
    assert splits.batcher.std == round(float(pixels.std()), 4)


def test_a_tenth_of_each_class_of_the_training_images_validates(mnist_root):
    splits = load(mnist_root, valid=0.1)
    assert torch.bincount(splits.valid.targets).tolist() == [
        592, 674, 596, 613, 584, 542, 592, 626, 585, 595,
    ]  # fmt: skip
    assert (len(splits.train), len(splits.valid), len(splits.test)) == (54_001, 5_999, 10_000)
    assert not splits.validates_on_test


@pytest.mark.parametrize("dataset", [data.mnist, data.fashion_mnist])
def test_the_seed_chooses_the_images_that_validate(small, dataset):
    chosen = [
        dataset(root=str(small), valid=0.4, split_seed=seed).valid.inputs[:, 0, 0, 0].tolist()
        for seed in range(4)
    ]
    assert len({*map(tuple, chosen)}) > 1


@pytest.mark.parametrize(
    "name, dataset", [("MNIST", data.mnist), ("FashionMNIST", data.fashion_mnist)]
)
def test_what_is_read_is_what_the_files_hold(small, offline, name, dataset):
    splits = load(small, dataset=dataset)
    assert torch.equal(splits.train.inputs, images(7).unsqueeze(1))
    assert torch.equal(splits.test.inputs, images(3).unsqueeze(1))
    assert splits.train.targets.tolist() == TRAIN_LABELS
    assert splits.test.targets.tolist() == TEST_LABELS
    assert (splits.name, splits.num_classes, splits.input_shape) == (name, 10, (1, 2, 2))
    assert offline == []  # what is there is not downloaded


def test_the_fingerprint_changes_with_any_one_sample(small):
    before = load(small).fingerprint
    assert load(small).fingerprint == before
    assert load(small, valid=0.5).fingerprint == before  # of all samples, however they are split
    labels = torch.tensor([*TEST_LABELS[:-1], 9], dtype=torch.uint8)
    (small / "MNIST" / "raw" / FILES[3]).write_bytes(idx(labels))
    assert load(small).fingerprint != before


@pytest.mark.parametrize(
    "name, dataset", [("MNIST", data.mnist), ("FashionMNIST", data.fashion_mnist)]
)
def test_absent_and_offline_names_the_folder_and_data_without_download(
    tmp_path, offline, name, dataset
):
    with pytest.raises(errors.DataError) as raised:
        load(tmp_path, dataset=dataset)
    message = str(raised.value)
    assert message.startswith(
        f"{name} is not in {tmp_path / name / 'raw'} and could not be downloaded ("
    )
    assert "no route to host" in message
    assert message.endswith(
        "); put its four files there, point ANDIRON_DATA_DIR at the folder that holds it, or use "
        "data=digits, which needs no download"
    )
    # each mirror was tried for the first file
    assert len(offline) == len(getattr(datasets, name).mirrors)


def test_one_absent_file_is_asked_for(small, offline):
    (small / "MNIST" / "raw" / FILES[3]).unlink()
    with pytest.raises(
        errors.DataError, match="^MNIST is not in .*MNIST/raw and could not be downloaded"
    ):
        load(small)
    assert offline


def damage(content, *, how):
    header = 16 if content[3] == 3 else 8
    return {
        "one byte short": content[:-1], "cut in the header": content[: header - 3], "empty": b"",
        "of signed bytes": content[:2] + b"\x09" + content[3:],
        "of no known type": content[:2] + b"\x0a" + content[3:],
        "no IDX file": b"<html>404 not found</html>",
    }[how]  # fmt: skip


@pytest.mark.parametrize("how", [
    "one byte short", "cut in the header", "empty", "of signed bytes", "of no known type",
    "no IDX file",
])  # fmt: skip
@pytest.mark.parametrize("file", FILES)
def test_a_damaged_file_is_refused_by_the_name_of_its_folder(small, offline, file, how):
    folder = small / "MNIST" / "raw"
    (folder / file).write_bytes(damage((folder / file).read_bytes(), how=how))
    message = message_of(errors.DataError, load, small)
    assert message.startswith(f"{folder}: a file there is damaged (")
    assert message.endswith("); remove the folder to download it again")


@pytest.mark.parametrize("file, number, said", [
    (FILES[0], 6, "6 images and 7 labels instead of 7"),
    (FILES[1], 8, "7 images and 8 labels instead of 7"),
    (FILES[2], 4, "4 images and 3 labels instead of 3"),
    (FILES[3], 2, "3 images and 2 labels instead of 3"),
])  # fmt: skip
def test_a_whole_file_of_the_wrong_length_is_refused(small, file, number, said):
    folder = small / "MNIST" / "raw"
    content = images(number) if "images" in file else torch.ones(number, dtype=torch.uint8)
    (folder / file).write_bytes(idx(content))
    with pytest.raises(errors.DataError) as raised:
        load(small)
    assert str(raised.value) == f"{folder}: {said} of each; remove the folder to download it again"
