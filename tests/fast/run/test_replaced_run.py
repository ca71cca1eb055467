"""Which folders count as replaced runs, and which never do: links and folders of others."""

import json
import shutil

import pytest
from runs_made import EVENTS, content, make_run

from andiron import errors
from andiron.disk.append_only import AppendOnlyFile
from andiron.run_folder import RunFolder
from andiron.shell.run import claim, run_record


def replace(folder):
    with claim.claimed(folder, overwrite=True) as begins:
        begins()


def two_runs(here):
    """A run's folder, another run beside it, and the place of a run that the first replaced."""
    folder, mine = RunFolder(here / "run"), here / "mine"
    for path in (folder.path, mine):
        make_run(path)
    return folder, mine, here / ".run.replaced"


@pytest.mark.parametrize("kind", ["a link", "a file", "a folder"])
def test_what_is_no_run_in_the_place_of_a_replaced_one_is_left_alone(tmp_path, kind):
    folder, mine, aside = two_runs(tmp_path)
    if kind == "a link":
        aside.symlink_to(mine)
    elif kind == "a file":
        aside.write_text("mine")
    else:
        shutil.copytree(mine / "tensorboard", aside / "tensorboard")
    before = content(tmp_path)
    claim.settle(folder)
    with pytest.raises(errors.RunFolderError, match="run.replaced is in the way"):
        replace(folder)
    assert content(tmp_path) == before


@pytest.mark.parametrize("inner", ["checkpoints", "checkpoints/step-1", "tensorboard/train"])
def test_nothing_is_removed_through_a_link(tmp_path, inner):
    """Neither the folder of a run to be removed nor its content leads to another run."""
    folder, mine, aside = two_runs(tmp_path)
    shutil.copytree(mine, aside)
    shutil.rmtree(aside / inner)
    (aside / inner).symlink_to(mine / inner)
    before = content(mine)
    claim.settle(folder)
    assert content(mine) == before and not (aside / "config.json").exists()


def test_no_listed_file_is_removed_through_a_link(tmp_path):
    """W&B has links in its folder, so that those there are not refused."""
    folder, mine = RunFolder(tmp_path / "run"), tmp_path / "mine"
    make_run(folder.path)
    mine.mkdir()
    (mine / "file").write_text("mine")
    folder.wandb.mkdir()
    (folder.wandb / "latest").symlink_to(mine)
    run_record.list_written(folder, ["wandb/latest/file"])
    replace(folder)
    assert (mine / "file").read_text() == "mine"


def test_other_files_do_not_come_back_through_a_link(tmp_path):
    folder, mine = RunFolder(tmp_path / "run"), tmp_path / "mine"
    mine.mkdir()
    make_run(folder.path)
    aside = tmp_path / ".run.replaced"
    for name in ("wandb/latest", "notes"):
        (aside / name).mkdir(parents=True)
        (aside / name / "file").write_text("a stranger's")
        (folder.path / name).parent.mkdir(exist_ok=True)
        (folder.path / name).symlink_to(mine)

    claim.settle(folder)
    assert not [*mine.iterdir()] and (aside / "wandb" / "latest" / "file").exists()


def test_of_a_run_without_a_list_what_it_surely_wrote_is_removed(tmp_path, caplog):
    """The run's checkpoints name the event files; a warning names others' files, which stay."""
    folder = RunFolder(tmp_path / "run")
    make_run(folder.path)
    manifest = run_record.manifest_of(folder)
    manifest.written = None
    manifest.write(folder)
    positions = {"tensorboard": {"files": {EVENTS.removeprefix("tensorboard/"): 3}}}
    state = json.dumps({"metric_log": {"writers": positions}})
    (folder.checkpoints / "step-1" / "state.json").write_text(state)
    mine = ["tensorboard/mine/events.out.tfevents.1.x", "metrics.csv", "ranks/notes.log"]
    for name in mine:
        (folder.path / name).parent.mkdir(exist_ok=True)
        (folder.path / name).write_text("mine")
    replace(folder)
    own = {"status.json", "experiment.log", "manifest.json"}
    left = {path.relative_to(folder.path).as_posix() for path in content(folder.path)}
    assert left == {*mine} | own
    assert "the manifest of the replaced run does not list them: metrics.csv, ranks" in caplog.text


def test_files_that_this_process_made_and_has_open_stay_in_the_folder(tmp_path, caplog):
    """Writers of a run from Python are made before it claims the folder."""
    folder = RunFolder(tmp_path / "run")
    make_run(folder.path)
    (folder.tensorboard / "own").mkdir()
    file = AppendOnlyFile(folder.tensorboard / "own" / "events.out.tfevents.9.host.1.0")
    file.append(b"one")
    with claim.claimed(folder, overwrite=True) as begins:
        begins()
        file.append(b"two")
    file.close()
    assert file.path.read_bytes() == b"onetwo" and "was removed" not in caplog.text
    assert [path.name for path in tmp_path.iterdir()] == ["run"]


def test_files_that_cannot_come_back_are_kept_and_named(tmp_path, caplog):
    folder = RunFolder(tmp_path / "run")
    make_run(folder.path)
    (folder.path / "metrics.csv").write_text("mine")
    with claim.claimed(folder, overwrite=True) as begins:
        (folder.path / "metrics.csv").write_text("the new run's")
        begins()
    aside = tmp_path / ".run.replaced"
    assert f"{aside}: kept, because the run has files of these names" in caplog.text
    assert content(aside) == {aside / "metrics.csv": b"mine"}
    with pytest.raises(errors.RunFolderError, match="run.replaced is in the way; move it"):
        replace(folder)
