"""Andiron works installed: as a wheel that carries its config and data, and as an editable install.
"""

import json
import shutil
import subprocess
import sys
import sysconfig
import venv
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
RUN = ("num_epochs=1", "hydra.run.dir=run")

pytestmark = pytest.mark.slow


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A copy to build from: setuptools leaves its build folder in the sources, to be found by the
    next build.
    """
    sources = ("conf", "proofs", "src", "setup.cfg", "pyproject.toml", "README.md", "LICENSE")
    copy = tmp_path / "checkout"
    for name in sources:
        source = ROOT / name
        if source.is_dir():
            shutil.copytree(
                source, copy / name, ignore=shutil.ignore_patterns("__pycache__", "*.egg-info")
            )
        else:
            copy.mkdir(exist_ok=True)
            shutil.copy(source, copy / name)
    return copy


def environment(folder: Path) -> Path:
    """A fresh virtual environment that also sees the packages of the one the tests run in; its
    python.
    """
    venv.create(folder, with_pip=True)
    (packages,) = folder.glob("lib/python*/site-packages")
    (packages / "outer.pth").write_text(sysconfig.get_path("purelib"))
    return folder / "bin" / "python"


def said(*command: str | Path, cwd: Path) -> str:
    done = subprocess.run(
        list(map(str, command)), cwd=cwd, capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def where_from(python: Path, cwd: Path) -> Path:
    return Path(said(python, "-c", "import andiron; print(andiron.__file__)", cwd=cwd).strip())


def test_a_wheel_carries_config_and_data_and_trains_from_any_directory(checkout, tmp_path):
    said(
        sys.executable, "-m", "pip", "wheel", "-q", "--no-deps", "-w", tmp_path, checkout,
        cwd=tmp_path,
    )  # fmt: skip
    (wheel,) = tmp_path.glob("andiron-*.whl")
    names = set(zipfile.ZipFile(wheel).namelist())
    shipped = {path.relative_to(ROOT).as_posix() for path in (ROOT / "conf").rglob("*.yaml")}
    assert {f"andiron/{name}" for name in shipped} <= names
    assert {"andiron/data/sources/digits.safetensors", "andiron/py.typed"} <= names
    apart = ("tests", "train.py", "scripts", "benchmarks", "proofs")
    assert not [name for name in names if name.startswith(apart)]

    python = environment(tmp_path / "env")
    said(python, "-m", "pip", "install", "-q", "--no-deps", wheel, cwd=tmp_path)
    assert where_from(python, tmp_path).is_relative_to(tmp_path / "env")

    output = said(python.with_name("andiron"), "train", *RUN, cwd=tmp_path)

    assert "epoch 1/1" in output
    assert json.loads((tmp_path / "run" / "status.json").read_text())["status"] == "done"
    check_verify_resume(python, tmp_path)


def check_verify_resume(python: Path, cwd: Path) -> None:
    """Proves a short run with the installed command, each segment in a process of its own."""
    command = python.with_name("andiron"), "verify-resume"
    assert "exact: " in said(*command, "num_epochs=1", "data=partial", "--at", "mid", cwd=cwd)


def test_an_editable_install_trains_from_any_directory(checkout, tmp_path):
    python = environment(tmp_path / "env")
    said(python, "-m", "pip", "install", "-q", "--no-deps", "-e", checkout, cwd=tmp_path)
    assert where_from(python, tmp_path) == checkout / "src" / "andiron" / "__init__.py"

    said(python.with_name("andiron"), "train", *RUN, cwd=tmp_path)

    assert json.loads((tmp_path / "run" / "status.json").read_text())["status"] == "done"
    check_verify_resume(python, tmp_path)
