"""A command that fails loses nothing that was in the folder, whoever made it."""

import os
import shutil
from pathlib import Path

import pytest
from in_process import called

from andiron.commands import train

RUN = ("hydra.run.dir=run", "num_epochs=1", "data=partial", "data.fraction=0.2", "render=plain")


def trained(here, *arguments):
    return called(train.main, *arguments, cwd=here)


def content(folder):
    return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    here = tmp_path_factory.mktemp("made")
    assert trained(here, *RUN).code == 0
    return here / "run"


@pytest.fixture
def finished(made, tmp_path):
    return Path(shutil.copytree(made, tmp_path / "run"))


@pytest.mark.parametrize(
    "mistake",
    [
        ("optimizer=muon",),  # it takes no biases, which shows only when it is built
        ("data=csv", "data.path=nowhere.csv", "data.target=y"),
        ("lr=-1",),
    ],
)
def test_a_mistake_beside_overwrite_leaves_the_finished_run(finished, mistake):
    before = content(finished)
    ended = trained(finished.parent, *RUN[:2], *mistake, "overwrite=true")
    assert ended.code in (1, 2) and ended.errors.startswith("error: ")
    assert content(finished) == before
    assert [path.name for path in finished.parent.iterdir()] == ["run"]


def test_overwrite_removes_the_earlier_run_once_the_new_one_is_built(finished):
    (finished / "tensorboard" / "mine.txt").write_text("kept")
    before = content(finished)
    assert trained(finished.parent, *RUN, "seed=2", "overwrite=true").code == 0
    after = content(finished)
    assert after[finished / "tensorboard" / "mine.txt"] == b"kept"
    assert after[finished / "model.safetensors"] != before[finished / "model.safetensors"]
    assert len([*finished.glob("tensorboard/events.*")]) == 1
    assert [path.name for path in finished.parent.iterdir()] == ["run"]


@pytest.mark.parametrize("option", ["restart=requeued", "overwrite=true", "seed=1"])
@pytest.mark.parametrize(
    "name", ["config.json", "checkpoints/best/weights.pt", "tensorboard/events.out.tfevents.1", "a"]
)
def test_a_folder_of_another_program_is_refused(tmp_path, name, option):
    path = tmp_path / "run" / name
    path.parent.mkdir(parents=True)
    path.write_text("theirs")
    ended = trained(tmp_path, *RUN, option)
    assert ended.code == 1 and "holds files that no run wrote" in ended.errors
    assert content(tmp_path) == {path: b"theirs"}


def test_checkpoints_without_their_configuration_are_not_started_over(finished):
    (finished / "config.json").unlink()
    (finished / "status.json").write_text('{"status": "running"}')
    before = content(finished)
    ended = trained(finished.parent, *RUN, "restart=requeued")
    assert ended.code == 1 and "config.json: missing, beside checkpoints" in ended.errors
    assert content(finished) == before


def test_a_run_without_its_status_is_not_written_over(finished):
    (finished / "status.json").unlink()
    before = content(finished)
    ended = trained(finished.parent, *RUN, "seed=2")
    assert ended.code == 1 and "already holds a run" in ended.errors
    assert content(finished) == before


@pytest.mark.parametrize("options", [("resume=run", "num_epochs=2"), (*RUN, "overwrite=true")])
@pytest.mark.parametrize("name", ["metrics.jsonl", "tensorboard", "events", "checkpoints", "step"])
def test_a_link_in_the_folder_leads_nowhere(finished, name, options):
    other = finished.parent / "other"
    patterns = {"events": "tensorboard/events.*", "step": "checkpoints/step-*"}
    entry = next(finished.glob(patterns.get(name, name)))
    os.renames(entry, other / entry.name)
    entry.parent.mkdir(exist_ok=True)
    entry.symlink_to(other / entry.name)
    before = content(other)
    ended = trained(finished.parent, *options)
    assert ended.code == 1 and "a link, through which nothing is written" in ended.errors
    assert content(other) == before and entry.is_symlink()


def test_a_finished_run_that_lost_its_weights_writes_them_again(finished):
    before = content(finished)
    weights = finished / "model.safetensors"
    weights.write_bytes(before[weights][:-1] + b"\0")
    ended = trained(finished.parent, "resume=run")
    assert ended.code == 0 and "missing or changed since the run ended" in ended.output
    assert weights.read_bytes() == before[weights]
