"""Facts describe the training samples of every data set, behind wrappers in any order."""

import dataclasses
import itertools
from functools import partial as bound

import pytest
import torch
from PIL import Image
from safetensors.torch import save_file

from andiron import data
from andiron.data.composed.derived_splits import few
from andiron.data.on_disk.table_encoding import TableEncoding

ROWS = 60
TOWNS = ["Rome", "Bonn", "Oslo", "Lima"]
WRAPPERS = {
    "balanced": bound(data.balanced, size=40, seed=1),
    "partial": bound(data.partial, fraction=0.5, seed=2),
    "kfold": bound(data.kfold, fold=1, num_folds=3, split_seed=3),
}
CHAINS = [(), *itertools.product(WRAPPERS), *itertools.product(WRAPPERS, repeat=2)]
CHAINS += [("kfold", "partial", "balanced"), ("partial", "balanced", "kfold")]
SPLIT = {"valid": 0.2, "split_seed": 0}


def area(row):
    """None in every fifth row."""
    return None if row % 5 == 0 else float((row * 37) % 101)


def town(row):
    """A rare one in a single row of each twenty, none in every seventh."""
    return "" if row % 7 == 0 else f"rare {row}" if row % 20 == 3 else TOWNS[row * row % 4]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("facts")
    table = ["row,area,town,kind,price"]
    for row in range(ROWS):
        shown = "" if area(row) is None else area(row)
        table.append(f"{row},{shown},{town(row)},{'aab'[row % 3]},{row * row / 7}")
    (folder / "table.csv").write_text("\n".join(table))
    (folder / "night.csv").write_text("\n".join([table[0], *table[5:30]]))
    arrays = {"inputs": torch.arange(ROWS)[:, None].float(), "targets": torch.rand(ROWS, 2)}
    save_file(arrays, folder / "numbers.safetensors")
    save_file(
        {"inputs": arrays["inputs"], "targets": torch.arange(ROWS, dtype=torch.uint8) % 3},
        folder / "classes.safetensors",
    )
    (folder / "text.txt").write_text("to be or not to be " * 20)
    for name, number in {"cat": 14, "dog": 9, "owl": 5}.items():
        (folder / "pictures" / name).mkdir(parents=True)
        for place in range(number):
            picture = Image.new("RGB", (4, 4), (place * 9, 0, 0))
            picture.save(folder / "pictures" / name / f"{place}.png")
    return folder


def pictures(folder, **options):
    return data.image_folder(path=str(folder / "pictures"), size=4, test=0.2, **SPLIT, **options)


def table(folder, **options):
    return data.csv(
        path=str(folder / "table.csv"), valid_sets={"night": str(folder / "night.csv")},
        **SPLIT, **options,
    )  # fmt: skip


class Own(torch.utils.data.Dataset):
    classes = ["low", "high"]
    targets = [index % 3 // 2 for index in range(ROWS)]

    def __len__(self):
        return ROWS

    def __getitem__(self, index):
        return torch.tensor([float(index)]), self.targets[index]


MADE = {
    "digits": lambda folder: data.digits(**SPLIT),
    "diabetes": lambda folder: data.diabetes(**SPLIT),
    "csv": lambda folder: table(folder, target="kind", missing="median"),
    "csv codes": lambda folder: table(folder, target="kind", missing="mean", categories="codes"),
    "csv numbers": lambda folder: table(folder, target=["price"], missing="median"),
    "safetensors": lambda folder: data.safetensors(
        path=str(folder / "numbers.safetensors"), **SPLIT
    ),
    "safetensors read": lambda folder: data.safetensors(
        path=str(folder / "classes.safetensors"), in_memory=False, **SPLIT
    ),
    "image_folder": pictures,
    "text": lambda folder: data.text(path=str(folder / "text.txt"), context_length=3, valid=0.2),
    "torch_dataset": lambda folder: data.torch_dataset(train=Own(), **SPLIT),
}


def gathered(dataset):
    raw = dataset.__getitems__(range(len(dataset)))
    return raw.inputs, raw.targets


def expected_of_table(splits):
    """The facts and the batcher by the training rows, which the first column numbers."""
    inputs, targets = gathered(splits.train)
    rows = [round(float(input_)) for input_ in inputs[:, 0]]
    encoding = TableEncoding.of_facts(splits.facts)
    known = torch.tensor([area(row) for row in rows if area(row) is not None]).double()
    fill = known.mean() if encoding.missing == "mean" else known.quantile(0.5)
    filled = [float(fill) if area(row) is None else area(row) for row in rows]
    quantities = torch.tensor([rows, filled], dtype=torch.float64).T
    names = {town(row) for row in rows} - {""}
    assert encoding.columns[2].categories == tuple(sorted(names))
    assert encoding.columns[1].fill == pytest.approx(float(fill), rel=1e-12)
    assert inputs[:, 1].tolist() == pytest.approx(filled)
    if "category_counts" in splits.facts:
        counts = [0, 0, len(names) + 1, *[0] * (inputs.shape[1] - 3)]
        assert splits.facts["category_counts"] == counts
    mean, std = quantities.mean(0), quantities.std(0, correction=0)
    for result, exact in (splits.batcher.mean, mean), (splits.batcher.std, std):
        assert result[:2] == pytest.approx(exact.tolist(), rel=1e-9)
    assert splits.facts["mean"] == [*splits.batcher.mean]
    assert splits.facts["std"] == [*splits.batcher.std]
    assert len(splits.batcher.mean) == inputs.shape[1] == splits.facts["input_shape"][0]
    night, _ = gathered(splits.more["night"])  # rows 4 to 28, encoded as the training rows
    assert night.shape == (25, inputs.shape[1])
    shown = [float(fill) if area(row) is None else area(row) for row in range(4, 29)]
    assert night[:, 1].tolist() == pytest.approx(shown)


@pytest.mark.parametrize("name", MADE)
def test_every_fact_is_that_of_the_samples_that_train(name, folder):
    whole = MADE[name](folder)
    checked = 0
    for chain in CHAINS:
        splits = whole
        try:
            for wrapper in chain:
                splits = WRAPPERS[wrapper](splits)
        except ValueError as error:
            assert "no classes to balance" in str(error) and "balanced" in chain
            continue
        checked += 1
        inputs, targets = gathered(splits.train)
        facts = splits.offered
        if targets.dim() == 1 and name != "torch_dataset":
            counts = torch.bincount(targets.long(), minlength=facts["num_classes"]).tolist()
            assert facts["class_counts"] == counts, chain
        else:
            assert facts.get("class_counts") is None, chain
        if targets.is_floating_point():
            exact = targets.double()
            assert facts["target_mean"] == pytest.approx(exact.mean(0).tolist(), rel=1e-6), chain
            std = exact.std(0, correction=0).tolist()
            assert facts["target_std"] == pytest.approx(std, rel=1e-6), chain
        if name.startswith("csv"):
            expected_of_table(splits)
        if name == "diabetes":
            mean = inputs.double().mean(0).tolist()
            assert splits.batcher.mean == pytest.approx(mean, rel=1e-5), chain
    assert checked >= 5


def test_replaced_parts_keep_their_own_facts(folder):
    whole = table(folder, target="kind", missing="median")
    doubled = data.Concatenated([whole.train, whole.train])
    own = dataclasses.replace(whole, train=doubled)
    fold = data.kfold(own, fold=0, num_folds=3, split_seed=0)
    assert fold.facts == own.facts and fold.batcher == own.batcher
    assert len(fold.train) + len(fold.valid) == len(doubled) + len(whole.valid)
    assert sum(own.class_counts) == len(doubled)


def test_changes_of_a_data_set_are_made_again_behind_a_wrapper(folder):
    whole = table(folder, target="kind", missing="median")
    negated = whole.mapped(
        lambda part: data.Mapped(part, lambda raw: raw._replace(inputs=-raw.inputs))
    )
    fold, plain = (
        data.kfold(value, fold=0, num_folds=3, split_seed=0) for value in (negated, whole)
    )
    for part in ("train", "valid", "test", "night"):
        assert torch.equal(gathered(fold.by_name[part])[0], -gathered(plain.by_name[part])[0])
    assert fold.facts == plain.facts


def test_a_few_samples_keep_the_facts_of_all(folder):
    whole = pictures(folder)
    assert few(whole, 3).offered["class_counts"] == whole.class_counts
