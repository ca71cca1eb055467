"""The way of one batch through the code of a default run, as proofs/trace.py records it."""

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from proofs import trace

pytestmark = pytest.mark.usefixtures("preloaded_processes")
ROOT = Path(__file__).resolve().parents[2]
FRAMES = 4  # `steps`, which `fit` runs to its end, and `train_step` are two of them
FRAMES_TO_A_WRITER = 6
FRAMES_TO_VALID_STEP = 5
# as measured; the aim is 10, so lower it with the code
FILES = 16
# which looks at the first outputs and compares the fused step with its optimizer; then its host
# writes the run's status, and calls the writer that draws the model
FILES_OF_THE_FIRST = 34
# as measured; the aim is 16. The first one also lists the file of events as the run's
FILES_AT_A_LOG_POINT, FILES_AT_THE_FIRST = 30, 34
FILES_AT_AN_EPOCHS_END = 58  # as measured, without the last; the aim is 40


@pytest.fixture(scope="module")
def walks(tmp_path_factory):
    """The recorded frames, in a process of its own: checks of types would be frames too."""
    command = [sys.executable, ROOT / "proofs" / "trace.py", "--json", "num_epochs=3", "~render"]
    folder = tmp_path_factory.mktemp("walk")
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=240)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


def test_few_frames_lie_between_the_loop_and_steps_and_writers(walks):
    assert len(walks["frames"]) <= FRAMES, walks["frames"]
    assert walks["frames"][0].endswith("Loop.steps")
    assert walks["frames"][-1].endswith(".train_step")
    assert len(walks["frames_to_writer"]) <= FRAMES_TO_A_WRITER, walks["frames_to_writer"]
    assert len(walks["frames_to_valid_step"]) <= FRAMES_TO_VALID_STEP


def test_an_update_passes_few_files(walks):
    median, most = walks["plain"]
    assert median <= FILES and most <= FILES_OF_THE_FIRST, walks["walk"]


def test_a_log_point_passes_few_files_more(walks):
    median, most = walks["log_point"]
    assert median <= FILES_AT_A_LOG_POINT and most <= FILES_AT_THE_FIRST


def test_an_epochs_end_passes_few_files(walks):
    assert walks["epoch_end"][0] <= FILES_AT_AN_EPOCHS_END


def test_the_walk_in_the_readme_is_what_was_recorded(walks):
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    blocks = re.findall(r"^```text\n(.*?)^```", readme, flags=re.MULTILINE | re.DOTALL)
    (shown,) = [block for block in blocks if "Updater.update" in block]

    printed = trace.described(trace.Walks(**walks))
    lines = [line.split(maxsplit=1) for line in shown.splitlines()]
    files = [file for file, _ in lines]
    assert files == [file for file in walks["walk"] if file in files]
    for file, functions in lines:
        assert [name for name in functions.split(", ") if name not in walks["walk"][file]] == []
        assert f"  {file} " in printed
