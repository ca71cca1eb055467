"""Pictures with masks: which pairs are found, what their classes are, and what is refused."""

import numpy
import pytest
import torch
from PIL import Image
from torch.testing import assert_close

from andiron import errors
from andiron.data import Crop, DataLoader, Flip, Rotate
from andiron.data.kinds import recorded_kind
from andiron.data.splitting import described
from andiron.outputs import IGNORED
from andiron_lab.masks import OnFields, image_masks, mask_files
from refusals import message_of

ROWS, COLUMNS = 12, 20
NAMES = [f"{place}{number}" for place in ("", "deep/er/") for number in range(5)]
PALETTE = [0, 0, 0, 200, 0, 0, 0, 200, 0]


def numbers_of(seed, numbers=(0, 1, 2)):
    return numpy.random.default_rng(seed).choice(numbers, (ROWS, COLUMNS))


def picture_of(seed, rows=ROWS, columns=COLUMNS):
    noise = numpy.random.default_rng(100 + seed).integers(0, 256, (rows, columns, 3), numpy.uint8)
    return Image.fromarray(noise)


def mask_of(numbers, kind="8 bits"):
    if kind == "16 bits":
        return Image.fromarray(numbers.astype(numpy.uint16))
    image = Image.fromarray(numbers.astype(bool if kind == "1 bit" else numpy.uint8))
    if kind == "palette":
        image.putpalette(PALETTE)
    return image


def fill(root, numbers=(0, 1, 2), kind="8 bits", images="images", masks="masks", suffix=""):
    for seed, name in enumerate(NAMES):
        for folder in (images, masks):
            (root / folder / name).parent.mkdir(parents=True, exist_ok=True)
        picture_of(seed).save(root / images / f"{name}.bmp")
        mask_of(numbers_of(seed, numbers), kind).save(root / masks / f"{name}{suffix}.png")
    return root


def load(root, **given):
    options = {"valid": 0.2, "test": 0.2, "split_seed": 0}
    return image_masks(path=str(root), **options | given)


def everything(splits):
    """Every sample by its name."""
    by_name = {}
    for part in (splits.train, splits.valid, splits.test):
        raw = part.__getitems__(range(len(part)))
        for index in range(len(part)):
            by_name[part.sample_name(index)] = raw.inputs[index], raw.targets[index]
    return by_name


@pytest.mark.parametrize(
    "kind, numbers, classes",
    [
        ("8 bits", (0, 1, 2), {0: 0, 1: 1, 2: 2}),
        ("8 bits", (0, 2, 255), {0: 0, 2: 1, 255: IGNORED}),
        ("8 bits", (0, 255), {0: 0, 255: 1}),  # a yes-or-no mask, without ignored pixels
        ("1 bit", (0, 1), {0: 0, 1: 1}),
        ("16 bits", (0, 7, 40_000), {0: 0, 7: 1, 40_000: 2}),
        ("palette", (0, 1, 2), {0: 0, 1: 1, 2: 2}),
    ],
)
def test_the_classes_are_the_numbers_of_the_masks(tmp_path, kind, numbers, classes):
    splits = load(fill(tmp_path, numbers, kind))
    samples = everything(splits)
    assert {*samples} == {f"images/{name}.bmp" for name in NAMES}
    for seed, name in enumerate(NAMES):
        pixels, mask = samples[f"images/{name}.bmp"]
        assert torch.equal(pixels, torch.from_numpy(numpy.array(picture_of(seed))).movedim(-1, 0))
        expected = [[classes[number] for number in row] for row in numbers_of(seed, numbers)]
        assert mask.tolist() == expected
    known = [number for number in numbers if classes[number] != IGNORED]
    assert splits.facts["class_numbers"] == known
    assert splits.facts["class_names"] == [*map(str, known)]
    assert splits.input_shape == (3, ROWS, COLUMNS)


@pytest.mark.parametrize(
    "given, names",
    [
        ({"classes": ["ground", "road", "car"]}, ["ground", "road", "car"]),
        ({"classes": {2: "car", 0: "ground", 1: "road"}}, ["ground", "road", "car"]),
        ({"classes": {"0": "ground", "2": "car"}, "ignored": 1}, ["ground", "car"]),
    ],
)
def test_classes_are_named_by_their_numbers(tmp_path, given, names):
    splits = load(fill(tmp_path), **given)
    assert splits.facts["class_names"] == names
    masks = torch.stack([mask for _, mask in everything(splits).values()])
    assert set(masks.unique().tolist()) - {IGNORED} == {*range(len(names))}
    assert (IGNORED in masks) == (len(names) == 2)


def in_table(root):
    fill(root, images="x", masks="y")
    lines = [f"x/{name}.bmp,y/{name}.png\n" for name in NAMES]
    (root / "pairs.csv").write_text("Image,Mask\n" + "".join(lines))


LAYOUTS = {
    "other folders": (lambda root: fill(root, images="jpg", masks="labels"),
                      {"images": "jpg", "masks": "labels"}),
    "suffix": (lambda root: fill(root, suffix="_mask"), {"suffix": "_mask"}),
    "one folder": (lambda root: fill(root, images=".", masks=".", suffix="_mask"),
                   {"images": ".", "masks": ".", "suffix": "_mask"}),
    "table": (in_table, {"table": "pairs.csv"}),
}  # fmt: skip


@pytest.mark.parametrize("layout", LAYOUTS)
def test_every_layout_gives_the_same_pairs(tmp_path, layout):
    write, options = LAYOUTS[layout]
    plain, other = tmp_path / "plain", tmp_path / "other"
    fill(plain)
    write(other)
    expected, others = everything(load(plain)), everything(load(other, **options))
    by_stem = {name.rpartition("images/")[2]: sample for name, sample in expected.items()}
    assert len(others) == len(by_stem)
    for name, (pixels, mask) in others.items():
        stem = next(stem for stem in by_stem if name.endswith(stem) and (
            "deep" in stem or "deep" not in name))  # fmt: skip
        assert torch.equal(pixels, by_stem[stem][0]) and torch.equal(mask, by_stem[stem][1])


def test_the_pictures_of_a_group_are_in_one_part(tmp_path):
    splits = load(fill(tmp_path), split={"group": "(.)[.]bmp$"})
    parts = splits.train, splits.valid, splits.test
    numbers = [[part.sample_name(row)[-5] for row in range(len(part))] for part in parts]
    assert sorted(sum(numbers, [])) == sorted("01234" * 2)
    assert sum(len({*of_part}) for of_part in numbers) == 5 and all(numbers)


@pytest.mark.parametrize("order", ["part first", "kind first"])
def test_folders_of_parts_are_the_parts(tmp_path, order):
    for part in ("train", "val", "test"):
        if order == "part first":
            fill(tmp_path / part)
        else:
            fill(tmp_path, images=f"images/{part}", masks=f"masks/{part}")
    splits = load(tmp_path)
    for part, folder in (("train", "train"), ("valid", "val"), ("test", "test")):
        dataset = splits.by_name[part]
        names = [dataset.sample_name(index) for index in range(len(dataset))]
        assert len(names) == len(NAMES) and all(folder in name for name in names)


def test_a_size_resizes_pictures_and_masks_alike(tmp_path):
    for seed in range(10):  # a bright square where the mask has class 1
        mask = numpy.zeros((40, 60), numpy.uint8)
        mask[5 + seed : 25 + seed, 10 : 40 - seed] = 1
        for folder, image in (("images", mask * 255), ("masks", mask)):
            (tmp_path / folder).mkdir(exist_ok=True)
            Image.fromarray(image).save(tmp_path / folder / f"{seed}.png")
    for pixels, mask in everything(load(tmp_path, size=24)).values():
        assert pixels.shape == (3, 24, 24) and mask.shape == (24, 24)
        # at an edge a mean of pixels may be on the other side of the half
        assert ((pixels[0] > 127) != (mask == 1)).float().mean() < 0.02


@pytest.mark.parametrize("augmentation", [Flip(1.0), Crop(3), Rotate(90.0)])
def test_augmentations_move_both_in_a_thread_and_in_processes(tmp_path, augmentation):
    splits = load(fill(tmp_path))
    both = OnFields(["inputs", "targets"], augmentation)
    loaders = [
        DataLoader(splits.train, splits.batcher, batch_size=4, shuffle_seed=1,
                   num_workers=number, augmentations=[both])
        for number in (0, 2)
    ]  # fmt: skip
    for here, elsewhere in zip(loaders[0].epoch(0), loaders[1].epoch(0), strict=True):
        assert torch.equal(here.inputs, elsewhere.inputs)
        assert torch.equal(here.targets, elsewhere.targets)
        assert set(here.targets.unique().tolist()) <= {IGNORED, 0, 1, 2}


def damage(root, fault):
    mask = root / "masks" / "3.png"
    match fault:
        case "missing":
            mask.unlink()
        case "size":
            mask_of(numbers_of(0)[:, :9]).save(mask)
        case "number":
            mask_of(numbers_of(0, (0, 1, 9))).save(mask)
        case "colours":
            picture_of(0).save(mask)
        case "jpeg":
            mask_of(numbers_of(0)).save(mask.with_suffix(".jpg"))
            mask.unlink()
        case "other picture":
            picture_of(0, 8, 8).save(root / "images" / "3.bmp")
            mask_of(numbers_of(0)[:8, :8]).save(mask)
        case "truncated":
            mask.write_bytes(mask.read_bytes()[:60])


CLASSES = {"classes": ["ground", "road", "car"]}
FAULTS = [
    ("missing", {}, "has 10 pictures, 1 without a mask, such as images/3.bmp; the mask of a.jpg "),
    ("size", {}, "images/3.bmp: has 20x12 pixels, its mask "),
    ("size", CLASSES, "masks/3.png has 9x12, and the size of the data is 20x12; give each "),
    ("number", CLASSES, "masks/3.png: has the number 9, which is no class; there are 0, 1, 2, 255"),
    ("colours", {}, "masks/3.png: PNG of mode RGB, and a mask has one exact number"),
    ("jpeg", {}, "masks/3.jpg: JPEG of mode L, and a mask has one exact number"),
    ("other picture", {}, "has 8x8, and the size of the data is 20x12; "),
    ("truncated", {}, "masks/3.png: cannot be read as an image"),
    ("", {"images": "pictures"}, "pictures: has 0 pictures, 0 without a mask; "),
    ("", {"classes": ["all"]}, "the classes are 0; there should be 2 to 256"),
]


@pytest.mark.parametrize("fault, given, words", FAULTS)
def test_wrong_material_is_refused_with_a_remedy(tmp_path, fault, given, words):
    damage(fill(tmp_path), fault)
    message = message_of(errors.DataError, lambda: everything(load(tmp_path, **given)))
    assert words in message
    assert message.count(";") + message.count(": ") >= 2  # the remedy


def test_a_table_names_each_picture_once(tmp_path):
    in_table(tmp_path)
    with (tmp_path / "pairs.csv").open("a") as table:
        table.write(f"x/{NAMES[0]}.bmp,y/{NAMES[1]}.png\n")
    message = message_of(errors.DataError, load, tmp_path, table="pairs.csv")
    assert "pairs.csv, line 12: 'x/0.bmp' should be a file below" in message


def test_the_record_prepares_new_pictures_as_in_training(tmp_path):
    splits = load(fill(tmp_path), size=16)
    kind = recorded_kind.of(described.of_splits(splits))
    assert "a photo's sides resized to the shape's" in kind.card
    samples = kind.samples([tmp_path / "images"])
    for index, name in enumerate(samples.names):
        raw = samples.dataset.__getitems__([index])
        expected = everything(splits)[str(name).removeprefix(f"{tmp_path}/")][0]
        assert_close(raw.inputs[0], expected, rtol=0, atol=0)


@pytest.mark.parametrize("numbers", [(0, 1, 2), (0, 255, 60_000)])
def test_a_written_mask_is_read_as_the_classes_that_it_had(tmp_path, numbers):
    classes = torch.from_numpy(numpy.random.default_rng(0).integers(0, 3, (ROWS, COLUMNS)))
    (tmp_path / "mask.png").write_bytes(mask_files.png_of(classes, numbers, (ROWS, COLUMNS)))
    read = numpy.asarray(Image.open(tmp_path / "mask.png"))
    assert torch.equal(torch.tensor(numbers)[classes], torch.from_numpy(read.astype(int)))
