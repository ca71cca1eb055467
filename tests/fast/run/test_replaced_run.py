"""Which folders count as replaced runs, and which never do: links and folders of others."""

import json

import pytest
from runs_made import EVENTS, content, make_run

from andiron import errors
from andiron.run_folder import RunFolder
from andiron.shell.run import claim, run_record


def replace(folder):
    with claim.claimed(folder, overwrite=True) as begins:
        begins()


@pytest.mark.parametrize("name", [".replaced-", ".removed-"])
def test_a_folder_with_the_manifest_of_another_run_is_left_alone(tmp_path, name, caplog):
    """A folder with such a name counts only if it holds the run with that identity."""
    folder = RunFolder(tmp_path / "run")
    make_run(folder.path)
    place = folder.path / f"{name}0123456789abcdef"
    make_run(place)
    before = content(tmp_path)

    claim.settle(folder)
    assert "left alone: its manifest is not that of the run 0123456789abcdef" in caplog.text
    assert content(tmp_path) == before
    replace(folder)
    assert content(place).items() <= before.items()


@pytest.mark.parametrize("inner", ["", "checkpoints/step-1", "tensorboard/train", "wandb"])
def test_no_link_is_a_run_that_was_replaced_and_none_is_in_it(tmp_path, inner):
    """Neither the folder nor its content leads to the files of another run."""
    folder, mine = RunFolder(tmp_path / "run"), tmp_path / "mine"
    make_run(folder.path)
    identity = make_run(mine)
    (mine / "wandb").mkdir()
    link = folder.path / f".replaced-{identity}" / inner
    if inner:
        link.parent.mkdir(parents=True)
        (link.parents[inner.count("/")] / "manifest.json").write_bytes(
            (mine / "manifest.json").read_bytes()
        )
    link.symlink_to(mine / inner)
    before = content(tmp_path)
    for act in (claim.settle, replace):
        with pytest.raises(errors.RunFolderError, match="a link, through which nothing is written"):
            act(folder)
    assert content(tmp_path) == before


def test_other_files_are_not_put_back_through_a_link(tmp_path):
    folder, mine = RunFolder(tmp_path / "run"), tmp_path / "mine"
    mine.mkdir()
    make_run(folder.path)
    aside = folder.path / ".removed-0123456789abcdef"
    (aside / "wandb" / "latest").mkdir(parents=True)
    (aside / "wandb" / "latest" / "file").write_text("a stranger's")
    (aside / "notes").mkdir()
    (aside / "notes" / "file").write_text("a stranger's")
    folder.wandb.mkdir()
    (folder.wandb / "latest").symlink_to(mine)  # W&B has such links itself
    (folder.path / "notes").symlink_to(mine)

    claim.settle(folder)
    assert not [*mine.iterdir()] and (aside / "wandb" / "latest" / "file").exists()


def test_of_a_run_without_a_list_what_it_surely_wrote_is_removed(tmp_path, caplog):
    """Its checkpoints name the event files; the files of others stay, and a warning names them."""
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


@pytest.mark.parametrize("name", [".replaced-", ".removed-"])
def test_leftovers_of_a_replacement_do_not_stop_the_next(tmp_path, name):
    """Files that could not be put back, beside a run of that same identity."""
    folder = RunFolder(tmp_path / "run")
    leftover = folder.path / f"{name}{make_run(folder.path)}" / "metrics.csv"
    leftover.parent.mkdir()
    leftover.write_text("mine")
    (folder.path / "metrics.csv").write_text("mine too")
    replace(folder)
    assert leftover.read_text() == "mine"
    assert (folder.path / "metrics.csv").read_text() == "mine too"
