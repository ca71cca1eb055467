"""A fresh virtual environment, and commands in it."""

import os
import subprocess
import sys
import sysconfig
import venv
from pathlib import Path


def environment(folder: Path) -> Path:
    """A fresh virtual environment that also sees the packages of the one the tests run in; its
    python.
    """
    venv.create(folder)
    (packages,) = folder.glob("lib/python*/site-packages")
    (packages / "outer.pth").write_text(sysconfig.get_path("purelib"))
    return folder / "bin" / "python"


def said(*command: str | Path, cwd: Path) -> str:
    own = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    done = subprocess.run(
        list(map(str, command)), cwd=cwd, env=own, capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def install(python: Path, *what: str | Path) -> None:
    """Installs with the pip of this environment and the build tools that it has."""
    pip = sys.executable, "-m", "pip", "--python", python, "install", "-q", "--no-deps"
    said(*pip, "--no-build-isolation", *what, cwd=python.parents[1])
