"""A command that fails loses nothing that was in the folder, whoever made it."""

import json
import os
import shutil
from pathlib import Path

import pytest
from in_process import called
from runs_made import content

from andiron.disk import checksums
from andiron.shell.training import train
from andiron.wings.runs import command as runs

RUN = ("hydra.run.dir=run", "num_epochs=1", "data=partial", "data.fraction=0.2", "render=plain")

GOT = ("hydra.run.dir=got/run", *RUN[1:])


def trained(here, *arguments):
    return called(train.main, *arguments, cwd=here)


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


@pytest.mark.parametrize("option", ["restart=requeued", "overwrite=true", "seed=1"])
@pytest.mark.parametrize("status", ["{}", '{"status": "done"}', '{"status": "running", "pid": 1}'])
def test_a_status_alone_makes_no_run_of_another_tools_folder(tmp_path, status, option):
    run = tmp_path / "run"
    for name in ("status.json", "config.json", "model.safetensors", "metrics.jsonl",
                 "tensorboard/events.out.tfevents.1", "checkpoints/step-1/state.json"):  # fmt: skip
        (run / name).parent.mkdir(parents=True, exist_ok=True)
        (run / name).write_text("theirs" if name != "status.json" else status)
    before = content(tmp_path)
    ended = trained(tmp_path, *RUN, option)
    assert ended.code == 1 and "holds files that no run wrote (checkpoints, config" in ended.errors
    removed = called(runs.main, "rm", "run", "--yes", cwd=tmp_path)
    assert removed.code == 2 and "no run in run" in removed.errors
    assert content(tmp_path) == before


@pytest.mark.parametrize("damage", [b"", b"{}", None])
def test_a_run_with_a_damaged_manifest_is_refused_and_kept(finished, damage):
    manifest = finished / "manifest.json"
    text = manifest.read_bytes()
    manifest.write_bytes(text.replace(b"config.json", b"conf1g.json") if damage is None else damage)
    before = content(finished)
    for option in ("restart=requeued", "overwrite=true"):
        ended = trained(finished.parent, *RUN, option)
        assert ended.code == 1 and "restore its manifest.json, which is missing" in ended.errors
    for ended in (
        trained(finished.parent, "resume=run", "num_epochs=2"),
        called(runs.main, "rm", "run", "--yes", cwd=finished.parent),
    ):
        assert ended.code == 1 and "manifest.json: missing or damaged" in ended.errors
    assert (
        content(finished) == before
        and "run" in called(runs.main, "list", "run", cwd=finished.parent).output
    )


@pytest.mark.parametrize("name", ["data.json", "model-mine.safetensors", "checkpoints/step-9/a"])
def test_a_file_of_another_tool_in_a_runs_folder_is_not_removed(finished, name):
    """Under the name of a run's own, or a checkpoint with the identity of another run."""
    path = finished / name
    if name == "data.json":
        manifest = json.loads((finished / "manifest.json").read_text())
        del manifest["files"][name]
        (finished / "manifest.json").write_text(json.dumps(checksums.signed(manifest)))
    elif path.parent.name == "step-9":
        shutil.copytree(next(finished.glob("checkpoints/step-*")), path.parent)
        manifest = json.loads((path.parent / "manifest.json").read_text()) | {"run": "0" * 16}
        (path.parent / "manifest.json").write_text(json.dumps(checksums.signed(manifest)))
    path.write_text("theirs")
    theirs = {value: text for value, text in content(finished).items() if "step-9" in str(value)}
    theirs |= {path: b"theirs"}

    if path.parent == finished:
        ended = trained(finished.parent, *RUN, "overwrite=true")
        assert ended.code == 1 and f"no run wrote ({name}), and nothing" in ended.errors
    removed = called(runs.main, "rm", "run", "--yes", cwd=finished.parent)
    assert removed.code == 0 and f"(left there: {min(theirs).relative_to(finished)}" in (
        removed.output
    )
    assert content(finished) == theirs


@pytest.mark.parametrize("name", ["run.replaced-01234567", ".run.replaced"])
def test_what_links_lead_to_beside_a_run_is_not_removed(finished, name):
    """Under any name, also that of a run which is being removed."""
    got = finished.parent / "got"
    shutil.copytree(finished, got / "run")
    (got / name / "checkpoints").mkdir(parents=True)
    step = next(finished.glob("checkpoints/step-*"))
    (got / name / "checkpoints" / step.name).symlink_to(step)
    before = content(finished)
    ended = trained(finished.parent, "resume=got/run", "num_epochs=2")
    assert ended.code == 0, ended.errors
    assert content(finished) == before


def test_a_link_in_the_place_of_a_replaced_run_is_refused(finished):
    got = finished.parent / "got" / "run"
    shutil.copytree(finished, got)
    got.with_name(".run.replaced").symlink_to(finished)
    before = content(finished)
    ended = trained(finished.parent, *GOT, "overwrite=true")
    assert ended.code == 1 and ".run.replaced is in the way" in ended.errors
    assert content(finished) == before


def test_checkpoints_without_their_configuration_are_not_started_over(finished):
    (finished / "config.json").unlink()
    (finished / "status.json").write_text('{"status": "running"}')
    before = content(finished)
    ended = trained(finished.parent, *RUN, "restart=requeued")
    assert ended.code == 1 and "config.json: missing or damaged" in ended.errors
    assert content(finished) == before


def test_a_run_without_its_status_is_not_written_over(finished):
    status = finished / "status.json"
    for damage in (lambda: status.write_text("damaged"), status.unlink):
        damage()
        before = content(finished)
        ended = trained(finished.parent, *RUN, "seed=2")
        assert (ended.code, ended.errors) == (
            1, f"error: {finished} already holds a run; resume it with resume={finished}, choose "
            "another hydra.run.dir, or give overwrite=true to remove what that run wrote\n",
        )  # fmt: skip
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
