"""CIFAR-10 and CIFAR-100: files as their authors laid them out, archives, and what is missing or
damaged.
"""

import dataclasses
import hashlib
import importlib
import pickle
import tarfile
from urllib.error import URLError

import pytest
import torch
from torchvision.datasets import utils

from andiron import errors
from andiron.wings.runs import check
from in_process import called
from refusals import message_of

module = importlib.import_module("andiron_lab.data.cifar")  # by its name, for monkeypatching
PUBLISHED = module.CIFAR10, module.CIFAR100
PER_FILE, TEST = 6, 5  # images
NAMES10 = ["airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck"]


def images(number, seed):
    return torch.randint(
        256, (number, 3, 32, 32), dtype=torch.uint8, generator=torch.Generator().manual_seed(seed)
    )


def rows(pixels, labels, superclasses=None):
    """Images as the archives hold them: labels, then all of red, of green, of blue, each row by
    row.
    """
    content = b""
    for number, (image, label) in enumerate(zip(pixels, labels, strict=True)):
        content += bytes([label]) if superclasses is None else bytes([superclasses[number], label])
        content += b"".join(image[channel].numpy().tobytes() for channel in range(3))
    return content


LABELS10 = [[(at + 3 * number) % 10 for at in range(PER_FILE)] for number in range(5)]
TEST_LABELS = [9, 0, 3, 3, 7]
LABELS100 = [(at * 7) % 100 for at in range(5 * PER_FILE)]


def contents(name):
    """The files of the archive by name, with the images that are in them."""
    if name == "cifar10":
        files = {
            f"data_batch_{n + 1}.bin": rows(images(PER_FILE, n), LABELS10[n]) for n in range(5)
        }
        files |= {
            "test_batch.bin": rows(images(TEST, 9), TEST_LABELS),
            "batches.meta.txt": "\n".join(NAMES10) + "\n\n",
        }
        return files, torch.cat([images(PER_FILE, n) for n in range(5)]), sum(LABELS10, [])
    everything = torch.cat([images(PER_FILE, n) for n in range(5)])
    files = {
        "train.bin": rows(everything, LABELS100, superclasses=[at % 20 for at in range(30)]),
        "test.bin": rows(images(TEST, 9), TEST_LABELS, superclasses=[19] * TEST),
        "fine_label_names.txt": "".join(f"class_{n}\n" for n in range(100)),
        "coarse_label_names.txt": "".join(f"super_{n}\n" for n in range(20)),
    }
    return files, everything, LABELS100


FOLDERS = {"cifar10": "cifar-10-batches-bin", "cifar100": "cifar-100-binary"}
BOTH = pytest.mark.parametrize("name", FOLDERS)


def write(folder, name):
    folder.mkdir(parents=True)
    for file, content in contents(name)[0].items():
        (folder / file).write_bytes(content if isinstance(content, bytes) else content.encode())
    return folder


@pytest.fixture(autouse=True)
def small(monkeypatch):
    """Thirty images to train on and five to test are then what belongs there."""
    for constant in ("CIFAR10", "CIFAR100"):
        archive = getattr(module, constant)
        train = dict.fromkeys(archive.train, 5 * PER_FILE // len(archive.train))
        test = dict.fromkeys(archive.test, TEST)
        monkeypatch.setattr(module, constant, dataclasses.replace(archive, train=train, test=test))


@pytest.fixture
def offline(monkeypatch):
    """Every address tried, none of which answers."""
    tried = []

    def refuse(url, *_, **__):
        tried.append(url)
        raise URLError("no route to host")

    monkeypatch.setattr(utils, "_get_redirect_url", refuse)
    return tried


def load(root, name, *, valid="test"):
    return getattr(module, name)(root=str(root), valid=valid, split_seed=0)


@BOTH
def test_what_is_read_is_what_the_files_hold(tmp_path, offline, name):
    write(tmp_path / FOLDERS[name], name)
    splits = load(tmp_path, name)
    _, pixels, labels = contents(name)
    assert torch.equal(splits.train.inputs, pixels)
    assert splits.train.targets.tolist() == labels
    assert torch.equal(splits.test.inputs, images(TEST, 9))
    assert splits.test.targets.tolist() == TEST_LABELS
    assert splits.valid is splits.test
    assert splits.validates_on_test
    assert (splits.train.inputs.dtype, splits.train.targets.dtype) == (torch.uint8, torch.int64)
    assert offline == []  # what is there is not downloaded


@BOTH
def test_the_facts_tell_shape_and_classes_by_name(tmp_path, name):
    write(tmp_path / FOLDERS[name], name)
    splits = load(tmp_path, name)
    assert splits.name == name.upper()
    assert splits.input_shape == (3, 32, 32)
    names = NAMES10 if name == "cifar10" else [f"class_{n}" for n in range(100)]
    assert (splits.num_classes, splits.facts["class_names"]) == (len(names), names)


def test_a_fraction_of_each_class_validates(tmp_path):
    write(tmp_path / FOLDERS["cifar10"], "cifar10")
    splits = load(tmp_path, "cifar10", valid=0.5)
    everything = torch.tensor(sum(LABELS10, []))
    assert len(splits.train) + len(splits.valid) == 30
    assert len(splits.valid) == 15
    shares = torch.bincount(everything) / 2
    assert ((torch.bincount(splits.valid.targets, minlength=10) - shares).abs() < 1).all()
    assert not splits.validates_on_test


@BOTH
def test_the_fingerprint_changes_with_any_one_sample(tmp_path, name):
    folder = write(tmp_path / FOLDERS[name], name)
    before = load(tmp_path, name).fingerprint
    # one image a class is not split
    assert name == "cifar100" or load(tmp_path, name, valid=0.5).fingerprint == before
    for file in folder.glob("t*.bin"):  # train.bin, test.bin, test_batch.bin
        content = bytearray(file.read_bytes())
        content[-1] ^= 1
        file.write_bytes(content)
        after = load(tmp_path, name).fingerprint
        assert after != before
        before = after


@BOTH
def test_an_archive_that_is_there_is_checked_unpacked_and_read(
    tmp_path, offline, monkeypatch, name
):
    write(tmp_path / "made" / FOLDERS[name], name)
    root = tmp_path / "root"
    root.mkdir()
    archive = root / getattr(module, name.upper()).url.rpartition("/")[2]
    with tarfile.open(archive, "w:gz") as tar:
        tar.add(tmp_path / "made" / FOLDERS[name], FOLDERS[name])
    md5 = hashlib.md5(archive.read_bytes()).hexdigest()
    monkeypatch.setattr(
        module, name.upper(), dataclasses.replace(getattr(module, name.upper()), md5=md5)
    )

    assert torch.equal(load(root, name).train.inputs, contents(name)[1])
    assert offline == []


def test_an_archive_of_another_checksum_is_downloaded_again(tmp_path, offline):
    (tmp_path / "cifar-10-binary.tar.gz").write_bytes(b"half of it")
    assert "could not be downloaded" in message_of(errors.DataError, load, tmp_path, "cifar10")
    assert offline


@BOTH
def test_absent_and_offline_names_the_folder_and_data_without_download(tmp_path, offline, name):
    with pytest.raises(errors.DataError) as raised:
        load(tmp_path, name)
    url = getattr(module, name.upper()).url
    assert str(raised.value) == (
        f"{name.upper()} is not in {tmp_path / FOLDERS[name]} and could not be downloaded "
        f"(<urlopen error no route to host>); put the files of {url} there, point "
        "ANDIRON_DATA_DIR at the folder that holds it, or use data=digits, which needs no download"
    )
    assert offline == [url]


@BOTH
def test_check_downloads_nothing(here, name):
    ended = called(check.main, f"data={name}", "data.root=there", "model=mlp")
    assert ended.code == 1 and "check writes nothing; training would" in ended.errors
    assert [*here.iterdir()] == []


def test_a_pickle_beside_the_files_is_never_read(tmp_path, offline):
    write(tmp_path / FOLDERS["cifar10"], "cifar10")
    pickled = tmp_path / "cifar-10-batches-py"
    pickled.mkdir()
    (pickled / "data_batch_1").write_bytes(pickle.dumps({"data": 1}))
    assert torch.equal(load(tmp_path, "cifar10").train.inputs, contents("cifar10")[1])
    for file in (tmp_path / FOLDERS["cifar10"]).iterdir():
        file.unlink()
    with pytest.raises(
        errors.DataError,
        match="^CIFAR10 is not in .*cifar-10-batches-bin and could not be downloaded",
    ):
        load(tmp_path, "cifar10")


@BOTH
def test_one_absent_file_is_asked_for(tmp_path, offline, name):
    folder = write(tmp_path / FOLDERS[name], name)
    min(folder.glob("t*.bin")).unlink()
    assert "could not be downloaded" in message_of(errors.DataError, load, tmp_path, name)
    assert offline


@pytest.mark.parametrize("name, file, change, why", [
    ("cifar10", "data_batch_3.bin", lambda content: content[:-1],
     f"data_batch_3.bin has {6 * 3073 - 1} bytes instead of {6 * 3073}"),
    ("cifar10", "data_batch_3.bin", lambda content: content + b"x",
     f"data_batch_3.bin has {6 * 3073 + 1} bytes instead of {6 * 3073}"),
    ("cifar10", "data_batch_3.bin", lambda content: content[:-3073],
     f"data_batch_3.bin has {5 * 3073} bytes instead of {6 * 3073}"),
    ("cifar10", "test_batch.bin",
     lambda content: rows(images(TEST, 9), [9, 0, 3, 10, 7]),
     "classes are from 0 to 9, and one is 10"),
    ("cifar100", "fine_label_names.txt", lambda content: b"apple\n",
     "fine_label_names.txt has 1 names instead of 100"),
])  # fmt: skip
def test_a_damaged_file_is_refused_with_its_fault(tmp_path, name, file, change, why):
    folder = write(tmp_path / FOLDERS[name], name)
    (folder / file).write_bytes(change((folder / file).read_bytes()))
    assert message_of(errors.DataError, load, tmp_path, name) == (
        f"{folder}: a file there is damaged ({why}); remove the folder to download it again"
    )


def test_the_authors_tell_the_number_of_images_and_the_length_of_a_row():
    for archive in PUBLISHED:
        assert (sum(archive.train.values()), sum(archive.test.values())) == (50_000, 10_000)
    # bytes a row, as the data set's page tells
    assert module.CIFAR10.label_bytes + module.PIXELS == 3073
    assert module.CIFAR100.label_bytes + module.PIXELS == 3074
