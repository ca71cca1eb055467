"""Weights & Biases in its offline mode: the run that `wandb sync` would upload."""

import json
import random
import struct
import time

import pytest
import torch
from in_process import called

from andiron.protocols import Point
from andiron.shell.training import train
from andiron_lab.wandb_writer import WandbWriter

pytest.importorskip("wandb", reason="wandb is an optional dependency: pip install andiron[wandb]")
BLOCK, WHOLE, LAST = 2**15, 1, 4  # of a LevelDB log
pytestmark = pytest.mark.filterwarnings("default")  # those of wandb's own code


@pytest.fixture(autouse=True)
def no_network(monkeypatch):
    monkeypatch.setenv("WANDB_DISABLE_GIT", "true")
    monkeypatch.delenv("WANDB_API_KEY", raising=False)


def pieces(file):
    """The parts of a LevelDB log after W&B's own header: a type and a content each.

    A part has a checksum in 4 bytes, its length in 2 and its type in 1; none crosses a block.
    """
    content, place = file.read_bytes(), 7
    while place + 7 <= len(content):
        left = BLOCK - place % BLOCK
        if left < 7:
            place += left
            continue
        length, kind = struct.unpack("<HB", content[place + 4 : place + 7])
        place += 7 + length
        if place > len(content):
            return
        yield kind, content[place - length : place]


def records(run_dir):
    """The content of each offline run of a folder, oldest first."""
    files = run_dir.glob("wandb/offline-run-*/*.wandb")
    for file in sorted(files, key=lambda file: file.stat().st_mtime):
        while not exit_codes(result := list(records_of(file))):
            time.sleep(0.05)  # W&B's own process may still write after `finish` has returned
        yield result


def records_of(file):
    """The records that are whole."""
    from wandb.proto import wandb_internal_pb2

    content = b""
    for kind, piece in pieces(file):
        content += piece
        if kind in (WHOLE, LAST):
            yield wandb_internal_pb2.Record.FromString(content)
            content = b""


def history(actual):
    """The logged values by step."""
    steps = {}
    for record in actual:
        if record.WhichOneof("record_type") == "history":
            values = {
                "/".join(item.nested_key) or item.key: json.loads(item.value_json)
                for item in record.history.item
            }
            steps[values["_step"]] = values
    return steps


def exit_codes(actual):
    return [value.exit.exit_code for value in actual if value.WhichOneof("record_type") == "exit"]


def test_values_of_both_splits_stand_at_their_update(tmp_path):
    writer = WandbWriter(tmp_path, mode="offline")
    writer.start_session({"lr": 0.1, "model": "MLP"}, {"config": "a < b"})
    writer.write(Point("train", 20, 1, {"loss": 0.5}))
    writer.write(Point("train", 21, 1, {"loss": 7.0}, whole_epoch=True))
    writer.write(Point("valid", 21, 1, {"loss": 0.75}, whole_epoch=True))
    writer.write(Point("train", 40, 2, {"loss": 0.25}))
    writer.end_session(succeeded=True)
    writer.close()

    (actual,) = records(tmp_path)
    steps = history(actual)
    assert steps[20]["train/loss"] == 0.5 and steps[20]["train/epoch"] == 1
    assert "train/loss" not in steps[21] and steps[21]["valid/loss"] == 0.75
    assert steps[40]["train/loss"] == 0.25
    config = {
        update.key: json.loads(update.value_json)
        for record in actual
        for update in (*record.config.update, *record.run.config.update)
    }
    assert config["lr"] == 0.1 and config["model"] == "MLP"
    assert exit_codes(actual) == [0]
    (page,) = tmp_path.glob("wandb/offline-run-*/files/media/html/text/config_*.html")
    assert "a &lt; b" in page.read_text()


def test_images_texts_and_histograms_go_along(tmp_path):
    writer = WandbWriter(tmp_path, mode="offline")
    pixels = torch.arange(24, dtype=torch.uint8)
    writer.write(
        Point(
            "valid",
            3,
            1,
            {"loss": 1.0},
            histograms={"weight": torch.tensor([1.0, float("nan"), 2.0], requires_grad=True)},
            texts={"sample": "to be"},
            images={"colour": pixels.view(3, 2, 4), "grey": pixels[:8].view(1, 2, 4)},
        )
    )
    writer.end_session(succeeded=True)

    (actual,) = records(tmp_path)
    (values,) = history(actual).values()
    assert sum(values["valid/weight/values"]) == 2
    (folder,) = tmp_path.glob("wandb/offline-run-*/files/media")
    names = sorted(path.name.partition("_")[0] for path in folder.rglob("*.*"))
    assert names == ["colour", "grey", "sample"]


def test_a_resumed_run_continues_under_its_id(tmp_path):
    first = WandbWriter(tmp_path, mode="offline")
    first.write(Point("train", 20, 1, {"loss": 0.5}))
    position = json.loads(json.dumps(first.position()))
    first.close()
    second = WandbWriter(tmp_path, mode="offline")
    second.rewind(position, 20)
    second.write(Point("train", 40, 2, {"loss": 0.25}))
    second.end_session(succeeded=False)

    interrupted, failed = records(tmp_path)
    assert history(interrupted)[20]["train/loss"] == 0.5
    assert history(failed)[40]["train/loss"] == 0.25
    ids = {record.run.run_id for result in (interrupted, failed) for record in result} - {""}
    assert ids == {position["id"]}
    assert exit_codes(interrupted) == exit_codes(failed) == [1]
    assert any(record.HasField("preempting") for record in interrupted)


def test_a_fork_is_a_run_of_its_own_from_its_fork_point_on(tmp_path):
    starts = {"parent": ["checkpoint.last=3"], "fork": ["fork_from=parent@epoch:2"]}
    own = "writers=wandb", "writers.wandb.mode=offline", "num_epochs=3", "render=plain"
    for name, start in starts.items():
        options = *own, *start, f"hydra.run.dir={name}"
        assert called(train.main, *options, cwd=tmp_path).code == 0

    (parent,), (fork,) = (records(tmp_path / name) for name in starts)
    ids = [{value.run.run_id for value in result} - {""} for result in (parent, fork)]
    assert len(ids[0] | ids[1]) == 2
    before, after = (
        {step: values["valid/loss"] for step, values in history(result).items()
         if "valid/loss" in values}
        for result in (parent, fork)
    )  # fmt: skip
    assert sorted(before) == [21, 42, 63] and after == {63: before[63]}
    assert [step for step, values in history(fork).items() if "train/loss" in values] == [60, 63]


def test_options_are_arguments_of_wandb_init(tmp_path):
    writer = WandbWriter(
        tmp_path, project="digits", mode="offline", options={"group": "sweep", "tags": ["a"]}
    )
    writer.write(Point("train", 1, 1, {"loss": 0.5}))
    writer.end_session(succeeded=True)
    (actual,) = records(tmp_path)
    run = next(value.run for value in actual if value.WhichOneof("record_type") == "run")
    assert (run.project, run.run_group, list(run.tags)) == ("digits", "sweep", ["a"])


def test_logging_draws_no_random_number(tmp_path):
    before = random.getstate(), torch.get_rng_state()
    writer = WandbWriter(tmp_path, mode="offline")
    writer.write(Point("train", 1, 1, {"loss": 0.5}))
    writer.close()
    assert random.getstate() == before[0] and torch.equal(torch.get_rng_state(), before[1])


def test_a_writer_that_was_never_used_makes_no_run(tmp_path):
    WandbWriter(tmp_path, mode="offline").close()
    assert not list(tmp_path.iterdir())
