"""TensorBoard's files after a kill of the process."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

pytestmark = pytest.mark.usefixtures("preloaded_processes")

SOURCE = Path(__file__).resolve().parents[3] / "src"


def scalars(folder):
    """Steps and values by tag, as TensorBoard reads them."""
    accumulator = EventAccumulator(str(folder), size_guidance={"scalars": 0}).Reload()
    return {
        tag: [(event.step, event.value) for event in accumulator.Scalars(tag)]
        for tag in accumulator.Tags()["scalars"]
    }


SCRIPT_THAT_IS_KILLED = """
import os, signal, sys
from pathlib import Path
from andiron.protocols import Point
from andiron.writers import JsonLinesWriter, TensorBoardWriter
folder = Path(sys.argv[1])
writers = [TensorBoardWriter(folder / "tensorboard"), JsonLinesWriter(folder / "metrics.jsonl")]
for updates in range(1, 1001):
    for writer in writers:
        writer.write(Point("train", updates, 1, {"loss": updates / 8, "accuracy": 0.5}))
os.kill(os.getpid(), signal.SIGKILL)
"""


def test_a_killed_process_has_lost_no_point(tmp_path):
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT_THAT_IS_KILLED, tmp_path],
        env={**os.environ, "PYTHONPATH": str(SOURCE)}, capture_output=True, timeout=60, check=False,
    )  # fmt: skip
    assert done.returncode == -signal.SIGKILL
    expected = [(updates, updates / 8) for updates in range(1, 1001)]
    assert scalars(tmp_path / "tensorboard" / "train")["loss"] == expected
    lines = [json.loads(line) for line in (tmp_path / "metrics.jsonl").read_text().splitlines()]
    assert [(line["updates"], line["loss"]) for line in lines] == expected
