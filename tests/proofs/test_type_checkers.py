"""Type checkers find a typo in an option of LearnerBuilder."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PROGRAM = """from andiron.learner import LearnerBuilder

LearnerBuilder("run", num_epochs=3, clip=1.0).options(grads_accumulation=2)
LearnerBuilder("run", num_epoch=3)
LearnerBuilder("run").num_epoch(3)
"""


def errors_of(checker, folder):
    program = folder / "program.py"
    program.write_text(PROGRAM)
    (folder / "pyrightconfig.json").write_text(f'{{"extraPaths": ["{ROOT / "src"}"]}}')
    arguments = {
        "mypy": [str(program)],  # with the cache of the checkout
        "pyright": ["-p", str(folder)],
    }
    done = subprocess.run(
        [sys.executable, "-m", checker, *arguments[checker]],
        cwd=ROOT, capture_output=True, text=True, timeout=300,
    )  # fmt: skip
    return [line for line in done.stdout.splitlines() if " error: " in line]


@pytest.mark.parametrize("checker", ["mypy", "pyright"])
def test_a_typo_in_an_option_is_found(checker, tmp_path):
    if checker == "pyright" and shutil.which("node") is None:
        pytest.skip("pyright needs node")

    keyword, method = errors_of(checker, tmp_path)

    assert "program.py:4" in keyword and "num_epoch" in keyword
    assert "program.py:5" in method and "num_epoch" in method
