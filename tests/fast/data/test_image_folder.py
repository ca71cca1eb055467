"""A folder of images: which are found, how they are split, and what decoding them gives."""

import json
import logging
import os
import pickle
import shutil
import struct

import numpy
import pytest
import torch
from PIL import Image
from pictures_made import COUNTS, SIZE, damage, everything, expected, fill, load, picture
from torchvision.transforms import v2

from andiron import errors
from andiron.data.on_disk import image_decoding, image_tree
from andiron.data.on_disk.image_folder import ImageFolderDataset
from andiron.data.splitting.divided_rows import Division
from refusals import message_of


@pytest.fixture
def root(tmp_path):
    return fill(tmp_path / "pictures", COUNTS)


@pytest.mark.parametrize("channels, mode", [(3, "RGB"), (1, "L")])
def test_samples_are_what_torchvisions_transforms_make_of_pillows_images(
    root, channels, mode
):
    images, classes = expected(root, mode=mode)
    splits = load(root, channels=channels)
    parts = Division(21, classes=classes).parts(valid=0.25, test=0.2, split_seed=0)
    for part, indices in zip((splits.train, splits.valid, splits.test), parts, strict=True):
        raw = everything(part)
        assert torch.equal(raw.inputs, images[indices])
        assert torch.equal(raw.targets, classes[indices])
        assert (raw.inputs.dtype, raw.targets.dtype) == (torch.uint8, torch.int64)


def test_the_facts_tell_shape_classes_and_how_many_train(root):
    splits = load(root)
    assert splits.name == "pictures"
    assert (splits.input_shape, splits.num_classes) == ((3, SIZE, SIZE), 3)
    assert splits.facts["class_names"] == ["ant", "bee", "cat"]
    # of 7, 5 and 9: a fifth is kept aside (1, 1, 2), a quarter of the rest validates (round half to
    # even: 2, 1, 2)
    assert splits.offered["class_counts"] == [4, 3, 5]
    assert (len(splits.train), len(splits.valid), len(splits.test)) == (12, 5, 4)
    assert json.dumps(dict(splits.facts))


def test_any_indices_give_those_samples_in_their_order(root):
    train = load(root).train
    whole = everything(train)
    for indices in ([3, 0, 11], [5], torch.tensor([2, 2])):
        raw = train.__getitems__(indices)
        assert torch.equal(raw.inputs, whole.inputs[indices])
        assert torch.equal(raw.targets, whole.targets[indices])


def test_the_data_set_travels_to_another_process_whole(root):
    train = load(root).train
    assert torch.equal(
        everything(pickle.loads(pickle.dumps(train))).inputs, everything(train).inputs
    )


def test_the_test_images_are_the_same_whatever_the_seed(root):
    first, second = load(root), load(root, split_seed=1)
    assert torch.equal(everything(first.test).inputs, everything(second.test).inputs)
    assert not torch.equal(everything(first.valid).inputs, everything(second.valid).inputs)


def test_valid_test_validates_on_the_test_images(root):
    splits = load(root, valid="test")
    assert splits.validates_on_test
    assert torch.equal(everything(splits.valid).inputs, everything(splits.test).inputs)
    assert len(splits.train) + len(splits.test) == 21


def arranged(root, parts):
    for at, part in enumerate(parts):
        fill(root / part, {"ant": 4 + at, "bee": 5}, first=100 * at)
    return root


@pytest.mark.parametrize(
    "parts", [("train",), ("train", "test"), ("train", "valid"), ("train", "valid", "test")]
)
def test_folders_are_the_parts_and_fractions_replace_absent_ones(tmp_path, parts):
    root = arranged(tmp_path / "pictures", parts)
    splits = load(root)
    names = {"valid": splits.valid, "test": splits.test}
    tree = image_tree.find(root)
    left = 9
    for part in ("test", "valid"):
        if part in parts:
            files = [name for name in tree.names if name.startswith(f"{part}/")]
            images = torch.stack(
                [image_decoding.of_file(root / name, (3, SIZE, SIZE)) for name in files]
            )
            assert torch.equal(everything(names[part]).inputs, images)
        else:
            left -= len(names[part])
            assert 0 < len(names[part]) < 5
    assert len(splits.train) == left
    assert splits.num_classes == 2


def test_with_folders_valid_test_validates_on_the_folder_test(tmp_path):
    splits = load(arranged(tmp_path / "pictures", ("train", "valid", "test")), valid="test")
    assert torch.equal(everything(splits.valid).inputs, everything(splits.test).inputs)
    assert splits.validates_on_test


@pytest.mark.parametrize("folders, strange", [
    (("train", "more"), "more"),
    (("Training", "Testing", "more"), "more"),
    (("seg_pred", "seg_train", "seg_test"), "seg_pred"),
    (("train", "val", "validation"), "validation"),
])  # fmt: skip
def test_a_folder_beside_the_parts_that_is_no_part_is_refused(tmp_path, folders, strange):
    root = arranged(tmp_path / "pictures", folders)
    train = next(name for name in folders if "rain" in name)
    assert message_of(errors.DataError, load, root) == (
        f"{root}: has a folder {strange!r} beside {train}/; folders there are train, valid, test, "
        "one of each (also named training, validation, val, dev, eval, evaluation, validate, "
        "testing): rename or remove it"
    )


@pytest.mark.parametrize("folders", [
    ("Training", "Testing"), ("Train", "Test"), ("TRAIN", "VAL", "TEST"), ("train",),
    ("seg_train", "seg_test"), ("training_set", "test_set"), ("train_images", "test-images"),
    ("trainset", "valset", "testset"), ("training", "dev", "testing"), ("Training Data",),
    ("train2017", "val2017"), ("train", "Validation"), ("train", "Eval"), ("train", "validate"),
])  # fmt: skip
def test_folders_named_as_parts_are_parts_by_any_name(tmp_path, folders):
    root = arranged(tmp_path / "named", folders)
    usual = dict.fromkeys("VvdE", "valid")
    parts = [usual.get(name[0], "test" if "est" in name.lower() else "train") for name in folders]
    expected = load(arranged(tmp_path / "usual", parts))
    for part, dataset in load(root).by_name.items():
        own, usual = (value.__getitems__(range(len(value)))
                      for value in (dataset, expected.by_name[part]))  # fmt: skip
        assert torch.equal(own.inputs, usual.inputs) and torch.equal(own.targets, usual.targets)
    assert load(root).facts["class_names"] == expected.facts["class_names"]


def test_a_class_may_be_called_as_a_part_is(tmp_path, caplog):
    root = fill(tmp_path / "sports", {"running": 12, "training": 12, "swimming": 12})
    assert load(root).facts["class_names"] == ["running", "swimming", "training"]
    assert not caplog.text


def labelled(root, text, number=12, table="labels.csv", below="."):
    """Pictures 0 to `number` in one folder, and a table."""
    (root / below).mkdir(parents=True)
    for place in range(number):
        picture(place, 8, 8).save(root / below / f"{place:03}.png")
    (root / table).write_text(text)
    return root


def lines_of(number=12, header="file,label", row="{0:03}.png,{1}", classes=("no", "yes")):
    rows = [row.format(place, classes[place % 3 // 2]) for place in range(number)]
    return "\n".join([header, *rows])


@pytest.mark.parametrize("table, below, text", [
    ("labels.csv", ".", lines_of()),
    ("metadata.csv", ".", lines_of(header="file_name,class")),
    ("train.CSV", "images", lines_of(header="image_id;Category", row="{0:03};{1}")),
    ("labels.csv", "pictures",
     lines_of(header="n,Image Path,Label", row="{0},pictures/{0:03}.png, {1} ")),
    ("labels.csv", ".", "\ufeff" + lines_of(header="Filename\tlabels", row="{0:03}.png\t{1}")),
    ("a.csv", ".", lines_of(row="/kaggle/input/{0:03}.png,{1}", classes=("0", "1")) + "\n\n"),
])  # fmt: skip
def test_labels_may_stand_in_a_table_beside_the_pictures(tmp_path, table, below, text):
    root = labelled(tmp_path / "flat", text, table=table, below=below)
    splits = load(root)
    shown = "01" if "kaggle" in text else ["no", "yes"]
    assert splits.facts["class_names"] == [*shown]
    assert splits.class_counts == splits.offered["class_counts"]
    for part in (splits.train, splits.valid, splits.test):
        targets = part.__getitems__(range(len(part))).targets.tolist()
        names = [part.sample_name(index).rpartition("/")[2][:3] for index in range(len(part))]
        assert targets == [int(name) % 3 // 2 for name in names]


def test_other_labels_are_other_data(tmp_path):
    root = labelled(tmp_path / "flat", lines_of())
    before = load(root)
    (root / "labels.csv").write_text(lines_of(classes=("yes", "no")))
    after = load(root)
    assert before.fingerprint != after.fingerprint
    assert before.class_counts == after.class_counts[::-1]


@pytest.mark.parametrize("text, message", [
    ("a,b\n1,2", "has the columns a, b; name the columns that are read file and label"),
    (lines_of() + "\n099.png,no", "line 14: '099.png' with label 'no' .* 0 are left"),
    (lines_of() + "\n001.png,yes", "line 14: '001.png' with label 'yes' .* 0 are left"),
    (lines_of(classes=("", "yes")), "line 2: '000.png' with label ''"),
    (lines_of(classes=("one", "one")), "has one class, 'one'"),
    (lines_of(classes=("no", "nan")), "line 4: '002.png' with label 'nan' should name"),
    ("", "has the columns ; name"),
])  # fmt: skip
def test_a_table_of_labels_with_a_fault_is_refused_by_its_line(tmp_path, text, message):
    with pytest.raises(errors.DataError, match=message):
        load(labelled(tmp_path / "flat", text))


def test_a_name_that_is_not_utf_8_is_read(tmp_path):
    root = fill(tmp_path, {"ant": 12, "bee": 12})
    next((root / "ant").glob("*.*")).rename(root / "ant" / os.fsdecode(b"caf\xe9.png"))
    parts = load(root).by_name.values()
    assert sum(len(everything(part).inputs) for part in parts) == 24


def test_each_part_may_have_its_table_of_labels(tmp_path):
    for part, number in {"train": 12, "test": 6}.items():
        labelled(tmp_path / part, lines_of(number), number, "metadata.csv")
    splits = load(tmp_path)
    assert len(splits.test) == 6 and splits.facts["class_names"] == ["no", "yes"]


@pytest.mark.parametrize("suffix", ["gif", "ppm", "pgm", "GIF", "pbm", "avif", "jp2", "j2k"])
def test_what_predict_reads_is_trained_on(tmp_path, suffix):
    root = fill(tmp_path, {"ant": 12, "bee": 12})
    count = sum(len(part) for part in load(root).by_name.values())
    mode = "L" if suffix.startswith("j") else "1"
    picture(3, 8, 8).convert("L").convert(mode).save(root / "ant" / f"more.{suffix}")
    assert sum(len(part) for part in load(root).by_name.values()) == count + 1


def of_two_parts(root):
    fill(arranged(root, ("train", "test")) / "test", {"beee": 1})


def without_folders(root):
    root.mkdir()
    picture(0, 8, 8).save(root / "1.png")


def with_a_class_of_notes(root):
    (fill(root, COUNTS) / "dog").mkdir()
    (root / "dog" / "notes.txt").write_text("no image")


def whole(root):
    fill(root, COUNTS)


@pytest.mark.parametrize("make, options, message", [
    (of_two_parts, {}, "ROOT/test/beee: the training data have no such class; did you mean 'bee'?"),
    (lambda root: None, {},
     "ROOT: no such folder; set data.path, or data.valid_sets, to one with a folder of images "
     "for each class"),
    (without_folders, {},
     "ROOT: has no folder of images; put the images of each class into one, such as "
     "ROOT/cat/1.png, or a table of their names and labels beside them: labels.csv, with the "
     "columns file and label; move the folder of a part without labels away"),
    (lambda root: fill(root, {"ant": 3}), {},
     "ROOT: has one class, 'ant'; there is nothing to classify: add another; if its folders are "
     "classes or parts, set data.path=ROOT/ant; if its files are pictures, give "
     "labels.csv, with the columns file and label"),
    (lambda root: arranged(root, ["photos/train", "photos/test"]), {},
     "ROOT: has one class, 'photos'; there is nothing to classify: add another; if its folders are "
     "classes or parts, set data.path=ROOT/photos; if its files are pictures, give "
     "labels.csv, with the columns file and label"),
    (lambda root: (fill(root, COUNTS) / "cat" / "gone.png").symlink_to("nowhere"), {},
     "ROOT/cat/gone.png: there is no such file; correct the path"),
    (with_a_class_of_notes, {},
     f"ROOT/dog: a class without images ({', '.join(image_tree.SUFFIXES)}); put some there, or "
     "remove it"),
    (whole, {"test": 0.01},
     "data.test=0.01: divides 21 samples into 21 and 0; choose a fraction that leaves samples on "
     "both sides"),
    (whole, {"valid": 0.99},
     "data.valid=0.99: divides 17 samples into 0 and 17; choose a fraction that leaves samples "
     "on both sides"),
])  # fmt: skip
def test_what_cannot_be_read_is_refused_with_the_remedy(tmp_path, make, options, message):
    root = tmp_path / "pictures"
    make(root)
    assert message_of(errors.DataError, load, root, **options) == message.replace("ROOT", str(root))


def test_a_table_of_labels_is_not_ignored_with_the_files_that_are_no_images(tmp_path, caplog):
    rows = [f"{place:03}.png,{('clear', 'clear road')[place % 2]}" for place in range(24)]
    root = labelled(tmp_path / "flat", "\n".join(["file,label", *rows]), 24)
    (root / "other.txt").write_text("no picture")
    with caplog.at_level(logging.INFO, "andiron"):
        assert load(root, test=0.25).facts["class_names"] == ["clear", "clear road"]
    assert f"{root}: ignored files that are not images: 1, such as other.txt" in caplog.messages


def test_other_files_are_ignored_and_counted_and_hidden_ones_passed_over(root, caplog):
    before = load(root)
    (root / "bee" / "z.txt").write_text("no image")
    (root / "bee" / "deep" / "a.csv").write_text("no image")
    (root / "bee" / ".hidden.png").write_bytes(b"no image")
    (root / ".cache").mkdir()
    (root / "readme.txt").write_text("no class")
    with caplog.at_level(logging.INFO, "andiron"):
        after = load(root)
    assert caplog.messages == [
        f"{root}: ignored files that are not images: 2, such as bee/deep/a.csv, bee/z.txt"
    ]
    assert after.fingerprint == before.fingerprint
    (root / "bee" / "z.txt").unlink()
    caplog.clear()
    with caplog.at_level(logging.INFO, "andiron"):
        load(root)
    ignored = "ignored files that are not images: 1, such as bee/deep/a.csv"
    assert caplog.messages == [f"{root}: {ignored}"]


def test_photos_of_other_formats_in_a_folder_to_predict_are_named(root, caplog):
    names = ("a.txt", "b.txt", "photo.HEIC")
    for name in names:
        (root / name).write_bytes(b"no image")
    assert image_tree.images_below(root)
    (said,) = caplog.messages
    assert said == f"{root}: ignored files that are not images: 3, such as a.txt, photo.HEIC"


def truncate(file):
    file.write_bytes(file.read_bytes()[: file.stat().st_size // 2])


DAMAGE = {
    "truncated": truncate, "empty": lambda file: file.write_bytes(b""),
    "another format": lambda file: file.write_text("{}"),
    "LFS": lambda file: file.write_text("version https://git-lfs.github.com/spec/v1\noid"),
}  # fmt: skip


@pytest.mark.parametrize("how", DAMAGE)
@pytest.mark.parametrize("suffix", ["png", "jpg", "bmp", "webp"])
def test_a_damaged_image_is_an_error_at_the_batch_that_asks_for_it(root, how, suffix):
    file = root / "ant" / f"0.{suffix}"
    picture(0, 30, 30).save(file)
    DAMAGE[how](file)
    dataset = ImageFolderDataset(
        root, ("bee/1.bmp", f"ant/0.{suffix}"), torch.tensor([1, 0]), SIZE, 3
    )
    (root / "bee" / "1.bmp").write_bytes(b"")
    picture(0, 8, 8).save(root / "bee" / "1.bmp")

    assert len(dataset.__getitems__([0]).inputs) == 1
    message = message_of(errors.DataError, dataset.__getitems__, torch.tensor([0, 1]))
    assert message.startswith(f"{file}: cannot be read as an image (")
    assert "); replace the file or remove it; data.scan=true lists all" in message
    assert ("git lfs pull" in message) == (how == "LFS")


def test_a_scan_lists_every_unreadable_file_before_anything_is_made(root):
    names = image_tree.find(root).names
    damage(root, names[1], names[8])
    for options, allowed in (
        ({"scan": True}, ""),
        ({"max_unreadable": 1}, "; data.max_unreadable=1 skips fewer"),
    ):
        with pytest.raises(errors.DataError) as raised:
            load(root, **options)
        head, *listed, remedy = str(raised.value).splitlines()
        assert head == f"{root}: 2 of 21 images cannot be read{allowed}:"
        assert [line.partition(": cannot be read as an image (")[0] for line in listed] == [
            f"  {names[1]}", f"  {names[8]}"
        ]  # fmt: skip
        assert remedy == "replace or remove them, or skip them with data.max_unreadable=2"


def test_a_long_list_of_unreadable_files_is_cut(tmp_path):
    root = fill(tmp_path, {"ant": 30, "bee": 2})
    damage(root, *(name for name in image_tree.find(root).names if name.startswith("ant")))
    with pytest.raises(errors.DataError) as raised:
        load(root, scan=True)
    assert str(raised.value).splitlines()[21] == "  and 10 more"
    with pytest.raises(errors.DataError, match="class 'ant' has no image that can be read"):
        load(root, max_unreadable=30)


def test_skipped_files_are_named_and_the_rest_is_as_if_they_were_not_there(root, caplog):
    whole = load(root)
    assert load(root, scan=True).fingerprint == whole.fingerprint
    names = image_tree.find(root).names
    left = damage(root, names[1], names[8])
    caplog.clear()
    with caplog.at_level(logging.WARNING, "andiron"):
        splits = load(root, max_unreadable=2)

    assert caplog.messages[0].startswith(f"{root}: 2 of 21 images cannot be read, and are skipped:")
    assert splits.facts["unreadable_files"] == [names[1], names[8]]
    again = load(root, max_unreadable=5)
    assert (again.fingerprint, again.facts) == (splits.fingerprint, splits.facts)
    for name in (names[1], names[8]):
        (root / name).unlink()
    assert list(image_tree.find(root).names) == left
    removed = load(root)
    assert removed.fingerprint == splits.fingerprint != whole.fingerprint
    for part in ("train", "valid", "test"):
        skipped, expected = everything(getattr(splits, part)), everything(getattr(removed, part))
        assert torch.equal(skipped.inputs, expected.inputs)
        assert torch.equal(skipped.targets, expected.targets)


@pytest.mark.parametrize("name", ["deep.png", "deep.tiff"])
def test_grey_of_sixteen_bits_is_divided_by_257(tmp_path, name):
    grey = torch.tensor([[0, 128, 129], [257, 30_000, 65_407], [65_408, 65_535, 700]])
    Image.fromarray(grey.numpy().astype("uint16")).save(tmp_path / name)
    pixels = image_decoding.of_file(tmp_path / name, (1, 3, 3))
    expected = [[0, 0, 1], [1, 117, 255], [255, 255, 3]]  # 30,000 / 257 = 116.7
    assert pixels.tolist() == [expected]
    colours = image_decoding.of_file(tmp_path / name, (3, 3, 3))
    assert colours.tolist() == [expected] * 3


def test_pictures_of_twelve_bits_are_named_once(tmp_path, caplog):
    image_decoding._warn_of_dark.cache_clear()
    for values, is_dark in (([0, 65_535], 0), ([0, 0], 0), ([0, 4096], 0), ([4095], 1), ([1], 1)):
        Image.fromarray(numpy.array([values] * 2, "uint16")).save(tmp_path / "a.png")
        image_decoding.of_file(tmp_path / "a.png", (1, 2, len(values)))
        assert len(caplog.records) == is_dark
    assert "at most a 16th of 65535, which is white" in caplog.text


def test_floats_are_from_black_0_to_white_1(tmp_path):
    floats = torch.tensor([[0.0, 0.5], [0.998, 1.0]])
    Image.fromarray(floats.numpy()).save(tmp_path / "floats.tif")
    pixels = image_decoding.of_file(tmp_path / "floats.tif", (1, 2, 2))
    assert pixels.tolist() == [[[0, 128], [254, 255]]]  # 0.998 * 255 = 254.49


@pytest.mark.parametrize(("values", "actual"), [
    ([[0.0, 200.0]], "its values are from 0 to 200, and should be from 0 to 1"),
    ([[-1.0, 0.0]], "its values are from -1 to 0, and should be from 0 to 1"),
    ([[float("nan"), 0.0]], "its values are from nan to nan, and should be from 0 to 1"),
    ([[5, 70_000]], "its values are from 5 to 70000, and should be from 0 to 65535"),
])  # fmt: skip
def test_values_outside_of_the_range_are_refused(tmp_path, values, actual):
    grey = torch.tensor(values)
    grey = grey if grey.is_floating_point() else grey.int()
    Image.fromarray(grey.numpy()).save(tmp_path / "wild.tif")
    with pytest.raises(errors.DataError, match=f"{actual}, which is white: scale them"):
        image_decoding.of_file(tmp_path / "wild.tif", (1, 1, 1))


def test_a_palette_is_applied_and_alpha_dropped(tmp_path):
    image = picture(3, 6, 6).convert("P")
    image.save(tmp_path / "palette.png", transparency=3)
    expected = v2.functional.pil_to_tensor(image.convert("RGB"))
    result = image_decoding.of_file(tmp_path / "palette.png", (3, 6, 6))
    assert torch.equal(result, expected)


def test_an_image_is_seen_as_its_camera_noted_it_was_held(tmp_path):
    upright = picture(3, 6, 6)
    tag = Image.Exif()
    tag[0x0112] = 6  # to be turned by a quarter, clockwise
    upright.transpose(Image.Transpose.ROTATE_90).save(tmp_path / "held.png", exif=tag)
    upright.save(tmp_path / "upright.png")
    held, seen = (
        image_decoding.of_file(tmp_path / name, (3, 6, 6)) for name in ("held.png", "upright.png")
    )
    assert torch.equal(held, seen)


@pytest.mark.parametrize("mode", ["L", "RGBA"])
def test_grey_and_transparent_images_are_decoded_as_colours(tmp_path, mode):
    image = picture(3, 5, 8, mode)
    image.save(tmp_path / "image.png")
    reference = v2.Compose([v2.Resize(SIZE), v2.CenterCrop(SIZE), v2.PILToTensor()])(
        image.convert("RGB")
    )
    assert torch.equal(image_decoding.of_file(tmp_path / "image.png", (3, SIZE, SIZE)), reference)


@pytest.mark.parametrize("name", ["__MACOSX", "@eaDir", "lost+found", "$RECYCLE.BIN", ".cache"])
@pytest.mark.parametrize("parts", [[""], ["train", "test"], ["ant"]])
def test_a_folder_that_a_system_adds_is_no_class(tmp_path, name, parts):
    root = tmp_path / "pictures"
    for part in {"train", "test"} & {*parts} or {""}:
        fill(root / part, COUNTS)
    for part in ["", *parts]:
        fill(root / part, {name: 4})
    tree = image_tree.find(root)
    assert tree.class_names == ("ant", "bee", "cat")
    assert not any(name in path for path in tree.names)


def test_a_link_to_a_folder_around_it_repeats_no_image(root):
    before = load(root)
    for place, target in ("all", "."), ("cat/up", "../.."), ("cat/deep/same", root / "cat"):
        (root / place).symlink_to(target)
    after = load(root)
    assert after.facts == before.facts and after.fingerprint == before.fingerprint
    assert [len(value) for value in after.by_name.values()] == [
        len(value) for value in before.by_name.values()
    ]


RAMP = numpy.linspace(0, 1, 64).reshape(8, 8)
COLOURS = numpy.stack([RAMP, RAMP.T, 1 - RAMP])  # in planes


def tagged(path, values, **tags):
    """A TIFF of one strip a plane, without compression, as tifffile and libtiff write it."""
    planes = values if values.ndim == 3 else values[None]
    raw = [plane.tobytes() for plane in planes]
    if values.dtype == bool:
        raw = [numpy.packbits(values, axis=1).tobytes()]
    bits = 1 if values.dtype == bool else 8 * values.itemsize
    entries = [  # tag, type, values
        (256, 3, [8]), (257, 3, [8]), (258, 3, [bits] * len(planes)), (259, 3, [1]),
        (262, 3, [tags["white"]]), (273, 4, None), (277, 3, [len(planes)]), (278, 3, [8]),
        (279, 4, [len(value) for value in raw]), (284, 3, [2 if len(planes) > 1 else 1]),
        (305, 2, list(tags.get("by", "scanner").encode() + b"\0")),
        (339, 3, [tags.get("kind", 1)] * len(planes)),
    ]  # fmt: skip
    sizes, begin = {2: "B", 3: "H", 4: "I"}, 8 + 2 + 12 * len(entries) + 4
    strips = begin + 256
    entries[5] = (273, 4, [strips + sum(map(len, raw[:number])) for number in range(len(raw))])
    table, beyond = struct.pack("<H", len(entries)), b""
    for tag, kind, numbers in entries:
        packed = struct.pack(f"<{len(numbers)}{sizes[kind]}", *numbers)
        if len(packed) > 4:
            place = struct.pack("<I", begin + len(beyond))
            beyond += packed + b"\0" * (len(packed) % 2)
            packed = place
        table += struct.pack("<HHI", tag, kind, len(numbers)) + packed.ljust(4, b"\0")
    content = b"II*\0" + struct.pack("<I", 8) + table + b"\0" * 4 + beyond.ljust(256, b"\0")
    path.write_bytes(content + b"".join(raw))
    return path


@pytest.mark.parametrize(("values", "tags", "expected"), [
    ((RAMP * 255).round().astype("u1"), {"white": 1}, RAMP),
    (255 - (RAMP * 255).round().astype("u1"), {"white": 0}, RAMP),
    ((RAMP * 65535).round().astype("u2"), {"white": 1}, RAMP),
    (65535 - (RAMP * 65535).round().astype("u2"), {"white": 0}, RAMP),
    ((1 - RAMP).astype("f4"), {"white": 0, "kind": 3}, RAMP),
    (RAMP > 0.7, {"white": 0, "by": "tifffile.py"}, RAMP > 0.7),
    (RAMP > 0.7, {"white": 0}, RAMP <= 0.7), (RAMP > 0.7, {"white": 1}, RAMP > 0.7),
    ((COLOURS * 255).round().astype("u1"), {"white": 2}, COLOURS),
    ((COLOURS * 65535).round().astype("u2"), {"white": 2}, "in planes: save it with the colours"),
    ((COLOURS[[0, 1, 2, 0]] * 65535).astype("u2"), {"white": 2}, "16-bit colours in planes"),
    ((RAMP * 255 - 128).round().astype("i1"), {"white": 1, "kind": 2}, "it has signed bytes"),
])  # fmt: skip
def test_the_tags_of_a_tiff_decide_what_its_pixels_are(tmp_path, values, tags, expected):
    path = tagged(tmp_path / "a.tif", values, **tags)
    channels = 3 if values.ndim == 3 else 1
    if isinstance(expected, str):
        message = message_of(errors.DataError, image_decoding.of_file, path, (channels, 8, 8))
        assert str(path) in message and expected in message
        return
    with Image.open(path) as image:
        pictures = [
            image_decoding.of_file(path, (channels, 8, 8)),
            image_decoding.of_picture(image, "a.tif", (channels, 8, 8)),
        ]
    for pixels in pictures:
        difference = pixels.numpy() - expected * 255.0
        assert abs(difference).max() <= 0.51  # half a step


@pytest.mark.parametrize("kind", ["RGB", "L", "P", "RGBA"])
@pytest.mark.parametrize("orientation", [1, 3, 6, 8])
def test_a_picture_is_turned_as_its_file_is(tmp_path, orientation, kind):
    path, exif, upright = tmp_path / "a.tif", Image.Exif(), picture(3, 6, 10).convert(kind)
    exif[0x0112] = orientation
    turns = {3: Image.Transpose.ROTATE_180, 6: Image.Transpose.ROTATE_270}
    turns |= {8: Image.Transpose.ROTATE_90}
    upright.save(path, exif=exif)
    expected = upright.transpose(turns[orientation]) if orientation > 1 else upright
    shape = (3, *expected.size[::-1])
    with Image.open(path) as image:
        turned = image_decoding.of_picture(image, "a.tif", shape)
        assert image.filename
    assert torch.equal(turned, image_decoding.of_file(path, shape))
    assert torch.equal(turned, image_decoding.of_picture(expected, "a.tif", shape))


@pytest.mark.parametrize("folders", [("first", "second"), ("Testing", "Holdout")])
def test_classes_that_hold_the_same_folders_are_named(tmp_path, folders, caplog):
    root = arranged(tmp_path / "pictures", folders)
    assert load(root).facts["class_names"] == sorted(folders)
    assert "name them train, valid and test" in caplog.text


@pytest.mark.parametrize(("part", "copied", "renamed"), [
    ("test", 21, False), ("valid", 3, False), ("test", 2, True), ("valid", 0, False),
])  # fmt: skip
def test_held_out_images_that_are_training_images_are_counted(
    tmp_path, part, copied, renamed, caplog
):
    training = fill(tmp_path / "train", COUNTS)
    held_out = fill(tmp_path / part, {name: 1 for name in COUNTS}, first=100)
    for number, file in enumerate(sorted(training.rglob("*.*"))[:copied]):
        target = held_out / file.relative_to(training)
        if renamed:
            target = target.with_stem(f"again{number}")
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(file, target)
    size = len([*held_out.rglob("*.*")])
    load(tmp_path)
    result = [message for message in caplog.messages if "also in training" in message]
    assert len(result) == bool(copied)
    assert not copied or f"{held_out}: {copied} of {size} images are also in training" in result[0]


@pytest.mark.parametrize("labels, warned", [
    (["clear", "clear road", "clear road water", "haze water"], True),
    (["a;b", "b;c", "a;c"], True),
    (["golden retriever", "labrador retriever", "poodle"], False), (["cat", "dog"], False),
])  # fmt: skip
def test_tags_of_pictures_are_named(tmp_path, caplog, labels, warned):
    fill(tmp_path / "images", {"": 12})
    names = sorted(path.name for path in tmp_path.rglob("*.*"))
    rows = [f"{name},{labels[place % len(labels)]}" for place, name in enumerate(names)]
    (tmp_path / "labels.csv").write_text("\n".join(["file,label", *rows]))
    load(tmp_path)
    assert ("multi-label" in caplog.text) == warned
