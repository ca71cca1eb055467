"""MLflow with its local store: the run that `mlflow ui` would show."""

import json
import os
import posixpath
import random
import re

import pytest
import torch

from andiron.protocols import Point
from andiron.writers.fanout import AcceptedNames
from andiron_lab import mlflow_writer
from andiron_lab.mlflow_writer import MlflowWriter
from class_names import CLASSES

mlflow = pytest.importorskip(
    "mlflow", reason="mlflow is an optional dependency: pip install andiron[mlflow]"
)
pytestmark = pytest.mark.filterwarnings("default")  # those of mlflow's own code


def stored(run_dir):
    """The store of a run folder, and the runs in it, oldest first."""
    client = mlflow.MlflowClient(f"sqlite:///{run_dir / 'mlflow' / 'store.db'}")
    ids = [experiment.experiment_id for experiment in client.search_experiments()]
    return client, client.search_runs(ids, order_by=["attributes.start_time"])


def logged(client, run, name):
    history = client.get_metric_history(run.info.run_id, name)
    return [(value.step, value.value) for value in sorted(history, key=lambda metric: metric.step)]


def artifacts(client, run, folder=None):
    return sorted(artifact.path for artifact in client.list_artifacts(run.info.run_id, folder))


def test_values_of_both_splits_stand_at_their_update(tmp_path):
    writer = MlflowWriter(tmp_path)
    writer.start_session({"lr": 0.1, "names": "x" * 10_000}, {"config": "a < b"})
    writer.write(Point("train", 20, 1, {"loss": 0.5, "acc@1": 1.0}))
    writer.write(Point("train", 21, 1, {"loss": 7.0}, whole_epoch=True))
    writer.write(Point("valid", 21, 1, {"loss": 0.75}, whole_epoch=True))
    writer.write(Point("train", 40, 2, {"loss": 0.25}))
    writer.end_session(succeeded=True)
    writer.close()

    client, (run,) = stored(tmp_path)
    assert logged(client, run, "train/loss") == [(20, 0.5), (40, 0.25)]
    assert logged(client, run, "valid/loss") == [(21, 0.75)]
    assert logged(client, run, "train/acc_1-861690d0") == [(20, 1.0)]
    assert logged(client, run, "train/epoch") == [(20, 1.0), (40, 2.0)]
    assert run.data.params == {"lr": "0.1", "names": "x" * 6000}
    assert (run.info.run_name, run.info.status) == (tmp_path.name, "FINISHED")
    assert mlflow.artifacts.load_text(f"{run.info.artifact_uri}/config.md") == "a < b"


def test_every_class_has_its_value_whatever_its_name(tmp_path):
    values = {name: float(place) for place, name in enumerate(CLASSES)}
    many = {f"recall/{place}": 1.0 for place in range(1000)}  # a call takes 1,000
    pages, picture = dict.fromkeys(CLASSES[-20:], "page"), torch.zeros(1, 2, 2, dtype=torch.uint8)
    pictures = dict.fromkeys(CLASSES[-20:], picture)
    writer = MlflowWriter(tmp_path)
    writer.start_session(dict.fromkeys(CLASSES, 1), {})
    writer.write(Point("valid", 3, 1, values | many, texts=pages, images=pictures))
    writer.end_session(succeeded=True)

    client, (run,) = stored(tmp_path)
    result = [run.data.metrics[writer._name(f"valid/{name}")] for name in CLASSES]
    assert result == [*values.values()] and run.data.metrics["valid/epoch"] == 1
    assert len(run.data.metrics) == len(values) + len(many) + 1
    assert len(run.data.params) == len(CLASSES)
    names = [*map(writer._file_name, (f"valid/{name}" for name in pages))]
    for name in names:
        stored_there = artifacts(client, run, name.rpartition("/")[0])
        assert {f"{name}-3.md", f"{name}-3.png"} <= {*stored_there}


def test_images_and_texts_become_artifacts(tmp_path):
    pixels = torch.arange(24, dtype=torch.uint8)
    writer = MlflowWriter(tmp_path)
    writer.write(
        Point(
            "valid",
            3,
            1,
            {},
            texts={"sample": "to be"},
            images={"colour": pixels.view(3, 2, 4), "grey": pixels[:8].view(1, 2, 4)},
        )
    )
    writer.end_session(succeeded=True)
    client, (run,) = stored(tmp_path)
    assert artifacts(client, run, "valid") == [
        "valid/colour-3.png", "valid/grey-3.png", "valid/sample-3.md",
    ]  # fmt: skip


def test_a_resumed_run_continues_under_its_id_and_logs_no_step_twice(tmp_path):
    first = MlflowWriter(tmp_path)
    for updates in (1, 2, 3):
        first.write(Point("train", updates, 1, {"loss": 1 / updates}))
        if updates == 2:
            position = json.loads(json.dumps(first.position()))
    first.close()
    client, (run,) = stored(tmp_path)
    assert run.info.status == "KILLED"

    second = MlflowWriter(tmp_path)
    second.rewind(position, 2)
    for updates in (3, 4):
        second.write(Point("train", updates, 1, {"loss": 1 / updates}))
    assert stored(tmp_path)[1][0].info.status == "RUNNING"
    second.write(Point("valid", 3, 1, {"loss": 0.5}, whole_epoch=True))
    second.end_session(succeeded=False)

    client, (run,) = stored(tmp_path)
    assert logged(client, run, "train/loss") == [(n, 1 / n) for n in (1, 2, 3, 4)]
    assert logged(client, run, "valid/loss") == [(3, 0.5)]
    assert (run.info.run_id, run.info.status) == (position["id"], "FAILED")


def test_runs_with_one_tracking_uri_share_an_experiment(tmp_path):
    uri = f"sqlite:///{tmp_path / 'all.db'}"
    for name in ("one", "two"):
        writer = MlflowWriter(tmp_path / name, experiment="digits", tracking_uri=uri)
        writer.write(Point("train", 1, 1, {"loss": float("nan")}))
        writer.end_session(succeeded=True)
    client = mlflow.MlflowClient(uri)
    experiment = client.get_experiment_by_name("digits")
    runs = client.search_runs([experiment.experiment_id])
    assert {run.info.run_name for run in runs} == {"one", "two"}


def test_logging_draws_no_random_number(tmp_path):
    before = random.getstate(), torch.get_rng_state()
    writer = MlflowWriter(tmp_path)
    writer.write(Point("train", 1, 1, {"loss": 0.5}))
    writer.close()
    assert random.getstate() == before[0] and torch.equal(torch.get_rng_state(), before[1])


def refused_by_mlflow(name):
    """Whether MLflow 3 refuses the name of a metric (mlflow/utils/validation.py)."""
    is_path = posixpath.normpath(name) == name and not name.startswith(("..", "/")) and name != "."
    return len(name) > 250 or not re.fullmatch(r"[/\w.\- :]+", name) or not is_path


def refused_by_a_disk(name):
    """Whether a part of a path is none, or too long for a file with a step and an ending."""
    parts = name.split("/")
    return any(part in ("", ".", "..") or len(os.fsencode(part)) > 230 for part in parts)


@pytest.mark.parametrize("form", ["{}", "valid/{}", "valid/recall/{}"])
@pytest.mark.parametrize(("refused", "most", "is_refused"), [
    (mlflow_writer.REFUSED, mlflow_writer.MOST_IN_NAME, refused_by_mlflow),
    (mlflow_writer.REFUSED_IN_FILE, mlflow_writer.MOST_IN_FILE, refused_by_a_disk),
])  # fmt: skip
def test_names_are_accepted_and_stay_different(refused, most, is_refused, form):
    texts = [form.format(name) for name in CLASSES]
    names = [*map(AcceptedNames("it", refused, most).__getitem__, texts)]
    assert len({*names}) == len({*texts}) and not any(map(is_refused, names))
