"""docs/run_folder.md and docs/resuming.md: every block runs, and the tables are what the code says.
"""

import os
import re
import shlex
import subprocess
import sys

import pytest
from conftest import ROOT

from andiron.run_folder import RunFolder
from andiron.shell.config import schema

pytestmark = pytest.mark.usefixtures("preloaded_processes")

PAGES = ("run_folder.md", "resuming.md")


def text_of(name):
    return (ROOT / "docs" / name).read_text(encoding="utf-8")


@pytest.mark.slow
@pytest.mark.parametrize("name", PAGES)
def test_every_block_runs_in_the_order_of_the_page(name, tmp_path):
    blocks = re.findall(r"^```(\w+)\n(.*?)^```", text_of(name), flags=re.M | re.S)
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": str(ROOT / "src")}
    for language, block in blocks:
        if language == "bash":
            commands = [shlex.split(line)[1:] for line in block.splitlines()]
            commands = [[sys.executable, str(ROOT / script), *more] for script, *more in commands]
        else:
            assert language in ("python", "text")
            commands = [[sys.executable, "-c", block]] if language == "python" else []
        for command in commands:
            done = subprocess.run(
                command, cwd=tmp_path, env=environment, capture_output=True, text=True
            )
            assert done.returncode == 0, (command, done.stdout, done.stderr)


def test_every_file_of_a_run_has_a_row(tmp_path):
    files, _, _ = text_of("run_folder.md").partition("\n## ")
    rows = re.findall(r"^\| `([\w./]+)` \|", files, flags=re.M)
    assert sorted(row.rstrip("/") for row in rows) == sorted(
        p.name for p in RunFolder(tmp_path).own
    )


def test_the_table_of_options_is_the_resume_policy():
    policy = schema.resume_policy()
    for kind, label in (("free", "freely"), ("ask", "if allowed"), ("never", "never")):
        (row,) = re.findall(rf"^\| {label}.*?\| (.*) \|$", text_of("resuming.md"), flags=re.M)
        options = {name for name, value in policy.items() if value == kind}
        assert set(re.findall(r"`(\w+)`", row)) == options
