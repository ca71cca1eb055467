"""`generate` ends once nobody reads its text."""

import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.usefixtures("preloaded_processes")

ROOT = Path(__file__).resolve().parents[3]


def test_text_that_nobody_reads_any_more_is_not_generated(here):
    (here / "text.txt").write_text("ab\n" * 100)
    trained = (
        "data=text", "data.path=text.txt", "data.context_length=4", "task=language_model",
        "metrics=language", "model=gpt", "model.layers=1", "model.dim=8", "model.heads=1",
        "num_epochs=1", "render=plain", "hydra.run.dir=run",
    )  # fmt: skip
    program = sys.executable, ROOT / "scripts/andiron.py"
    subprocess.run([*program, "train", *trained], check=True, stdout=subprocess.DEVNULL)
    endless = [*program, "generate", "run", "--length", "1000000000"]
    with subprocess.Popen(endless, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout.readline() == b"\n"  # the prompt
        process.stdout.close()
        assert (process.wait(240), process.stderr.read()) == (141, b"")
