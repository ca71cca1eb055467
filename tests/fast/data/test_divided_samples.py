"""The option `split` of the kinds of data: what is in which part, in folds, and what is refused."""

import re
from functools import partial
from pathlib import Path

import pytest
import safetensors.torch
import torch
import yaml
from PIL import Image

from andiron import data, errors
from andiron.data.composed.derived_splits import kfold
from andiron.data.composed.divided_samples import check_windows
from andiron.data.splitting.divided_rows import Division

PAGE = Path(__file__).resolve().parents[3] / "docs" / "own_batches.md"
PATIENTS = [f"p{number % 7}" for number in range(40)]


class Visits(torch.utils.data.Dataset):
    """Inputs are indices; the patient is an attribute, a method and a field."""

    def __init__(self, begin=0, end=40):
        self.begin, self.targets = begin, [index % 2 for index in range(begin, end)]
        self.classes = ["no", "yes"]
        self.patients = torch.arange(begin, end) % 7

    def __len__(self):
        return len(self.targets)

    def __getitem__(self, index):
        place = self.begin + index
        return {"inputs": torch.tensor([place]), "targets": place % 2, "patient": f"p{place % 7}"}

    def patient_of(self, index):
        return PATIENTS[self.begin + index]


class Windows(torch.utils.data.Dataset):
    """Windows of 8 numbers with the next; `copied` shares no memory."""

    def __init__(self, gap=None, copied=False):
        self.series, self.copied = torch.arange(90.0), copied
        if gap is not None:
            self.gap = gap

    def __len__(self):
        return 82

    def __getitem__(self, index):
        sample = self.series[index : index + 8], self.series[index + 8]
        return tuple(map(torch.clone, sample)) if self.copied else sample


def rows(part):
    """Which samples a part has, by their inputs."""
    batch = part.__getitems__(range(len(part)))
    inputs = batch["inputs"] if isinstance(batch, dict) else batch.inputs
    return inputs.flatten(1)[:, 0].long().tolist()


def groups(splits):
    """The patients of each part, which share none."""
    owners = [{index % 7 for index in rows(part)} for part in
              (splits.train, splits.valid, splits.test)]  # fmt: skip
    assert sum(map(len, owners)) == 7
    return owners


def csv_of(folder):
    lines = [f"{index},{index % 2},p{index % 7}" for index in range(40)]
    path = folder / "visits.csv"
    path.write_text("\n".join(["x,ill,patient", *lines]))
    return {"path": str(path), "target": "ill", "split_seed": 0, "kind": "classification"}


@pytest.mark.parametrize("group", ["patients", "patient_of", "patient", PATIENTS])
def test_a_group_is_an_attribute_a_method_a_field_or_a_list(group):
    options = {"valid": 0.3, "test": 0.3, "num_classes": 2}
    splits = data.torch_dataset(train=Visits(), split={"group": group}, **options)
    assert [len(owner) for owner in groups(splits)] == [3, 2, 2]
    folds = [kfold(splits, fold=fold, num_folds=5, split_seed=0) for fold in range(5)]
    for fold in folds:
        assert groups(fold)[2] == groups(splits)[2]
    assert sorted(sum((rows(fold.valid) for fold in folds), [])) == sorted(
        rows(splits.train) + rows(splits.valid)
    )


def test_groups_of_a_table_of_arrays_and_of_pictures_stay_whole(tmp_path):
    table = data.csv(valid=0.3, test=0.3, split={"group": "patient"}, **csv_of(tmp_path))
    assert table.facts["columns"] == ["x"]
    arrays = {"inputs": torch.arange(40.0)[:, None], "targets": torch.arange(40) % 2,
              "patients": torch.arange(40) % 7}  # fmt: skip
    safetensors.torch.save_file(arrays, tmp_path / "a.safetensors")
    options = {"valid": 0.3, "test": 0.3, "split_seed": 0}
    file = str(tmp_path / "a.safetensors")
    for index in range(40):
        place = tmp_path / "pictures" / ("cat", "dog")[index % 2] / f"p{index % 7}_{index}.png"
        place.parent.mkdir(parents=True, exist_ok=True)
        Image.new("L", (1, 1), index).save(place)
    folder = {"path": str(tmp_path / "pictures"), "size": 1, "channels": 1}
    for splits in (
        table, data.safetensors(path=file, split={"group": "patients"}, **options),
        data.image_folder(split={"group": "(p[0-9])_"}, **folder, **options),
    ):  # fmt: skip
        assert [len(owner) for owner in groups(splits)] == [3, 2, 2]
        fold = kfold(splits, fold=1, num_folds=5, split_seed=0)
        assert len(groups(fold)[1]) == 1 and groups(fold)[2] == groups(splits)[2]
    # the last names of each class
    in_order = data.image_folder(split="in_order", **folder, **options)
    names = [in_order.test.sample_name(index) for index in range(len(in_order.test))]
    assert names == sorted(names)[:6] + sorted(names)[6:] and len(names) == 12


def test_a_column_of_the_table_of_labels_is_a_group(tmp_path):
    lines = ["File,Label,Patient ID"]
    for index in range(28):
        Image.new("L", (1, 1), index).save(tmp_path / f"{index}.png")
        lines.append(f"{index}.png,{'ab'[index % 2]},{index % 7}")
    (tmp_path / "labels.csv").write_text("\n".join(lines))
    options = {"path": str(tmp_path), "size": 1, "channels": 1, "split_seed": 0}
    splits = data.image_folder(split={"group": "Patient ID"}, valid=0.3, test=0.3, **options)
    assert [len(owner) for owner in groups(splits)] == [3, 2, 2]
    with pytest.raises(errors.DataError, match="'patent' is in no path, such as 0.png; give one of "
                       "the columns file, label, patient_id, or a regular expression"):  # fmt: skip
        data.image_folder(split={"group": "patent"}, valid=0.3, test=0.3, **options)


def parts_column(folder, names):
    """The options of a table and of pictures whose column `Part` names the part of each row."""
    texts, lines = [], []
    for index in range(30):
        Image.new("L", (1, 1), index).save(folder / f"{index}.png")
        part, label = names[index % len(names)], "ab"[index % 2]
        lines.append(f"{index}.png,{label},{part}")
        texts.append(f"{index},{label},{part}")
    (folder / "labels.csv").write_text("\n".join(["file,label,Part", *lines]))
    (folder / "table.txt").write_text("\n".join(["x,y,Part", *texts]))
    shared = {"valid": 0.2, "test": 0.2, "split_seed": 0}
    return (
        partial(data.image_folder, path=str(folder), size=1, channels=1, **shared),
        partial(data.csv, path=str(folder / "table.txt"), target="y", **shared),
    )


@pytest.mark.parametrize(
    ("names", "remedy"),
    [
        (["Training", "val", "Test"], "{by: %s, valid: [val], test: [Test]}'"),
        (["train", "dev", "validation"], "{by: %s, test: [dev, validation]}' data.valid=test"),
        (["train", "test", "unknown"], None),
        (["train"], None),
        (["a", "b"], None),
    ],
)
def test_a_column_of_parts_that_nothing_follows_is_named(tmp_path, caplog, names, remedy):
    for read in parts_column(tmp_path, names):
        caplog.clear()
        read()
        warned = [text for text in caplog.messages if "which part a row is in" in text]
        assert len(warned) == bool(remedy)
        for text in warned:
            given, valid = re.search(r"'data\.split=(.*)'(.*) follows it", text).groups()
            assert text.lower().endswith((remedy % "part").lower() + " follows it")
            caplog.clear()
            split = yaml.safe_load(given)
            made = read(split=split, **({"valid": "test"} if valid else {}))
            assert len(made.train) == 10 and "which part" not in caplog.text


def test_rows_in_order_train_before_they_are_tested_and_in_each_fold(tmp_path):
    splits = data.csv(valid=0.25, test=0.2, split={"gap": 2}, **csv_of(tmp_path))
    assert rows(splits.test) == [*range(32, 40)]
    assert (rows(splits.train)[-1], rows(splits.valid)) == (19, [*range(22, 30)])
    for fold in range(3):
        made = kfold(splits, fold=fold, num_folds=3, split_seed=0)
        assert max(rows(made.train)) + 2 < min(rows(made.valid)) <= max(rows(made.valid)) < 30
        assert (rows(made.test), len(made.valid)) == (rows(splits.test), 7)
    assert rows(made.valid)[-1] == 29


def test_a_table_whose_dates_go_back_is_not_divided_in_order(tmp_path):
    days = [f"2024-05-{day:02},{day % 2}" for day in range(30, 0, -1)]
    (tmp_path / "t.csv").write_text("\n".join(["day,y", *days]))
    options = {"path": str(tmp_path / "t.csv"), "target": "y", "valid": 0.2, "split_seed": 0}
    with pytest.raises(errors.DataError, match="column 'day' begins with the latest date"):
        data.csv(split="in_order", **options)
    data.csv(**options)


def test_a_group_in_another_file_folder_or_data_set_is_refused(tmp_path):
    options = csv_of(tmp_path)
    (tmp_path / "test.csv").write_text("x,ill,patient\n3,1,p3\n4,0,q\n")
    with pytest.raises(errors.DataError, match="^data.split: 'p3' of 'patient' is in data.path and "
                       f"in {re.escape(str(tmp_path / 'test.csv'))}; remove"):  # fmt: skip
        data.csv(valid=0.3, test=str(tmp_path / "test.csv"), split={"group": "patient"}, **options)
    with pytest.raises(errors.DataError, match="^data.split: '3' of 'patients' is in train and in"):
        data.torch_dataset(train=Visits(0, 20), test=Visits(38, 40), split={"group": "patients"},
                           num_classes=2)  # fmt: skip
    for part, index in (("train", 0), ("train", 1), ("test", 2), ("test", 3)):
        place = tmp_path / "pictures" / part / ("cat", "dog")[index % 2] / f"p{index % 3}.png"
        place.parent.mkdir(parents=True, exist_ok=True)
        Image.new("L", (1, 1)).save(place)
    with pytest.raises(errors.DataError, match="'p0' of 'p.' is in .*train and in .*test; remove"):
        data.image_folder(path=str(tmp_path / "pictures"), split={"group": "p."}, valid=0.5,
                          test=0.5, split_seed=0)  # fmt: skip


def test_folds_of_a_data_set_beside_its_own_validation_set_are_refused():
    splits = data.torch_dataset(train=Visits(0, 21), valid=Visits(21, 28), test=Visits(28, 40),
                                split="random", num_classes=2)  # fmt: skip
    with pytest.raises(ValueError, match="give data.data.valid as a fraction"):
        kfold(splits, fold=0, num_folds=2, split_seed=0)


def _planted(place, times):
    return (times * 5 == place).float() * 99


def test_windows_of_the_page_share_no_value_between_parts(monkeypatch):
    section = PAGE.read_text().partition("## LSTM")[2].partition("\n## ")[0]
    code, settings = re.findall(r"```(?:python|yaml)\n(.*?)```", section, flags=re.DOTALL)
    parts, chosen = {}, yaml.safe_load(settings)["data"]
    exec(code, parts)
    planted, length = set(), chosen["train"]["length"]
    for place in range(90):
        monkeypatch.setattr(torch, "sin", partial(_planted, place))
        splits = data.torch_dataset(train=parts["Windows"](length), split=chosen["split"])
        seen = {name for name, part in splits.by_name.items()
                if any((values == 99).any() for values in
                       part.__getitems__(range(len(part))).values())}  # fmt: skip
        assert len(seen) <= 1
        planted |= seen
    assert planted == {"train", "valid", "test"}


class Copies(Windows):
    """Windows that are copies, [time] or [channels, time], which begin at every n-th number."""

    def __init__(self, channels=0, every=1, gap=None, dtype=torch.float32):
        super().__init__(gap)
        self.series = self.series.to(dtype)
        self.series, self.channels, self.every = (self.series * 7).sin(), channels, every

    def __len__(self):
        return 82 // self.every

    def __getitem__(self, index):
        begin = index * self.every
        window = self.series[begin : begin + 8].clone()
        if self.channels:
            window = torch.stack([window] * self.channels)
        return {"window": window, "next": self.series[begin + 8].item()}


@pytest.mark.parametrize("channels", [0, 3, 12])
@pytest.mark.parametrize("every, least", [(1, 7), (3, 2), (4, 1)])
def test_windows_that_are_copies_are_refused_in_order_and_named_at_random(
    channels, every, least, caplog
):
    windows = Copies(channels, every)
    remedy = f"leave out {least} or more"
    with pytest.raises(errors.DataError, match=remedy):
        data.torch_dataset(train=windows, split="in_order")
    data.torch_dataset(train=Copies(channels, every, gap=least), split="in_order")
    data.torch_dataset(train=windows, split={"gap": 2 * least})
    assert not caplog.messages
    data.torch_dataset(train=windows)
    assert "samples 0 and 1 of Copies share values" in caplog.text


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float64])
def test_windows_of_any_precision_are_named(dtype, caplog):
    data.torch_dataset(train=Copies(dtype=dtype))
    assert "samples 0 and 1 of Copies share values" in caplog.text


@pytest.mark.parametrize("samples", [
    torch.zeros(9, 12), torch.eye(9, 12), torch.arange(12.0).expand(9, 12), torch.ones(9, 0),
    torch.arange(9.0), torch.arange(36.0).view(9, 4), torch.eye(9).expand(9, 9, 9),
    torch.arange(9 * 60).view(9, 3, 4, 5), torch.arange(12).expand(9, 12) % 2,
    torch.eye(9).flip(0), torch.arange(12.0).expand(9, 12) % 4,
], ids=lambda samples: str([*samples.shape]))  # fmt: skip
def test_samples_of_no_series_are_no_windows(samples, caplog):
    train = torch.utils.data.TensorDataset(samples, torch.zeros(9))
    data.torch_dataset(train=train, split="in_order", valid=0.3, test=0.3)
    data.torch_dataset(train=train, valid=0.3, test=0.3)
    assert "share values" not in caplog.text


@pytest.mark.parametrize("numbers, least", [
    (torch.arange(90.0), 8), (torch.arange(90.0).numpy(), 7),  # its next value is a copy
])  # fmt: skip
def test_windows_in_order_without_their_gap_are_refused(numbers, least, caplog):
    train = Windows()
    train.series = numbers
    remedy = re.escape(
        f"leave out {least} or more: 'data.split={{gap: {least}}}', or an attribute Windows.gap = "
    )
    for split in ("in_order", {"gap": 6}):
        with pytest.raises(errors.DataError, match=remedy):
            data.torch_dataset(train=train, split=split)
    for made in (
        data.torch_dataset(train=train, split={"gap": 8}),
        data.torch_dataset(train=Windows(gap=8), split="in_order"),
        data.torch_dataset(train=Windows(copied=True, gap=8), split={"gap": 3}),
    ):
        assert rows(made.valid)[0] - rows(made.train)[-1] == 9
        assert rows(made.test)[0] - rows(made.valid)[-1] == 9
    assert "share values" not in caplog.text
    data.torch_dataset(train=train)
    assert "samples 0 and 1 of Windows share values" in caplog.text


def test_tensors_of_another_device_are_not_compared(caplog):
    samples = [torch.empty(3, device="meta") for _ in range(9)]
    division = Division(len(samples))
    check_windows(samples, division, division.parts(valid=0.3, test=0.3, split_seed=0))
    assert caplog.text == ""


def test_sequences_are_padded_with_their_mask_and_ignored_labels():
    samples = [{"input_ids": [5, 6, 7], "labels": [1, 2, 3], "name": "a", "size": 1.5},
               {"input_ids": [8], "labels": [4], "name": "b", "size": 2.5}]  # fmt: skip
    batch = data.padded(samples, value=9)
    assert batch["input_ids"].tolist() == [[5, 6, 7], [8, 9, 9]]
    assert batch["attention_mask"].tolist() == [[1, 1, 1], [1, 0, 0]]
    assert batch["labels"].tolist() == [[1, 2, 3], [4, -100, -100]]
    assert (batch["name"], batch["size"].tolist()) == (("a", "b"), [1.5, 2.5])
    inputs, targets = data.padded([(torch.ones(2, 3), 1), (torch.ones(1, 3), 0)])
    assert (inputs.shape, inputs[1, 1].tolist(), targets.tolist()) == ((2, 2, 3), [0, 0, 0], [1, 0])
    splits = data.torch_dataset(train=samples * 10, collate="padded", valid=0.2, test=0.2)
    assert splits.train.__getitems__([0, 1])["input_ids"].tolist() == [[5, 6, 7], [8, 0, 0]]


def test_an_arrow_folder_has_the_classes_of_its_class_label(tmp_path):
    datasets = pytest.importorskip("datasets")
    rows = {"inputs": [[float(index)] for index in range(20)], "labels": [0, 1, 2, 1] * 5,
            "topic": [0, 1] * 10}  # fmt: skip
    made = datasets.Dataset.from_dict(rows).cast_column(
        "topic", datasets.ClassLabel(names=["x", "y"])
    )
    named = made.cast_column("labels", datasets.ClassLabel(names=["no", "yes", "both"]))
    facts = data.torch_dataset(train=named).facts
    assert (facts["num_classes"], facts["class_names"]) == (3, ["no", "yes", "both"])
    assert "num_classes" not in data.torch_dataset(train=made).facts  # labels are no ClassLabel
    only = made.remove_columns("labels")
    assert data.torch_dataset(train=only).facts["class_names"] == ["x", "y"]
    split = data.torch_dataset(train=only, split={"group": "topic"}, valid="test", test=0.5)
    assert {*split.test.__getitems__(range(10))["topic"].tolist()} in ({0}, {1})
