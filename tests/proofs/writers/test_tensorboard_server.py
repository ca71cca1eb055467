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


HISTOGRAMS = {
    updates: torch.randn(7, 13, generator=randomness.stream(updates, "values"))
    for updates in (20, 40, 53)
}
JOBS_WITH_MORE = {
    "pictures": ["metrics=classification_pictures"],
    "tables": ["metrics=classification_full"],
    "text": ["data=text", "data.path=text.txt", "data.context_length=16", "model.layers=1",
             "model.dim=16"],
    "parent": ["num_epochs=3", "log_every=5", "checkpoint.last=3"],
    "fork": ["num_epochs=3", "log_every=5", "fork_from=runs/parent@epoch:2"],
}  # fmt: skip


@pytest.fixture(scope="module")
def more(tmp_path_factory):
    """The address of a server of runs that show pictures, texts, tables, a fork, histograms."""
    folder = tmp_path_factory.mktemp("more")
    (folder / "text.txt").write_text("to be, or not to be. " * 200)
    for name, choices in JOBS_WITH_MORE.items():
        options = "num_epochs=1", "render=plain", f"hydra.run.dir=runs/{name}"
        ended = called(train.main, *options, *choices, cwd=folder)
        assert ended.code == 0, ended.errors
    writer = TensorBoardWriter(folder / "runs" / "drawn")
    for updates, tensor in HISTOGRAMS.items():
        drawn = {
            "weights/a": tensor, "weights/equal": torch.ones(5), "weights/none": torch.empty(0),
        }  # fmt: skip
        writer.write(Point("train", updates, 1, {"loss": 0.5}, histograms=drawn))
    writer.write(Point("valid-ema", 53, 1, {"loss": 0.25}, whole_epoch=True))
    writer.close()
    with serving(folder / "runs", folder / "output.txt") as result:
        yield result


def test_the_histograms_tab_has_every_tensor_at_every_log_point(more):
    tags = until(lambda: ask(more, "data/plugin/histograms/tags").get("drawn/train"))
    assert {*tags} == {"weights/a", "weights/equal"}
    shown, equal = (
        ask(more, f"data/plugin/histograms/histograms?run=drawn%2Ftrain&tag=weights%2F{name}")
        for name in ("a", "equal")
    )
    averaged = until(lambda: ask(more, "data/plugin/scalars/tags").get("drawn/valid-ema"))
    assert set(averaged) == {"loss", "epoch"}
    assert [(step, buckets) for _, step, buckets in equal] == [
        (updates, [[1.0, 1.0, 5.0]]) for updates in HISTOGRAMS
    ]
    assert [step for _, step, _ in shown] == [*HISTOGRAMS]
    for (_, _, buckets), tensor in zip(shown, HISTOGRAMS.values(), strict=True):
        lefts, rights, counts = zip(*buckets, strict=True)
        assert (lefts[0], rights[-1], sum(counts)) == (tensor.min().item(), tensor.max().item(), 91)
        assert list(counts) == torch.histc(tensor.double(), 64).tolist()
        assert lefts[1:] == rights[:-1]


def test_pictures_tables_and_generated_text_are_shown_beside_the_curves(more):
    images = until(lambda: ask(more, "data/plugin/images/tags"))
    query = "tag=worst_errors/images&run=pictures/tensorboard/valid&sample=0"
    (described,) = ask(more, f"data/plugin/images/images?{query}")
    picture_of = f"{more}data/plugin/images/individualImage?{described['query']}"
    with OPENER.open(picture_of, timeout=30) as answer:
        picture = Image.open(io.BytesIO(answer.read()))
    assert images["pictures/tensorboard/valid"].keys() == {"worst_errors/images"}
    assert described["step"] == 21
    assert picture.size == (32, 32)  # four by four digits of 8x8

    def texts(run, tag):
        tags = until(lambda: ask(more, "data/plugin/text/tags").get(f"{run}/tensorboard/valid"))
        query = f"tag={tag}/text_summary&run={run}/tensorboard/valid"
        return tags, ask(more, f"data/plugin/text/text?{query}")

    _, (page, *_) = texts("text", "sample")
    tags, (matrix, *_) = texts("tables", "confusion_matrix")
    assert "<code" in page["text"] and page["step"] > 0
    # a heading and ten classes, and the row that TensorBoard puts around a page
    assert matrix["text"].count("<tr>") == 12
    assert {"confusion_matrix/text_summary", "per_class/text_summary"} <= {*tags}


def test_the_curve_of_a_fork_begins_at_its_fork_point_on_its_parents_axis(more):
    def curve(run, split):
        query = f"run={run}%2Ftensorboard%2F{split}&tag=loss"
        shown = ask(more, f"data/plugin/scalars/scalars?{query}")
        return [(step, value) for _, step, value in shown]

    until(lambda: "fork/tensorboard/valid" in ask(more, "data/plugin/scalars/tags"))
    assert [step for step, _ in curve("parent", "valid")] == [21, 42, 63]
    assert [step for step, _ in curve("fork", "train")] == [45, 50, 55, 60, 63]
    for split in ("train", "valid"):
        assert curve("fork", split) == [at for at in curve("parent", split) if at[0] > 42]


SPLITS = ("train", "valid", "valid-ema")


def curves(address, run):
    """Steps and losses of a run by split."""
    result = {}
    for name in ask(address, "data/plugin/scalars/tags"):
        if name.startswith(f"{run}/") and not name.endswith("/hparams"):
            query = f"run={name.replace('/', '%2F')}&tag=loss"
            shown = ask(address, f"data/plugin/scalars/scalars?{query}")
            result[name.rpartition("/")[2]] = [(step, value) for _, step, value in shown]
    return result


def sessions(address):
    """The rows of the HParams tab by run: hyperparameters, statuses."""
    request = {
        "experimentName": "", "allowedStatuses": STATUSES, "colParams": [], "startIndex": 0,
        "sliceSize": 100,
    }  # fmt: skip
    groups = ask(address, "data/plugin/hparams/session_groups", request).get("sessionGroups", [])
    return {
        group["name"].partition("/")[0]: (
            group["hparams"], [session["status"] for session in group["sessions"]]
        )
        for group in groups
    }  # fmt: skip


def logged(writer, first, last, factor):
    """Points of training at each update and of validation at every third; what was logged, by
    split.
    """
    points = [("train", updates) for updates in range(first, last + 1)]
    points += [
        (split, updates) for split in SPLITS[1:] for updates in range(first, last + 1)
        if updates % 3 == 0
    ]  # fmt: skip
    for split, updates in points:
        writer.write(
            Point(split, updates, 1, {"loss": factor * updates}, whole_epoch=split != "train")
        )
    return {split: [(n, factor * n) for other, n in points if other == split] for split in SPLITS}


def resume(folder, position, updates, last):
    """The points that a writer logs which resumes the run and ends it well."""
    writer = TensorBoardWriter(folder)
    writer.rewind(position, updates)
    again = logged(writer, updates + 1, last, 2.0)
    writer.end_session(succeeded=True)
    writer.close()
    return again


@pytest.mark.parametrize("fast", ["true", "false"])
def test_a_resumed_run_is_shown_once_by_servers_before_and_after(tmp_path, fast):
    """Runs are killed after 13 updates and resumed after 0, 2 or 7; one had failed instead."""
    folder, ends = tmp_path / "runs", {"0": 0, "2": 2, "7": 7, "failed": 7}
    writers, kept, beyond, positions = {}, {}, {}, {}
    for run, updates in ends.items():
        writers[run] = writer = TensorBoardWriter(folder / run)
        writer.start_session({"lr": 0.5}, {"config": "page"})
        kept[run] = logged(writer, 1, updates, 1.0)
        positions[run] = json.loads(json.dumps(writer.position()))
        beyond[run] = logged(writer, updates + 1, 13, 1.0)  # nothing is closed after a kill
    writers["failed"].end_session(succeeded=False)
    with serving(folder, tmp_path / "before.txt", "--load_fast", fast) as address:
        for run in ends:
            before = {split: kept[run][split] + beyond[run][split] for split in SPLITS}
            until(lambda run=run, before=before: curves(address, run) == before)
        unended = dict.fromkeys(ends, ({"lr": 0.5}, ["STATUS_UNKNOWN"]))
        unended["failed"] = ({"lr": 0.5}, ["STATUS_FAILURE"])
        until(lambda: sessions(address) == unended)

        after = {}
        for run, updates in ends.items():
            again = resume(folder / run, positions[run], updates, 20)
            after[run] = {split: kept[run][split] + again[split] for split in SPLITS}
            writers[run].close()
        shown = dict.fromkeys(ends, ({"lr": 0.5}, ["STATUS_SUCCESS"]))
        for run in ends:
            until(lambda run=run: curves(address, run) == after[run])
        # a server that runs shows the first end of a session
        until(lambda: sessions(address) == shown | {"failed": unended["failed"]})
    with serving(folder, tmp_path / "after.txt", "--load_fast", fast) as address:
        for run in ends:
            until(lambda run=run: curves(address, run) == after[run])
        until(lambda: sessions(address) == shown)
        pages = until(lambda: ask(address, "data/plugin/text/tags"))
        assert pages == {run: ["config/text_summary"] for run in ends}
