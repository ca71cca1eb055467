"""The files and commands of docs/extending.md."""

import os
import re
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


def said(project, command):
    """The output of the page's shell command, run above the project."""
    python = Path(sys.executable).parent
    environment = {
        **os.environ, "ANDIRON": str(ROOT), "PATH": f"{python}:{os.environ['PATH']}",
        "OMP_NUM_THREADS": "1",
    }  # fmt: skip
    done = subprocess.run(
        command, shell=True, cwd=project.parent, env=environment, capture_output=True, text=True,
        timeout=240,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stdout
