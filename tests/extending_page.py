"""The files and commands of docs/extending.md."""

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PAGE = (ROOT / "docs" / "extending.md").read_text(encoding="utf-8")
BLOCKS = re.findall(
    r"^```(?:python|yaml)\n# (\S+)\n(.*?)^```$", PAGE, flags=re.MULTILINE | re.DOTALL
)
FIRST, SECOND, THIRD = re.findall(r"^```bash\n(.*?)^```$", PAGE, flags=re.MULTILINE | re.DOTALL)


def written_in(above):
    """`my_project` in a folder, each file put together from the blocks that begin with its name."""
    for name, text in BLOCKS:
        file = above / "my_project" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        with file.open("a") as opened:
            opened.write(text)
    return above / "my_project"


def said(project, command, code=0):
    """The output of the commands of a block of the page, run in the project."""
    block = command.replace("\\\n", "").replace("$ANDIRON", str(ROOT))
    folder, path, *commands = map(shlex.split, block.splitlines())
    assert (folder, path) == (["cd", "my_project"], ["export", "PYTHONPATH=."])
    printed = ""
    for python, *arguments in commands:
        assert python == "python"
        done = subprocess.run(
            [sys.executable, *arguments], cwd=project, env={**os.environ, "PYTHONPATH": "."},
            capture_output=True, text=True, timeout=240,
        )  # fmt: skip
        assert done.returncode == code, done.stderr
        printed += done.stdout + done.stderr
    return printed
