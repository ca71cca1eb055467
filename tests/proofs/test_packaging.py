"""Andiron works installed as a wheel that carries its config and data.

The commands of docs/commands.md work in a project of `andiron new`. An editable install trains in
tests/proofs/test_pages_run.py.
"""

import importlib.util
import json
import re
import shutil
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import preloaded
import pytest
from fresh_environment import environment, install, said

ROOT = Path(__file__).resolve().parents[2]
RUN = ("num_epochs=1", "hydra.run.dir=run")
LANGUAGE = (
    "data=text", "data.path=README.md", "data.context_length=8", "task=language_model", "model=gpt",
    "model.dim=8", "model.heads=1", "model.layers=1", "loss=cross_entropy", "metrics=language",
)  # fmt: skip
COMMANDS = [  # of a new project, each as it is typed there, with its exit code
    ("schema", 0),
    ("check num_epochs=1", 0),
    ("plan num_epochs=1", 0),
    ("train num_epochs=1 hydra.run.dir=outputs/one", 0),
    ("train resume=outputs/one num_epochs=2 width=32", 0),
    ("train -m width=4,8 num_epochs=1 hydra.sweep.dir=sweep", 0),
    ("train lr=1e20 optimizer=sgd num_epochs=1 hydra.run.dir=outputs/diverged", 1),
    ("replay outputs/diverged/nonfinite/update-2", 0),
    (f"train {' '.join(LANGUAGE)} num_epochs=1 hydra.run.dir=outputs/text", 0),
    ("generate outputs/text --length 5", 0),
    ("predict outputs/text words", 0),
    ("tokenize --check no-shards", 1),
    ("consolidate no-checkpoint joined", 1),
    ("find-lr --updates 12", 0),
    ("try first num_epochs=1 --seeds 1", 0),
    ("watch outputs/one --once", 0),
    ("evaluate outputs/one", 0),
    ("export outputs/one --format safetensors --output exported", 0),
    ("runs list", 0),
    ("seeds sweep/0 --add 1", 0),
    ("differ sweep", 0),
    ("recheck sweep/0 --from-start", 0),
    ("samples outputs/one --update 1 --from-start", 0),
    ("rerun sweep/0", 0),
    ("bisect sweep/0 sweep/1", 1),
    ("accept-changes outputs/one", 0),
    ("import-state-dict exported.pt imported.safetensors", 0),
    ("verify-resume num_epochs=1 --at mid", 0),
    ("new other", 0),
]

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def checkout(tmp_path_factory) -> Path:
    """A copy to build from: setuptools leaves its build folder in the sources, to be found by the
    next build.
    """
    sources = (
        "conf", "proofs", "src", "setup.cfg", "setup.py", "pyproject.toml", "README.md", "LICENSE",
    )  # fmt: skip
    copy = tmp_path_factory.mktemp("sources") / "checkout"
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


def where_from(python: Path, cwd: Path) -> Path:
    return Path(said(python, "-c", "import andiron; print(andiron.__file__)", cwd=cwd).strip())


@pytest.fixture(scope="module")
def wheel(checkout, made_once) -> Path:
    """The wheel that pip builds, as in an empty environment."""

    def make(folder: Path) -> None:
        pip = sys.executable, "-m", "pip", "wheel", "-q", "--no-deps"
        said(*pip, "-w", folder, checkout, cwd=folder)

    (wheel,) = made_once("wheel", make).glob("andiron-*.whl")
    return wheel


@pytest.fixture(scope="module")
def python(wheel, made_once) -> Path:
    """The python of a fresh environment with the wheel."""
    folder = made_once("installed", lambda folder: install(environment(folder / "env"), wheel))
    return folder / "env" / "bin" / "python"


def test_a_wheel_carries_config_and_data_and_trains_from_any_directory(wheel, python, tmp_path):
    names = set(zipfile.ZipFile(wheel).namelist())
    files = [path for path in (ROOT / "conf").rglob("*") if path.suffix in (".yaml", ".json")]
    shipped = {path.relative_to(ROOT).as_posix() for path in files}
    assert {f"andiron/{name}" for name in shipped} <= names
    assert {"andiron/data/sources/digits.safetensors", "andiron/py.typed"} <= names
    apart = ("tests", "train.py", "scripts", "benchmarks", "proofs")
    assert not [name for name in names if name.startswith(apart)]

    assert where_from(python, tmp_path).is_relative_to(python.parents[1])

    output = said(python.with_name("andiron"), "train", *RUN, cwd=tmp_path)

    assert "epoch 1/1" in output
    schema = said(python.with_name("andiron"), "schema", "--answers", "train", cwd=tmp_path)
    assert json.loads(schema) == json.loads((ROOT / "conf/answers/train.json").read_text())
    assert json.loads((tmp_path / "run" / "status.json").read_text())["status"] == "done"


def test_a_new_project_has_every_command_of_the_page(python, tmp_path):
    page = (ROOT / "docs" / "commands.md").read_text(encoding="utf-8")
    names = {text.partition(" ")[0] for text, _ in COMMANDS}
    assert names == {*re.findall(r"^\| `andiron ([\w-]+)` \|", page, re.MULTILINE)}
    andiron, mine = python.with_name("andiron"), tmp_path / "mine"
    said(andiron, "new", "mine", cwd=tmp_path)
    said(
        python, "-c", "import torch; torch.save({'weight': torch.ones(2)}, 'exported.pt')", cwd=mine
    )  # fmt: skip

    with preloaded.processes_of(python):
        for text, code in COMMANDS:
            command = [str(python), str(andiron), *text.split()]
            done = subprocess.run(command, cwd=mine, capture_output=True, text=True, timeout=300)
            assert done.returncode == code, (text, done.stderr)
            assert f"project {mine}: {mine / 'conf'}, trust mine\n" in done.stderr, text

    config = json.loads((mine / "sweep" / "1" / "config.json").read_text())
    assert config["model"] == {"_target_": "mine.Residual", "width": 8}


def test_the_source_distribution_holds_the_project_and_both_are_fit_to_publish(
    checkout, wheel, tmp_path
):
    build = "from setuptools import build_meta; print(build_meta.build_sdist(r'{}'))"
    name = said(sys.executable, "-c", build.format(tmp_path), cwd=checkout).split()[-1]
    with tarfile.open(tmp_path / name) as archive:
        packed = {member.partition("/")[2] for member in archive.getnames()}
    template = ROOT / "src" / "andiron" / "template"
    files = [path for path in template.rglob("*") if path.is_file()]
    assert {path.relative_to(ROOT).as_posix() for path in files} <= packed
    assert {"conf/train.yaml", "conf/schema.json", "proofs/exact_resume/segment.py"} <= packed
    if importlib.util.find_spec("twine"):
        said(
            sys.executable, "-m", "twine", "check", "--strict", wheel, tmp_path / name, cwd=tmp_path
        )  # fmt: skip
