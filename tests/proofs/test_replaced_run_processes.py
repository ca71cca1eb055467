"""A run in the place of another, with overwrite=true, and SIGKILL: one whole run is left."""

import os
import random
import subprocess
import sys
import time
from pathlib import Path

import pytest
from runs_made import content, make_run
from train_processes import Training, trained

from andiron import checkpoint
from andiron.disk import files
from andiron.run_folder import RunFolder
from andiron.shell.run import claim, run_files, run_record, status

pytestmark = pytest.mark.usefixtures("preloaded_processes")

SOURCE = str(Path(claim.__file__).parents[3])
REPLACING = """
import sys
from pathlib import Path
from andiron.shell.run import claim, run_record
from andiron.run_folder import RunFolder
folder = RunFolder(Path(sys.argv[1]))
while True:
    print("next", flush=True)
    with claim.claimed(folder, overwrite=True) as begins:
        run_record.write(folder, {folder.config: b"new", folder.hydra / "config.yaml": b"new"})
        folder.tensorboard.mkdir(exist_ok=True)
        begins()
        run_record.write(folder, {folder.summary: b"new"})
"""
RUN = (
    "hydra.run.dir=run", "data=partial", "num_epochs=1", "log_every=1", "device=cpu",
    "render=plain", "overwrite=true",
)  # fmt: skip


def whole_run(folder, *unwritten):
    """The identity of the one run in the folder, whose recorded files are as it wrote them.

    It may have been killed before it wrote those that are `unwritten`.
    """
    claim.settle(folder)
    assert not run_files.is_aside(folder)
    assert not {*run_record.changed(folder)} - {*unwritten} and run_record.unlisted(folder) == []
    assert (folder.tensorboard / "notes.txt").read_text() == "mine"
    return run_record.identity(folder)


@pytest.mark.slow
def test_of_runs_that_replace_each_other_one_is_whole_after_any_kill(tmp_path):
    folder = RunFolder(tmp_path / "run")
    make_run(folder.path)
    (folder.tensorboard / "notes.txt").write_text("mine")
    identities, draw = set(), random.Random(7)
    for kill in range(30):
        process = subprocess.Popen(
            [sys.executable, "-c", REPLACING, folder.path],
            stdout=subprocess.PIPE,
            env={**os.environ, "PYTHONPATH": SOURCE},
        )
        with process:
            assert process.stdout.readline() == b"next\n"
            started = time.monotonic()
            if kill % 3 == 0:  # how long one takes on this machine
                process.stdout.readline()
                seconds = time.monotonic() - started
            time.sleep(draw.uniform(0, seconds))
            process.kill()
        identities.add(whole_run(folder, "summary.json"))
    assert len(identities) >= 10


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
