"""`python train.py` as a process beside others."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.usefixtures("preloaded_processes")

ROOT = Path(__file__).resolve().parents[3]
ENVIRONMENT = {**os.environ, "OMP_NUM_THREADS": "1"}


def start(cwd, *overrides):
    command = [sys.executable, ROOT / "train.py", *overrides]
    return subprocess.Popen(
        command, cwd=cwd, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=ENVIRONMENT
    )


def finish(process):
    try:
        output, error = process.communicate(timeout=240)
    finally:
        process.kill()  # where it has not ended
    return process.returncode, output, error


def status(folder):
    return json.loads((folder / "status.json").read_text())


def test_runs_started_together_get_a_folder_each(tmp_path):
    together = [start(tmp_path, "num_epochs=1") for _ in range(3)]

    assert [finish(process)[0] for process in together] == [0, 0, 0]
    folders = list(tmp_path.glob("outputs/*/*"))
    assert [status(folder)["status"] for folder in folders] == ["done"] * 3
