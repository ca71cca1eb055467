"""A run folder claimed by another process."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from andiron import errors
from andiron.run_folder import RunFolder
from andiron.shell.run import claim, run_record


def status(path):
    return json.loads((path / "status.json").read_text())


HOLDING = """
import sys
from pathlib import Path
from andiron.shell.run import claim
from andiron.run_folder import RunFolder
from andiron.writers import JsonLinesWriter
folder = RunFolder(Path(sys.argv[1]))
with claim.claimed(folder):
    JsonLinesWriter(folder.metrics).close()
    folder.metrics.write_text("being written\\n")
    print("claimed", flush=True)
    sys.stdin.read()
"""


@pytest.mark.usefixtures("preloaded_processes")
def test_a_run_that_another_process_is_still_at_is_not_overwritten(tmp_path):
    source = str(Path(claim.__file__).parents[3])
    process = subprocess.Popen(
        [sys.executable, "-c", HOLDING, tmp_path], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
        text=True, env={**os.environ, "PYTHONPATH": source},
    )  # fmt: skip
    assert process.stdout.readline() == "claimed\n"

    with (
        pytest.raises(errors.RunFolderError) as caught,
        claim.claimed(RunFolder(tmp_path), overwrite=True),
    ):
        raise AssertionError("not reached")
    assert str(caught.value) == (
        f"{tmp_path} holds a run that process {process.pid} still trains; end it first, or choose "
        "another hydra.run.dir"
    )
    assert (tmp_path / "metrics.jsonl").read_text() == "being written\n"
    assert status(tmp_path)["pid"] == process.pid

    process.kill()
    process.communicate()
    with claim.claimed(RunFolder(tmp_path), overwrite=True):
        assert not (tmp_path / "metrics.jsonl").exists()


@pytest.mark.parametrize(
    "own",
    [False, True],
    ids=["a process that is gone", "this process, after a container's restart"],
)
def test_a_run_that_was_killed_can_be_overwritten(tmp_path, own):
    process = subprocess.Popen([sys.executable, "-c", ""])
    process.wait()
    run_record.begin(RunFolder(tmp_path))
    (tmp_path / "status.json").write_text(
        json.dumps({"status": "running", "pid": os.getpid() if own else process.pid})
    )

    with claim.claimed(RunFolder(tmp_path), overwrite=True):
        assert status(tmp_path)["pid"] == os.getpid()
