"""TensorBoard's files, read back with TensorBoard's own readers."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
from tensorboard.backend.event_processing.event_file_loader import RawEventFileLoader
from tensorboard.compat.proto.event_pb2 import Event
from tensorboard.plugins.hparams import api_pb2, metadata
from tensorboard.util import tensor_util

from andiron.protocols import Point
from andiron.writers import TensorBoardWriter

SOURCE = Path(__file__).resolve().parents[2] / "src"
POINTS = [
    Point("train", 20, 1, {"loss": 0.5, "accuracy": 0.25, "lr/base": 0.125}),
    Point("train", 21, 1, {"loss": 0.25, "accuracy": 0.5, "lr/base": 0.125}),
    Point("train", 21, 1, {"loss": 0.375, "accuracy": 0.375}, whole_epoch=True),
    Point("valid", 21, 1, {"loss": 0.75, "accuracy": 0.625}, whole_epoch=True),
    Point("train", 41, 2, {"loss": 0.125, "accuracy": 0.75, "lr/base": 0.0625}),
    Point("valid", 42, 2, {"loss": 1.0, "accuracy": 0.875}, whole_epoch=True),
    Point("test", 42, 2, {"loss": 2.0, "accuracy": 0.0}, whole_epoch=True),
]


def events(folder):
    """Every record in the folder's own files, as it was written."""
    files = sorted(folder.glob("events.out.tfevents.*"))
    return [Event.FromString(record) for file in files for record in RawEventFileLoader(str(file)).Load()]


def scalars(folder):
    """Steps and values by tag, as TensorBoard reads them."""
    accumulator = EventAccumulator(str(folder), size_guidance={"scalars": 0}).Reload()
    return {tag: [(event.step, event.value) for event in accumulator.Scalars(tag)] for tag in accumulator.Tags()["scalars"]}


def values(folder):
    return [value for event in events(folder) for value in event.summary.value]


def hparams(folder):
    """The messages to the HParams tab, by tag."""
    return {value.tag: value.metadata.plugin_data.content for value in values(folder)
            if value.metadata.plugin_data.plugin_name == "hparams"}  # fmt: skip


@pytest.fixture
def written(tmp_path):
    writer = TensorBoardWriter(tmp_path)
    for point in POINTS:
        writer.write(point)
    writer.close()
    return tmp_path


def test_tensorboard_reads_back_tags_steps_and_values(written):
    assert scalars(written / "train") == {
        "loss": [(20, 0.5), (21, 0.25), (41, 0.125)],
        "accuracy": [(20, 0.25), (21, 0.5), (41, 0.75)],
        "lr/base": [(20, 0.125), (21, 0.125), (41, 0.0625)],
        "epoch": [(20, 1.0), (21, 1.0), (41, 2.0)],
    }
    assert scalars(written / "valid") == {
        "loss": [(21, 0.75), (42, 1.0)],
        "accuracy": [(21, 0.625), (42, 0.875)],
        "epoch": [(21, 1.0), (42, 2.0)],
    }


def test_both_splits_use_the_same_tags(written):
    assert {"loss", "accuracy"} <= set(scalars(written / "train")) & set(scalars(written / "valid"))


def test_all_scalars_of_a_log_point_are_one_event(written):
    version, *points = events(written / "train")
    assert version.file_version == "brain.Event:2"
    assert [event.step for event in points] == [20, 21, 41]
    assert all({value.tag for value in event.summary.value} == {"loss", "accuracy", "lr/base", "epoch"} for event in points)


def test_the_test_set_is_not_shown(written):
    assert {path.name for path in written.iterdir() if path.is_dir()} == {"train", "valid"}
    shown = {value for part in ("train", "valid") for curve in scalars(written / part).values() for _, value in curve}
    assert 0.0 not in shown  # the accuracy on the test set


def test_every_point_is_on_the_disk_when_it_is_written(tmp_path):
    writer = TensorBoardWriter(tmp_path)
    for number in range(1, 5):
        writer.write(Point("train", number, 1, {"loss": number / 8}))
        assert [step for step, _ in scalars(tmp_path / "train")["loss"]] == list(range(1, number + 1))
    writer.close()


def test_texts_are_pages_of_the_text_tab(tmp_path):
    writer = TensorBoardWriter(tmp_path)
    writer.start_session({}, {"config": "```json\n{}\n```", "provenance": "| a | b |\n|---|---|\n| ä | 2 |"})
    writer.close()
    pages = {
        value.tag: tensor_util.make_ndarray(value.tensor).item().decode()
        for value in values(tmp_path) if value.metadata.plugin_data.plugin_name == "text"
    }  # fmt: skip
    assert pages == {
        "config/text_summary": "```json\n{}\n```",
        "provenance/text_summary": "| a | b |\n|---|---|\n| ä | 2 |",
    }


def test_hyperparameters_start_a_session_and_never_an_experiment(tmp_path):
    writer = TensorBoardWriter(tmp_path)
    writer.start_session({"lr": 1e-3, "seed": 7, "optimizer": "Adam", "amsgrad": False}, {})
    writer.end_session(succeeded=True)
    writer.close()
    messages = hparams(tmp_path)
    assert set(messages) == {"_hparams_/session_start_info", "_hparams_/session_end_info"}
    start = metadata.parse_session_start_info_plugin_data(messages["_hparams_/session_start_info"])
    found = {name: getattr(value, value.WhichOneof("kind")) for name, value in start.hparams.items()}
    assert found == {"lr": 0.001, "seed": 7.0, "optimizer": "Adam", "amsgrad": "False"}


@pytest.mark.parametrize("succeeded, status", [(True, api_pb2.STATUS_SUCCESS), (False, api_pb2.STATUS_FAILURE)])
def test_a_session_ends_as_the_run_did(tmp_path, succeeded, status):
    writer = TensorBoardWriter(tmp_path)
    writer.start_session({"lr": 0.1}, {})
    writer.end_session(succeeded=succeeded)
    writer.close()
    messages = hparams(tmp_path)
    start = metadata.parse_session_start_info_plugin_data(messages["_hparams_/session_start_info"])
    end = metadata.parse_session_end_info_plugin_data(messages["_hparams_/session_end_info"])
    assert end.status == status
    assert start.start_time_secs <= end.end_time_secs


def test_two_writers_of_one_process_share_no_file(tmp_path):
    one, other = TensorBoardWriter(tmp_path), TensorBoardWriter(tmp_path)
    one.write(POINTS[0])
    other.write(POINTS[4])
    one.close()
    other.close()
    assert len(list((tmp_path / "train").iterdir())) == 2
    assert {event.step for event in events(tmp_path / "train") if event.step} == {20, 41}


SCRIPT_THAT_IS_KILLED = """
import os, signal, sys
from pathlib import Path
from andiron.protocols import Point
from andiron.writers import JsonLinesWriter, TensorBoardWriter
folder = Path(sys.argv[1])
writers = [TensorBoardWriter(folder / "tensorboard"), JsonLinesWriter(folder / "metrics.jsonl")]
for updates in range(1, 1001):
    for writer in writers:
        writer.write(Point("train", updates, 1, {"loss": updates / 8, "accuracy": 0.5}))
os.kill(os.getpid(), signal.SIGKILL)
"""


def test_a_killed_process_has_lost_no_point(tmp_path):
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT_THAT_IS_KILLED, tmp_path],
        env={**os.environ, "PYTHONPATH": str(SOURCE)}, capture_output=True, timeout=60, check=False,
    )  # fmt: skip
    assert done.returncode == -signal.SIGKILL
    expected = [(updates, updates / 8) for updates in range(1, 1001)]
    assert scalars(tmp_path / "tensorboard" / "train")["loss"] == expected
    lines = [json.loads(line) for line in (tmp_path / "metrics.jsonl").read_text().splitlines()]
    assert [(line["updates"], line["loss"]) for line in lines] == expected
