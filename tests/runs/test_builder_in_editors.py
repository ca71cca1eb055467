"""Editors complete the options of LearnerBuilder, and type checkers find a typo in one."""

import dataclasses
import shutil
import subprocess
import sys
from pathlib import Path

import jedi
import pytest

from andiron.config.options import LearnerOptions

ROOT = Path(__file__).resolve().parents[2]
OPTIONS = {field.name for field in dataclasses.fields(LearnerOptions)}
IMPORT = "from andiron.learner import LearnerBuilder\n"
PROGRAM = IMPORT + """
LearnerBuilder("run", num_epochs=3, clip=1.0).grads_accumulation(2)
LearnerBuilder("run", num_epoch=3)
LearnerBuilder("run").num_epoch(3)
"""


def completions(line):
    project = jedi.Project(ROOT, added_sys_path=[str(ROOT / "src")])
    return jedi.Script(IMPORT + line, project=project).complete(2, len(line))


def test_every_option_is_completed_with_its_docstring():
    methods = {each.name: each.docstring(raw=True) for each in completions("LearnerBuilder('x').")}
    assert methods.keys() >= OPTIONS
    assert all("Default: " in " ".join(methods[option].split()) for option in OPTIONS)
    keywords = {each.name.removesuffix("=") for each in completions("LearnerBuilder('x', ")}
    assert keywords >= OPTIONS


def errors_of(checker, folder):
    program = folder / "program.py"
    program.write_text(PROGRAM)
    (folder / "pyrightconfig.json").write_text(f'{{"extraPaths": ["{ROOT / "src"}"]}}')
    arguments = {
        "mypy": ["--follow-imports", "silent", "--cache-dir", str(folder / "cache"), str(program)],
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
