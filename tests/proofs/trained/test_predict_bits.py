"""`run.predict` and `evaluate` on the data of a pass give the bits of that pass."""

import csv
from pathlib import Path

import pytest
import torch
from in_process import called
from PIL import Image

import andiron
from andiron.commands import train
from andiron.learner import evaluation
from andiron.trained import evaluating

SHORT = ("num_updates=2", "batch_size=16", "render=plain", "writers=[json_lines]")
FOLDER = "hydra.run.dir=run"


@pytest.fixture
def passes(monkeypatch):
    """The outputs of every pass that measures, in order: validation last but one, test last."""
    found, measure = [], evaluation.measure

    def spied(model, loader, tally, **options):
        add, outputs = tally.add, []

        def adds(item, batch=None):
            outputs.append(item.output.clone())
            add(item, batch)

        monkeypatch.setattr(tally, "add", adds)
        values = measure(model, loader, tally, **options)
        found.append(torch.cat(outputs))
        return values

    monkeypatch.setattr(evaluation, "measure", spied)
    return found


def table(path, rows):
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, rows[0])
        writer.writeheader()
        writer.writerows(rows)


def as_they_are(run, part):
    return part.__getitems__(range(len(part))).inputs


def as_arrays(run, part):
    return as_they_are(run, part).numpy()


def as_mappings(run, part):
    columns = run.preprocessing.facts["columns"]
    rows = as_they_are(run, part).double().tolist()
    return [dict(zip(columns, row, strict=True)) for row in rows]


def as_csv(run, part):
    table(Path("new.csv"), as_mappings(run, part))
    return "new.csv"


def as_files(run, part):
    return [part.root / name for name in part.names]


def flowers():
    generator = torch.Generator().manual_seed(1)
    numbers = torch.randn(61, 3, generator=generator).tolist()
    kinds = ["rose", "tulip"] * 31
    return [
        {"width": a, "height": b, "kind": kind, "depth": c}
        for (a, b, c), kind in zip(numbers, kinds, strict=False)
    ]


def make_pictures():
    generator = torch.Generator().manual_seed(1)
    for number in range(40):
        folder = Path("pictures", ["cat", "dog", "owl"][number % 3])
        folder.mkdir(parents=True, exist_ok=True)
        pixels = torch.randint(0, 256, (11 + number % 3, 13, 3), generator=generator)
        Image.fromarray(pixels.to(torch.uint8).numpy()).save(folder / f"{number}.png")


CASES = {
    "digits": (("model=convnet", "precision=bf16"), as_they_are),
    "channels last": (("model=convnet", "channels_last=true"), as_arrays),
    "labels": (("data=digit_pairs", "task=multilabel", "data.num_pairs=60"), as_arrays),
    "diabetes": (("data=diabetes", "task=regression"), as_mappings),
    "yes or no": (("data=csv", "data.path=flowers.csv", "data.target=kind", "task=binary"), as_csv),
    "pictures": (("data=image_folder", "data.path=pictures", "data.size=9"), as_files),
    "text": (
        ("data=text", "data.path=poem.txt", "data.context_length=16", "data.level=characters",
         "model.dim=16", "model.layers=1", "model.heads=2"), as_they_are),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_predictions_and_metrics_are_the_bits_of_the_run(case, passes, here):
    options, given = CASES[case]
    table(Path("flowers.csv"), flowers())
    make_pictures()
    Path("poem.txt").write_text("So much depends upon a red wheel barrow\n" * 40)
    ended = called(train.main, *options, *SHORT, FOLDER, cwd=here)
    assert ended.code == 0, ended.errors
    valid, test = passes[-2:]
    run = andiron.load("run")

    for part, expected in ((run.data.valid, valid), (run.data.test, test)):
        found = run.predict(given(run, part))
        assert torch.equal(torch.stack([each.output for each in found]), expected)
    measured = evaluating.evaluate(run, run.data, "test", worst=3)
    rows = [row for row in run.summary["metrics"] if row["split"] == "test"]
    assert measured.values == {row["metric"]: row["last"] for row in rows}
    assert len(measured.worst) == 3
    assert {each.true for each in measured.worst} != {""}
    if case == "yes or no":
        assert {each.label for each in found} <= {"rose", "tulip"}
        assert found[0].name == "new.csv, line 2"
