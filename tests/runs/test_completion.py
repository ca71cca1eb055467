"""Completion: by the tab key in bash, and in editors."""

import dataclasses
import os
import shutil
import subprocess
import sys
from pathlib import Path

import jedi
import pytest

from andiron.options import LearnerOptions

ROOT = Path(__file__).resolve().parents[2]
PRESSED = """
eval "$(python train.py -sc install=bash)"
COMP_LINE="python train.py data=mnist scheduler=cos"
COMP_POINT=${#COMP_LINE} COMP_WORDS=($COMP_LINE) COMP_CWORD=3
hydra_bash_completion
printf "%s\\n" "${COMPREPLY[@]}"
"""


@pytest.mark.skipif(shutil.which("bash") is None, reason="needs bash")
def test_the_tab_key_completes_a_choice(tmp_path):
    (tmp_path / "python").symlink_to(sys.executable)
    environment = {**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}"}
    environment["PYTHONPATH"] = os.pathsep.join(sys.path)  # a link leads past the environment
    ended = subprocess.run(
        ["bash", "-c", PRESSED], cwd=ROOT, env=environment, capture_output=True, text=True,
        check=True, timeout=300,
    )  # fmt: skip
    assert ended.stdout.split() == ["scheduler=cosine", "scheduler=cosine_restarts"]


OPTIONS = {field.name for field in dataclasses.fields(LearnerOptions)}
IMPORT = "from andiron.learner import LearnerBuilder\n"


def completions(line):
    project = jedi.Project(ROOT, added_sys_path=[str(ROOT / "src")])
    return jedi.Script(IMPORT + line, project=project).complete(2, len(line))


def test_every_option_is_completed():
    keywords = {
        completion.name.removesuffix("=") for completion in completions("LearnerBuilder('x', ")
    }
    assert keywords >= OPTIONS
