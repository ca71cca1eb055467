"""Images of a folder decoded once: the samples of `decoded=workers`, from a file."""

import logging
import os
import shutil

import pytest
import safetensors.torch
import torch
from pictures_made import COUNTS, SIZE, damage, everything, expected, fill, load, picture

from andiron import errors
from andiron.data.on_disk import image_decoding, image_tree
from andiron.disk import guarded_folders
from andiron_lab.data import decoded_images
from refusals import message_of


@pytest.fixture
def root(tmp_path):
    return fill(tmp_path / "pictures", COUNTS)


@pytest.mark.parametrize("channels", [3, 1])
def test_samples_equal_images_decoded_at_every_batch(root, channels):
    (root / "cat" / os.fsdecode(b"caf\xe9.png")).write_bytes((root / "ant" / "0.png").read_bytes())
    once, workers = (
        load(root, decoded=decoded, channels=channels, valid_sets={"more": str(root)})
        for decoded in ("once", "workers")
    )
    assert once.facts == workers.facts and once.fingerprint != workers.fingerprint
    for name, part in once.by_name.items():
        assert part.sample_name(1) == workers.by_name[name].sample_name(1)
        for own, other in zip(everything(part), everything(workers.by_name[name]), strict=True):
            assert torch.equal(own, other)


def test_other_labels_are_another_file(tmp_path):
    fill(tmp_path, {"pictures": 12})
    names = sorted(path.name for path in (tmp_path / "pictures").rglob("*.*"))
    fingerprints = set()
    for first in (4, 5):
        rows = [f"{name},{'ab'[place > first]}" for place, name in enumerate(names)]
        (tmp_path / "labels.csv").write_text("\n".join(["file,label", *rows]))
        fingerprints.add(load(tmp_path, decoded="once", test=0.3).fingerprint)
    assert len(fingerprints) == 2


def test_a_scan_of_images_decoded_once_is_remembered(root, monkeypatch):
    damage(root, image_tree.find(root).names[1])
    first = load(root, decoded="once", max_unreadable=1)
    monkeypatch.setattr(image_decoding, "of_file", no_decoding)
    assert load(root, decoded="once", max_unreadable=1).facts == first.facts


def test_images_decoded_once_are_read_twice_and_decoded_once(root, caplog, monkeypatch):
    names = image_tree.find(root).names
    damage(root, names[1], names[8])
    made, decode = [], image_decoding.of_file

    def counted(path, *form):
        made.append(path.relative_to(root).as_posix())
        return decode(path, *form)

    monkeypatch.setattr(image_decoding, "of_file", counted)
    with caplog.at_level(logging.INFO, "andiron"):
        splits = load(root, decoded="once", max_unreadable=2, scan=True)
    assert sorted(made) == sorted(names) and len(caplog.messages) == 2
    assert caplog.messages[0].startswith("decoding 21 images once, into ")
    assert [splits.train.sample_name(place) for place in range(3)] == [
        load(root, max_unreadable=2).train.sample_name(place) for place in range(3)
    ]


def cached(root):
    return sorted(file.name for file in (root / ".andiron").iterdir())


def no_decoding(*_, **__):
    raise AssertionError("decoded again")


def test_images_are_decoded_once_and_read_from_their_file_then(root, monkeypatch):
    first = load(root, decoded="once")
    names = cached(root)
    monkeypatch.setattr(image_decoding, "of_file", no_decoding)
    monkeypatch.setattr(decoded_images.fingerprint, "of_file", no_decoding)  # nor are files read
    again = load(root, decoded="once", valid=0.4)
    assert again.fingerprint == first.fingerprint
    assert torch.equal(everything(again.test).inputs, everything(first.test).inputs)
    assert cached(root) == names
    assert [name.rpartition(".")[2] for name in names] == ["json", "safetensors"]


def test_the_file_is_safetensors_of_inputs_and_targets(root):
    load(root, decoded="once")
    (file,) = (root / ".andiron").glob("*.safetensors")
    arrays = safetensors.torch.load_file(file)
    images, classes = expected(root)
    assert set(arrays) == {"inputs", "targets"}
    assert torch.equal(arrays["inputs"], images)
    assert torch.equal(arrays["targets"], classes)


def test_a_changed_image_makes_another_file(root):
    before = load(root, decoded="once")
    names = cached(root)
    file = root / "ant" / "0.png"
    picture(77, 6, 6).save(file)
    after = load(root, decoded="once")
    assert after.fingerprint != before.fingerprint
    assert set(names) < set(cached(root))
    whole = torch.cat([everything(part).inputs for part in (after.train, after.valid, after.test)])
    assert any(torch.equal(image, image_decoding.of_file(file, (3, SIZE, SIZE))) for image in whole)


def test_an_image_that_changes_within_its_time_stamp_is_seen_if_it_was_new(root):
    file = root / "ant" / "0.png"
    stamp = file.stat().st_mtime_ns + 60 * 10**9
    os.utime(file, ns=(stamp, stamp))  # of this moment
    before = load(root, decoded="once")
    content = bytearray(file.read_bytes())
    picture(77, 6, 6).save(file)
    changed = file.read_bytes()
    file.write_bytes((changed + bytes(len(content)))[: max(len(content), len(changed))])
    os.utime(file, ns=(stamp, stamp))
    assert load(root, decoded="once").fingerprint != before.fingerprint


def test_another_size_or_number_of_channels_is_another_file(root):
    for size, channels in [(SIZE, 3), (SIZE, 1), (4, 3)]:
        splits = load(root, decoded="once", size=size, channels=channels)
        assert everything(splits.test).inputs.shape == (4, channels, size, size)
    assert len(list((root / ".andiron").glob("*.safetensors"))) == 3


def test_the_file_may_lie_elsewhere_and_serves_a_copy_of_the_images(root, tmp_path, monkeypatch):
    cache = tmp_path / "some" / "where"
    first = load(root, decoded="once", cache=cache)
    assert not (root / ".andiron").exists()
    (copy,) = [shutil.copytree(root, tmp_path / "copy")]
    monkeypatch.setattr(image_decoding, "of_file", no_decoding)
    assert load(copy, decoded="once", cache=cache).fingerprint == first.fingerprint


def test_damaged_images_are_listed_after_decoding_and_may_be_replaced(root):
    file = root / "cat" / "0.png"
    file.write_bytes(b"")
    for _ in range(2):  # decoded, then remembered
        with pytest.raises(errors.DataError) as raised:
            load(root, decoded="once")
        head, line, _ = str(raised.value).splitlines()
        assert head.endswith("images cannot be read:")
        assert line.startswith("  cat/0.png: cannot be read as an image (")
    assert list((root / ".andiron").glob("*.partial")) == []
    picture(1, 8, 8).save(file)
    assert "unreadable_files" not in load(root, decoded="once").facts


def test_the_remedy_of_a_damaged_file_of_decoded_images_is_its_removal(root):
    load(root, decoded="once")
    (file,) = (root / ".andiron").glob("*.safetensors")
    file.write_bytes(file.read_bytes()[: file.stat().st_size // 2])
    assert message_of(errors.DataError, load, root, decoded="once") == (
        f"{file}: the decoded images are damaged; remove the file to decode them again"
    )


def test_where_nothing_is_to_be_written_no_folder_is_made(root, tmp_path):
    with (
        guarded_folders.writing_refused("the configuration is a stranger's"),
        pytest.raises(errors.DataError, match="the configuration is a stranger's"),
    ):
        load(root, decoded="once", cache=tmp_path / "new")
    assert not (tmp_path / "new").exists()


def test_more_images_than_threads_take_at_once_keep_their_order(tmp_path, monkeypatch):
    monkeypatch.setattr(image_decoding, "AT_ONCE", 4)
    root = fill(tmp_path / "pictures", COUNTS)
    load(root, decoded="once")
    (file,) = (root / ".andiron").glob("*.safetensors")
    assert torch.equal(safetensors.torch.load_file(file)["inputs"], expected(root)[0])


def test_a_folder_that_cannot_be_written_and_a_file_that_is_gone_are_named(root):
    cache = root / "ant" / "0.png"
    assert message_of(errors.DataError, load, root, decoded="once", cache=cache) == (
        f"{cache}: cannot be written to (File exists); name another folder with data.cache, "
        "make room, or decode the images at every batch: data.decoded=workers"
    )
    (root / "cat" / "gone.png").symlink_to("nowhere")
    assert message_of(errors.DataError, load, root, decoded="once") == (
        f"{root / 'cat' / 'gone.png'}: there is no such file; correct the path"
    )
