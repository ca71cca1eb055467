"""The command `evaluate`: the run's metrics, by class, the worst errors; on other data."""

import csv
import json
import random
import re

import pytest
import torch
from in_process import called
from PIL import Image
from safetensors.torch import save_file
from torch.nn.functional import cross_entropy

import andiron
from andiron.data import DataLoaderBuilder, digits
from andiron.learner import LearnerBuilder
from andiron.metrics import Loss
from andiron.models import MLP
from andiron.optim import Ema, Optimizer
from andiron.shell.training import train
from andiron.tasks import Classifier
from andiron.wings.trained import evaluate, evaluating


@pytest.fixture(scope="module")
def flowers(tmp_path_factory):
    """A folder with tables of flowers, and a run that classifies three kinds."""
    folder = tmp_path_factory.mktemp("flowers")
    draws = random.Random(1)
    for name, kinds in (("three", "abc"), ("two", "cb"), ("other", "az")):
        rows = [f"{draws.gauss(ord(kind), 0.3)},{kind}" for kind in kinds * 30]
        (folder / f"{name}.csv").write_text("\n".join(["width,kind", *rows]) + "\n")
    options = ("data=csv", "data.path=three.csv", "data.target=kind", "num_epochs=20", "lr=0.03")
    ended = called(train.main, *options, "render=plain", "hydra.run.dir=run", cwd=folder)
    assert ended.code == 0, ended.errors
    return folder


def modified(folder):
    return {path: path.stat().st_mtime_ns for path in folder.rglob("*")}


def size_of(path):
    with Image.open(path) as picture:
        return picture.size


def of_json(ended):
    assert (ended.code, ended.errors) == (0, "")
    return json.loads(ended.output)


def test_the_metrics_equal_the_run_and_nothing_is_written_into_it(finished_digits, tmp_path):
    before = modified(finished_digits)
    rows = json.loads((finished_digits / "summary.json").read_text())["metrics"]

    for split in ("valid", "test"):
        for weights, of in (("last", split), ("ema", f"{split}-ema")):
            settings = (f"split={split}", f"weights={weights}", "--json")
            result = of_json(called(evaluate.main, finished_digits, *settings))
            expected = {row["metric"]: row["last"] for row in rows if row["split"] == of}
            assert (result["metrics"], result["split"]) == (expected, split)
    assert sum(value["support"] for value in result["classes"]) == result["samples"] == 359
    losses = [value["loss"] for value in result["worst"]]
    assert len(losses) == 10 and losses == sorted(losses, reverse=True)

    pictures = tmp_path / "pictures"
    ended = called(evaluate.main, finished_digits, "--worst", "3", "--pictures", pictures)
    assert "worst errors  true  predicted" in ended.output and not ended.errors
    assert max(map(len, ended.output.partition("\n")[2].splitlines())) <= 80
    assert [*map(size_of, sorted(pictures.iterdir()))] == [(8, 8)] * 3
    assert modified(finished_digits) == before


class Drawing(Classifier):
    """A step that draws in validation too, as that of a variational autoencoder does."""

    def predict(self, batch):
        noise = torch.randn_like(batch.inputs)
        return super().predict(batch._replace(inputs=batch.inputs + noise))


def test_the_metrics_equal_the_run_if_its_steps_draw(tmp_path):
    """Found by porting a VAE from Lightning: `evaluate` drew other numbers than the run had."""

    splits = digits(valid=0.1, split_seed=0)

    def model():
        return Drawing(MLP(splits.input_shape, splits.num_classes, hidden=[8]))

    built = model()
    builder = LearnerBuilder(tmp_path / "run", num_epochs=3, test_weights="best")
    builder.with_file_checkpointer().data(splits).metric_valid_numeric(Loss())
    builder.averages(ema=Ema(0.5))
    loading = DataLoaderBuilder(splits.batcher).batch_size(256)
    parts = [loading.build(part) for part in (splits.train, splits.valid, splits.test)]
    with builder.build(built, Optimizer(torch.optim.SGD, built), 4.0) as learner:
        learner.fit(*parts)
    rows = {row["split"]: row for row in learner.summary()["metrics"]}
    for part, weights, value in [
        ("valid", "last", rows["valid"]["last"]), ("valid", "best", rows["valid"]["best"]),
        ("test", "best", rows["test"]["last"]), ("valid", "ema", rows["valid-ema"]["last"]),
    ]:  # fmt: skip
        run = andiron.load(tmp_path / "run", weights=weights, model=model())
        assert evaluating.evaluate(run, splits, part).values == {"loss": value}, (part, weights)


def test_other_data_match_classes_by_name_and_use_training_preprocessing(flowers):
    settings = ("split=all", "--json")
    ended = called(evaluate.main, "run", "data.path=two.csv", *settings, cwd=flowers)
    result = of_json(ended)
    assert [(value["name"], value["support"]) for value in result["classes"]] == [
        ("a", 0), ("b", 30), ("c", 30),
    ]  # fmt: skip
    assert result["metrics"]["accuracy"] > 0.8
    assert {value["true"] for value in result["worst"]} <= {"b", "c"}
    chosen = ("data=csv", "data.path=two.csv", "data.target=kind")
    assert of_json(called(evaluate.main, "run", *chosen, *settings, cwd=flowers)) == result


def test_labels_in_columns_are_named_by_them(here):
    rows = [f"{i % 7},{int(i % 7 > 3)},{int(i % 2 == 0)}" for i in range(60)]
    (here / "sky.csv").write_text("\n".join(["cloud,rain,wind", *rows]) + "\n")
    options = ("data=csv_regression", "data.path=sky.csv", "data.target=[rain,wind]")
    options = (*options, "task=multilabel", "metrics=multilabel", "metrics.f1.average=none")
    assert called(train.main, *options, "num_epochs=1", "hydra.run.dir=run", cwd=here).code == 0
    result = of_json(called(evaluate.main, "run", "--json", cwd=here))

    assert {"f1/rain", "f1/wind"} <= {*result["metrics"]}
    assert [row["name"] for row in result["classes"]] == ["rain", "wind"]


def test_other_tables_are_encoded_as_the_training_rows_were(here):
    draws = random.Random(1)

    def table(name, towns, first):
        rows = [f"{town},{draws.gauss(first, 1):.2f},{len(town)}" for town in towns * 15]
        rows[3] = rows[3].split(",")[0] + ",,4"
        (here / name).write_text("\n".join(["town,area,price", *rows]) + "\n")

    table("houses.csv", ["Bonn", "Rome", "Berlin"], 10)
    table("more.csv", ["Rome", "Lima"], 90)
    options = ("data=csv", "data.path=houses.csv", "data.target=price", "data.kind=regression")
    options = (*options, "data.missing=median", "task=regression", "num_epochs=1")
    assert called(train.main, *options, "render=plain", "hydra.run.dir=run", cwd=here).code == 0
    result = of_json(called(evaluate.main, "run", "data.path=more.csv", "split=all", "--json"))

    rows = list(csv.DictReader((here / "more.csv").read_text().splitlines()))
    errors = [
        (value.values["price"] - float(row["price"])) ** 2
        for value, row in zip(andiron.load("run").predict("more.csv"), rows, strict=True)
    ]
    assert result["samples"] == 30
    assert result["metrics"]["mse"] == pytest.approx(sum(errors) / 30, rel=1e-5)  # float32


def test_images_of_another_pixel_range_are_scaled_to_that_of_the_run(finished_digits, here):
    run = andiron.load(finished_digits)
    digits = run.data.test.__getitems__(range(40))  # pixels from 0 to 16
    for number, (picture, label) in enumerate(zip(digits.inputs[:, 0], digits.targets.tolist())):
        path = here / "images" / str(label) / f"{number}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray((picture * 15).numpy()).save(path)  # of 0 to 240; 255 is white
    inputs = (digits.inputs * 15 / 255 - 0.3053) / 0.376
    expected = cross_entropy(run.model(inputs), digits.targets).item()

    folder = ("data=image_folder", "data.path=images", "data.size=8", "data.channels=1")
    result = of_json(called(evaluate.main, finished_digits, *folder, "split=all", "--json"))

    assert result["samples"] == 40
    assert result["metrics"]["loss"] == pytest.approx(expected, rel=1e-5)  # float32


def test_bytes_are_not_measured_by_a_run_on_floats(finished_digits, here):
    digits = andiron.load(finished_digits).data.train.__getitems__(range(300))
    images = {"floats": digits.inputs / 16, "bytes": digits.inputs * 15}
    for name, inputs in images.items():
        save_file({"inputs": inputs, "targets": digits.targets}, here / f"{name}.safetensors")
        options = ("data=safetensors", f"data.path={name}.safetensors", f"hydra.run.dir={name}")
        ended = called(train.main, *options, "num_epochs=1", "render=plain", cwd=here)
        assert ended.code == 0, ended.errors
    for run, other, is_measured in (
        ("floats", "data.path=floats.safetensors", True),
        ("floats", "data.path=bytes.safetensors", False),
        ("floats", "data=digits", False),  # 0 to 16
        ("bytes", "data=digits", False),
        (finished_digits, "data=safetensors data.path=floats.safetensors", False),
    ):
        ended = called(evaluate.main, run, *other.split(), cwd=here)
        has_range = "its stored numbers have another range than the run has" in ended.errors
        assert (ended.code == 0, has_range) == (is_measured, not is_measured), ended


def test_data_and_settings_that_do_not_fit_are_refused(flowers, finished_digits):
    for arguments, code, words in (
        (
            ("run", "data.path=other.csv"),
            1,
            "'z' is not a class of the training data; correct it, or",
        ),
        (("run", "data=diabetes"), 1, "input_shape is [10], where the run has [1]"),
        (("run", "data.targt=kind"), 2, "data.targt: no such option; did you mean 'target'?"),
        (("run", "data=cvs"), 2, "data=cvs: no such data; did you mean 'csv'?"),
        (("run", "data.path=none.csv"), 1, "none.csv"),
        (("run", "spilt=test"), 2, "was evaluated:\n  spilt=test: should be split=..., weights="),
        (("run", "split=tset"), 1, "split=tset: should be one of train, valid, test, all"),
        (("run", "--trust", "x", "split=all"), 2, "'split=all' is no package; give it before"),
        (("run", "--trust", "x", "two.csv"), 2, "'two.csv' is no package; give it before --trust"),
        (("run", "--pictures", "run/pictures"), 1, "is inside the run folder"),
        (("run", "--pictures", "pictures"), 1, "the data have no images"),
        (("none",), 1, "none: holds no run"),
    ):
        ended = called(evaluate.main, *arguments, cwd=flowers)
        assert ended.code == code and words in ended.errors, ended


def test_another_text_is_measured_with_the_characters_of_the_run(here):
    texts = {"first": "to be, or not to be\n", "second": "not to be\n", "odd": "to be?\n"}
    for name, words in texts.items():
        (here / f"{name}.txt").write_text(words * 30)
    options = ("data=text", "data.path=first.txt", "data.level=characters", "data.context_length=8")
    small = ("model.dim=8", "model.layers=1", "model.heads=1", "num_epochs=1")
    assert called(train.main, *options, *small, "hydra.run.dir=run", cwd=here).code == 0

    results = [
        of_json(called(evaluate.main, "run", *settings, "--json", cwd=here))["metrics"]
        for settings in (
            ("data.path=second.txt", "split=all"),
            ("data.valid_sets={second: second.txt}", "split=second"),
        )
    ]  # fmt: skip
    both, alone = results
    assert both.keys() == alone.keys() and both["loss"] == pytest.approx(alone["loss"], rel=0.1)
    refused = called(evaluate.main, "run", "data.path=odd.txt", cwd=here)
    assert "odd.txt: has 1 characters that the training text lacks ('?')" in refused.errors

    going_on = ("data.path=second.txt", "start_from=run", "validate_first=true", *small)
    ended = called(train.main, *options, *going_on, cwd=here)
    assert "for the same tokens: data.vocabulary=<the text that it was trained on>" in ended.errors
    words = ("data.vocabulary=first.txt", "hydra.run.dir=next", "render=plain")
    ended = called(train.main, *options, *going_on, *words, cwd=here)
    assert ended.code == 0 and "newly initialised" not in ended.output, ended.errors
    (first,) = re.findall("update 0: valid loss ([0-9.]+)", ended.output)
    same = of_json(
        called(evaluate.main, "run", "data.path=second.txt", "split=valid", "--json", cwd=here)
    )
    assert float(first) == round(same["metrics"]["loss"], 4)

    (here / "first.txt").write_text("?" + texts["first"] * 30)  # other tokens
    ended = called(train.main, "resume=next", "num_epochs=2", cwd=here)
    assert "it cannot be resumed with other data" in ended.errors
