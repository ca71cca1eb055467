"""A run in the place of another, with overwrite=true, and SIGKILL: one whole run is left."""

import pytest
from runs_made import content
from train_processes import Training, trained

from andiron import checkpoint
from andiron.disk import files
from andiron.run_folder import RunFolder
from andiron.shell.run import claim, run_files, run_record, status

pytestmark = pytest.mark.usefixtures("preloaded_processes")

RUN = (
    "hydra.run.dir=run", "data=partial", "num_epochs=1", "log_every=1", "device=cpu",
    "render=plain", "overwrite=true",
)  # fmt: skip


def whole_run(folder):
    """The identity of the one run in the folder, whose recorded files are as it wrote them."""
    claim.settle(folder)
    assert not run_files.is_aside(folder)
    assert run_record.changed(folder) == run_record.unlisted(folder) == []
    assert (folder.tensorboard / "notes.txt").read_text() == "mine"
    return run_record.identity(folder)


def _is_moving(folder):
    return folder.path.with_name(".run.replaced").exists()


def _has_new_manifest(folder):
    return _is_moving(folder) and folder.manifest.exists()


def _has_started(folder):
    return _has_new_manifest(folder) and folder.status.exists()


def _is_recorded(folder):
    return _has_started(folder) and folder.provenance.exists()


def _has_begun(folder):
    return not _is_moving(folder) and status.read(folder).get("status") == "running"


@pytest.mark.slow
def test_the_command_that_overwrites_leaves_the_old_run_or_the_new_one(tmp_path):
    """Killed while it moves the old run, starts, is built, and trains."""
    folder = RunFolder(tmp_path / "run")
    trained(tmp_path, *RUN)
    (folder.tensorboard / "notes.txt").write_text("mine")
    before, old = content(folder.path), run_record.identity(folder)
    for seed, moment in enumerate((_is_moving, _has_new_manifest, _has_started, _is_recorded)):
        with Training(tmp_path, *RUN, f"seed={seed}") as process:
            process.until(lambda moment=moment: moment(folder))
        if whole_run(folder) != old:  # it had begun before the kill came
            trained(tmp_path, *RUN)
            before, old = content(folder.path), run_record.identity(folder)
        half_written = {**files.partials(folder.path), **files.partials(folder.hydra)}
        now = content(folder.path).items()
        assert {path: text for path, text in now if path not in half_written} == before

    with Training(tmp_path, *RUN, "num_epochs=40", "checkpoint.every=1") as process:
        process.until(lambda: _has_begun(folder) and len(checkpoint.names(folder.checkpoints)) > 1)
    assert whole_run(folder) != old
    trained(tmp_path, "resume=run")
    assert status.read(folder)["status"] == "done"
