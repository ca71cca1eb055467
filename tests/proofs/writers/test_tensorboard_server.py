"""The view of a person: the real TensorBoard server over a real sweep, asked over HTTP."""

import io
import json
import struct
import subprocess
import sys
import urllib.request
from pathlib import Path

import pytest
import torch
from in_process import called
from PIL import Image
from tensorboard_server import serving
from waiting import until

from andiron import randomness
from andiron.protocols import Point
from andiron.shell.training import train
from andiron.writers import TensorBoardWriter

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("preloaded_processes")]

ROOT = Path(__file__).resolve().parents[3]
JOBS = {"0": ("Adam", 1e-3), "1": ("Adam", 1e-4), "2": ("SGD", 1e-3), "3": ("SGD", 1e-4)}
# a proxy does not know this machine's loopback
OPENER = urllib.request.build_opener(urllib.request.ProxyHandler({}))
PARTS = ("", "/train", "/valid", "/hparams")
STATUSES = ["STATUS_UNKNOWN", "STATUS_SUCCESS", "STATUS_FAILURE", "STATUS_RUNNING"]


@pytest.fixture(scope="module")
def sweep(tmp_path_factory):
    """The folder of four runs: two optimizers, whose options differ, by two learning rates."""
    folder = tmp_path_factory.mktemp("sweep")
    choices = [
        "optimizer=adam,sgd", "lr=1e-3,1e-4", "num_epochs=1", "log_every=5",
        f"hydra.sweep.dir={folder}",
    ]  # fmt: skip
    subprocess.run(
        [sys.executable, ROOT / "train.py", "-m", *choices],
        cwd=folder,
        capture_output=True,
        timeout=300,
        check=True,
    )
    return folder


@pytest.fixture(scope="module")
def address(sweep, tmp_path_factory):
    """The address of a server of the sweep."""
    with serving(sweep, tmp_path_factory.mktemp("server") / "output.txt") as result:
        yield result


def ask(address, path, request=None):
    """The JSON under the path; with a request, as an answer to it."""
    data = None if request is None else json.dumps(request).encode()
    sent = urllib.request.Request(address + path, data, {"Content-Type": "application/json"})
    with OPENER.open(sent, timeout=30) as answer:
        return json.load(answer)


def all_runs(address):
    """The runs, once the server has read them all."""
    return until(lambda: (runs := ask(address, "data/runs")) and len(runs) == 16 and runs)


def session_groups(address):
    """The rows of the HParams tab by run, once they are all there with all their values."""
    request = {
        "experimentName": "", "allowedStatuses": STATUSES, "colParams": [], "startIndex": 0,
        "sliceSize": 100,
    }  # fmt: skip

    def rows():
        groups = ask(address, "data/plugin/hparams/session_groups", request).get(
            "sessionGroups", []
        )
        complete = [group for group in groups if len(group.get("metricValues", [])) == 6]
        return len(complete) == 4 and {group["name"].split("/")[0]: group for group in groups}

    return until(rows)


def last_values(run):
    """The last value of every split and metric in the summary, rounded to float32."""
    rows = json.loads((run / "summary.json").read_text())["metrics"]
    return {
        f"{row['split']}/{row['metric']}": struct.unpack("f", struct.pack("f", row["last"]))[0]
        for row in rows
    }


def test_every_job_is_a_run_with_a_curve_for_each_split(address):
    expected = {f"{job}/tensorboard{split}" for job in JOBS for split in PARTS}
    assert set(all_runs(address)) == expected


def test_loss_is_on_one_chart_for_both_splits(address):
    all_runs(address)
    tags = until(
        lambda: (result := ask(address, "data/plugin/scalars/tags"))
        and len(result) == 12
        and result
    )
    for job in JOBS:
        of_training = {
            tag for tag in tags[f"{job}/tensorboard/train"] if not tag.startswith("system/")
        }  # once a second
        assert of_training == {
            "loss", "accuracy", "lr/base", "grad_norm/base", "update_ratio/base", "time/step",
            "time/data", "time/samples_per_second", "epoch",
        }  # fmt: skip
        assert set(tags[f"{job}/tensorboard/valid"]) == {"loss", "accuracy", "epoch"}


def test_a_curve_has_the_points_that_were_logged(address, sweep):
    all_runs(address)
    until(lambda: len(ask(address, "data/plugin/scalars/tags")) == 12)
    lines = [json.loads(line) for line in (sweep / "0" / "metrics.jsonl").read_text().splitlines()]
    logged = [line for line in lines if line["split"] == "train" and line["over"] == "window"]
    curve = ask(address, "data/plugin/scalars/scalars?run=0%2Ftensorboard%2Ftrain&tag=loss")
    assert (
        [step for _, step, _ in curve]
        == [line["updates"] for line in logged]
        == [5, 10, 15, 20, 21]
    )
    assert [value for _, _, value in curve] == [
        struct.unpack("f", struct.pack("f", line["loss"]))[0] for line in logged
    ]


def test_the_hparams_tab_has_a_row_for_each_job_with_its_choices(address):
    rows = session_groups(address)
    assert {
        job: (row["hparams"]["optimizer"], row["hparams"]["lr"]) for job, row in rows.items()
    } == JOBS


def test_the_hparams_tab_has_a_column_for_the_options_of_every_job(address):
    session_groups(address)
    experiment = ask(address, "data/plugin/hparams/experiment", {"experimentName": ""})
    columns = {info["name"]: info for info in experiment["hparamInfos"]}
    only_adam, only_sgd = (
        {"optimizer.betas", "optimizer.eps", "optimizer.amsgrad"},
        {"optimizer.momentum", "optimizer.nesterov"},
    )
    assert only_adam | only_sgd | {
        "optimizer", "lr", "seed", "batch_size", "model", "model.hidden", "data.valid",
    } <= set(columns)  # fmt: skip
    assert {name for name, info in columns.items() if info.get("differs")} == {"optimizer", "lr"}
    for job, row in session_groups(address).items():
        mine, others = (only_adam, only_sgd) if JOBS[job][0] == "Adam" else (only_sgd, only_adam)
        assert mine <= set(row["hparams"])
        assert not others & set(row["hparams"])


def test_the_hparams_tab_has_the_metrics_of_the_summary_and_no_others(address, sweep):
    rows = session_groups(address)
    for job, row in rows.items():
        shown = {value["name"]["tag"]: value for value in row["metricValues"]}
        expected = last_values(sweep / job)
        assert {tag: value["value"] for tag, value in shown.items()} == expected
        assert {value["trainingStep"] for value in shown.values()} == {21}


def test_the_custom_scalars_tab_has_a_chart_for_each_metric(address):
    all_runs(address)
    layout = until(lambda: ask(address, "data/plugin/custom_scalars/layout"))
    charts = {value["title"]: [chart["title"] for chart in value["chart"]]
              for value in layout["category"]}  # fmt: skip
    assert charts["metrics"] == ["loss", "accuracy"]
    assert [*charts] == ["metrics", "training", "machine"]


def test_every_row_says_that_its_run_succeeded(address):
    sessions = [session for row in session_groups(address).values() for session in row["sessions"]]
    assert [session["status"] for session in sessions] == ["STATUS_SUCCESS"] * 4


def test_the_text_tab_has_the_pages_of_every_run(address):
    all_runs(address)
    pages = until(
        lambda: (result := ask(address, "data/plugin/text/tags")) and len(result) == 4 and result
    )
    names = "config", "param_groups", "provenance"
    expected = {f"{name}/text_summary" for name in names}
    assert {run: set(tags) for run, tags in pages.items()} == {
        f"{job}/tensorboard": expected for job in JOBS
    }


def test_the_histograms_tab_has_every_tensor_at_every_log_point(tmp_path):
    stream = randomness.stream(0, "values")
    weights = {updates: torch.randn(7, 13, generator=stream) for updates in (20, 40, 53)}
    writer = TensorBoardWriter(tmp_path / "runs")
    for updates, tensor in weights.items():
        drawn = {
            "weights/a": tensor, "weights/equal": torch.ones(5), "weights/none": torch.empty(0),
        }  # fmt: skip
        writer.write(Point("train", updates, 1, {"loss": 0.5}, histograms=drawn))
    writer.write(Point("valid-ema", 53, 1, {"loss": 0.25}, whole_epoch=True))
    writer.close()
    with serving(tmp_path / "runs", tmp_path / "output.txt") as address:
        tags = until(lambda: ask(address, "data/plugin/histograms/tags"))
        assert {run: set(tag) for run, tag in tags.items()} == {
            "train": {"weights/a", "weights/equal"}
        }
        shown = ask(address, "data/plugin/histograms/histograms?run=train&tag=weights%2Fa")
        equal = ask(address, "data/plugin/histograms/histograms?run=train&tag=weights%2Fequal")
        averaged = until(lambda: ask(address, "data/plugin/scalars/tags").get("valid-ema"))
    assert set(averaged) == {"loss", "epoch"}
    assert [(step, buckets) for _, step, buckets in equal] == [
        (updates, [[1.0, 1.0, 5.0]]) for updates in weights
    ]
    assert [step for _, step, _ in shown] == [*weights]
    for (_, _, buckets), tensor in zip(shown, weights.values(), strict=True):
        lefts, rights, counts = zip(*buckets, strict=True)
        assert (lefts[0], rights[-1], sum(counts)) == (tensor.min().item(), tensor.max().item(), 91)
        assert list(counts) == torch.histc(tensor.double(), 64).tolist()
        assert lefts[1:] == rights[:-1]


def test_what_models_generate_and_tables_are_shown_beside_the_curves(tmp_path):
    jobs = {
        "gan": ["task=adversarial"],
        "tables": ["metrics=classification_full"],
        "text": ["data=text", f"data.path={tmp_path}/text.txt", "data.context_length=16",
                 "model.layers=1", "model.dim=16"],
    }  # fmt: skip
    (tmp_path / "text.txt").write_text("to be, or not to be. " * 200)
    for name, choices in jobs.items():
        options = ["num_epochs=1", "render=plain", f"hydra.run.dir={tmp_path}/runs/{name}"]
        command = [sys.executable, ROOT / "train.py", *options, *choices]
        subprocess.run(command, cwd=tmp_path, capture_output=True, check=True, timeout=200)

    with serving(tmp_path / "runs", tmp_path / "output.txt") as address:
        images = until(lambda: ask(address, "data/plugin/images/tags"))
        texts = until(lambda: len(result := ask(address, "data/plugin/text/tags")) >= 5 and result)
        described = ask(
            address, "data/plugin/images/images?tag=generated&run=gan/tensorboard/valid&sample=0"
        )
        with OPENER.open(
            f"{address}data/plugin/images/individualImage?{described[0]['query']}", timeout=30
        ) as answer:
            picture = Image.open(io.BytesIO(answer.read()))
        pages = ask(
            address, "data/plugin/text/text?tag=sample/text_summary&run=text/tensorboard/valid"
        )
        matrix = ask(
            address,
            "data/plugin/text/text?tag=confusion_matrix/text_summary&run=tables/tensorboard/valid",
        )

    assert [*images] == ["gan/tensorboard/valid"] and [*images["gan/tensorboard/valid"]] == [
        "generated"
    ]
    assert [image["step"] for image in described] == [21]
    assert picture.size == (32, 32)  # four by four digits of 8x8
    assert "<code" in pages[0]["text"] and pages[0]["step"] > 0
    # a heading and ten classes, and the row that TensorBoard puts around a page
    assert matrix[0]["text"].count("<tr>") == 12
    assert {"confusion_matrix/text_summary", "per_class/text_summary"} <= set(
        texts["tables/tensorboard/valid"]
    )


def test_the_curve_of_a_fork_begins_at_its_fork_point_on_its_parents_axis(tmp_path):
    shared = "num_epochs=3", "log_every=5", "render=plain"
    starts = {"parent": ["checkpoint.last=3"], "fork": ["fork_from=runs/parent@epoch:2"]}
    for name, start in starts.items():
        options = *shared, *start, f"hydra.run.dir=runs/{name}"
        assert called(train.main, *options, cwd=tmp_path).code == 0

    with serving(tmp_path / "runs", tmp_path / "output.txt") as address:
        until(lambda: len(ask(address, "data/plugin/scalars/tags")) == 6)
        shown = {
            (run, split): [
                (step, value)
                for _, step, value in ask(
                    address,
                    f"data/plugin/scalars/scalars?run={run}%2Ftensorboard%2F{split}&tag=loss",
                )
            ]
            for run in starts
            for split in ("train", "valid")
        }

    assert [step for step, _ in shown["parent", "valid"]] == [21, 42, 63]
    assert [step for step, _ in shown["fork", "train"]] == [45, 50, 55, 60, 63]
    for split in ("train", "valid"):
        tail = [point for point in shown["parent", split] if point[0] > 42]
        assert shown["fork", split] == tail


def curves(address):
    """Steps and losses by split."""
    result = {}
    for run in ask(address, "data/plugin/scalars/tags"):
        if run.endswith("/hparams"):
            continue
        shown = ask(address, f"data/plugin/scalars/scalars?run={run.replace('/', '%2F')}&tag=loss")
        result[run.rpartition("/")[2]] = [(step, value) for _, step, value in shown]
    return result


def sessions(address):
    """The rows of the HParams tab: run, hyperparameters, statuses."""
    request = {
        "experimentName": "", "allowedStatuses": STATUSES, "colParams": [], "startIndex": 0,
        "sliceSize": 100,
    }  # fmt: skip
    groups = ask(address, "data/plugin/hparams/session_groups", request).get("sessionGroups", [])
    return [
        (group["name"], group["hparams"], [session["status"] for session in group["sessions"]])
        for group in groups
    ]


def logged(writer, first, last, factor):
    """Points of training at each update and of validation at every third; what was logged, by
    split.
    """
    points = [("train", updates) for updates in range(first, last + 1)]
    points += [
        (split, updates)
        for split in ("valid", "valid-ema")
        for updates in range(first, last + 1)
        if updates % 3 == 0
    ]
    for split, updates in points:
        writer.write(
            Point(split, updates, 1, {"loss": factor * updates}, whole_epoch=split != "train")
        )
    return {
        split: [(n, factor * n) for other, n in points if other == split]
        for split in ("train", "valid", "valid-ema")
    }


@pytest.mark.parametrize("fast", ["true", "false"])
@pytest.mark.parametrize("updates", [0, 2, 7])
def test_a_resumed_run_is_shown_once_by_servers_before_and_after(tmp_path, fast, updates):
    folder = tmp_path / "runs" / "a"
    writer = TensorBoardWriter(folder)
    writer.start_session({"lr": 0.5}, {"config": "page"})
    kept = logged(writer, 1, updates, 1.0)
    position = json.loads(json.dumps(writer.position()))
    beyond = logged(writer, updates + 1, 13, 1.0)  # and then it is killed: nothing is closed
    with serving(tmp_path / "runs", tmp_path / "before.txt", "--load_fast", fast) as address:
        until(lambda: curves(address) == {split: kept[split] + beyond[split] for split in kept})
        assert sessions(address) == [("a/hparams", {"lr": 0.5}, ["STATUS_UNKNOWN"])]

        resumed = TensorBoardWriter(folder)
        resumed.rewind(position, updates)
        again = logged(resumed, updates + 1, 20, 2.0)
        resumed.end_session(succeeded=True)
        resumed.close()
        writer.close()

        expected = {split: kept[split] + again[split] for split in kept}
        until(lambda: curves(address) == expected)
        until(lambda: sessions(address) == [("a/hparams", {"lr": 0.5}, ["STATUS_SUCCESS"])])
    with serving(tmp_path / "runs", tmp_path / "after.txt", "--load_fast", fast) as address:
        until(lambda: curves(address) == expected)
        until(lambda: sessions(address) == [("a/hparams", {"lr": 0.5}, ["STATUS_SUCCESS"])])
        assert until(lambda: ask(address, "data/plugin/text/tags")) == {
            "a": ["config/text_summary"]
        }


@pytest.mark.parametrize("fast", ["true", "false"])
def test_a_failed_and_resumed_run_is_one_row_with_its_final_status(tmp_path, fast):
    writer = TensorBoardWriter(tmp_path / "runs" / "a")
    writer.start_session({"lr": 0.5}, {})
    logged(writer, 1, 7, 1.0)
    position = writer.position()
    writer.end_session(succeeded=False)
    writer.close()
    resumed = TensorBoardWriter(tmp_path / "runs" / "a")
    resumed.rewind(position, 7)
    resumed.end_session(succeeded=True)
    resumed.close()
    with serving(tmp_path / "runs", tmp_path / "output.txt", "--load_fast", fast) as address:
        until(lambda: sessions(address))
        assert sessions(address) == [("a/hparams", {"lr": 0.5}, ["STATUS_SUCCESS"])]
