"""A run whose checkpoints are in a store of the user's own: only that store is searched."""

import json
import shutil

import archive_store
import pytest
from in_process import called
from stops_at import stopping

from andiron.run_folder import RunFolder
from andiron.shell.training import train
from andiron.wings.trained import evaluate
from proofs.lab_parts import rerun

RUN = ("num_epochs=2", "data=partial", "render=plain", "hydra.run.dir=run", archive_store.OPTION)


@pytest.fixture
def here(tmp_path, monkeypatch):
    (tmp_path / "archives.py").write_text(archive_store.SOURCE)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "unpacked"))
    (tmp_path / "unpacked").mkdir()
    return tmp_path


def trained(here, *arguments):
    return called(train.main, *arguments, cwd=here)


@pytest.fixture
def finished(here):
    """A run that was not stopped, in `whole`."""
    assert trained(here, *RUN, "hydra.run.dir=whole").code == 0
    return RunFolder(here / "whole")


@pytest.fixture
def stopped(here):
    """A run that was stopped after four updates, as it would be after SIGKILL."""
    with stopping(updates=4):
        ended = trained(here, *RUN)
    assert "resumes the run from its newest checkpoint" in ended.errors
    folder = RunFolder(here / "run")
    folder.status.write_text(json.dumps({"status": "running", "pid": 1}))
    assert (here / "kept" / "run" / "step-4.tar").exists() and not folder.checkpoints.exists()
    return folder


@pytest.mark.parametrize(
    "command", [("resume=run", "trust=[archives]"), (*RUN, "restart=requeued")]
)
def test_a_stopped_run_resumes_from_its_store(here, finished, stopped, command):
    ended = trained(here, *command)
    assert ended.code == 0 and "step-4" in ended.output
    assert stopped.model.read_bytes() == finished.model.read_bytes()


def test_a_run_in_its_store_is_not_started_again_from_another(here, stopped):
    before = {path: path.read_bytes() for path in stopped.path.rglob("*") if path.is_file()}
    for other in ("checkpoint.store=null", archive_store.OPTION.replace("kept", "elsewhere")):
        ended = trained(here, *RUN[:-1], other, "restart=requeued")
        assert ended.code in (1, 2) and "overwrite" not in ended.errors
        assert "checkpoint.store" in ended.errors
        ended = trained(here, "resume=run", other, "trust=[archives]")
        assert ended.code == 1 and "overwrite" not in ended.errors
        assert "give the checkpoint.store that has one" in ended.errors
    assert {path: path.read_bytes() for path in before} == before | {
        stopped.log: stopped.log.read_bytes(), stopped.status: stopped.status.read_bytes()
    }  # fmt: skip


def test_a_store_that_cannot_be_read_starts_nothing_again(here, stopped):
    shutil.move(here / "archives.py", here / "sound.py")
    broken = archive_store.SOURCE.replace(
        'return [path.stem for path in self.folder.glob("*.tar")]', 'raise OSError(5, "gone")'
    )
    (here / "archives.py").write_text(broken)
    with pytest.MonkeyPatch.context() as patched:
        patched.delitem(__import__("sys").modules, "archives")
        ended = trained(here, *RUN, "restart=requeued")
    assert ended.code == 1 and "cannot be read (gone)" in ended.errors


def test_an_unknown_store_of_a_folder_is_not_built(here, stopped):
    ended = trained(here, "start_from=run", "num_epochs=1", "data=partial", "hydra.run.dir=other")
    assert ended.code == 2 and "trust=[archives]" in ended.errors


def test_start_from_takes_the_weights_in_the_store_of_that_run(here, stopped):
    ended = trained(here, *RUN, "start_from=run", "hydra.run.dir=other")
    assert ended.code == 0, ended.errors
    assert "/step-4/model.safetensors: 6 tensors" in ended.output


@pytest.mark.parametrize("weights", ["last", "best"])
def test_the_weights_of_an_unfinished_run_are_evaluated(here, stopped, weights):
    ended = called(evaluate.main, "run", "--weights", weights, "--trust", "archives", cwd=here)
    assert (ended.code, ended.errors) == (0, "")


def test_rerun_compares_the_checkpoints_in_the_stores(here, finished):
    local = called(train.main, *RUN[:-1], cwd=here)
    assert local.code == 0
    ended = called(rerun.main, "whole", "--into", "again", "--trust", "archives", cwd=here)
    same = called(rerun.main, "run", "--into", "local", cwd=here)
    exact = [line for line in ended.output.splitlines() if line.startswith("exact: ")]
    assert exact == [line for line in same.output.splitlines() if line.startswith("exact: ")] != []
