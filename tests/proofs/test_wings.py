"""A wing can be deleted with its folder: runs are trained and resumed, whole runs' tests pass."""

import ast
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import preloaded
import pytest

ROOT = Path(__file__).resolve().parents[2]
WINGS = {
    "explain": ["andiron/wings/explain"],
    "lab": ["andiron_lab"],
    "commands": ["andiron/wings/commands"],
    "runs": ["andiron/wings/runs"],
    "screen": ["andiron/wings/screen"],
    "sweep": ["andiron/wings/sweep", "hydra_plugins"],
    "trained": ["andiron/wings/trained"],
}
EVERY = [folder for folders in WINGS.values() for folder in folders]
DELETED = WINGS | {"all": EVERY}
if "ANDIRON_ALL_WINGS" not in os.environ:  # else the wings that others use, and all of them
    DELETED = {name: DELETED[name] for name in ("lab", "commands", "runs", "all")}
MODULES = tuple(folder.replace("/", ".") + "." for folder in EVERY)

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("folders", DELETED.values(), ids=DELETED)
def test_without_a_wing_a_run_is_trained_and_resumed(folders, tmp_path):
    copy = copy_without(folders, tmp_path)
    options = ("device=cpu", "render=plain")

    with preloaded.processes_of(sys.executable, copy / "src"):
        python(copy, "train.py", "num_epochs=1", "hydra.run.dir=run", *options)
        resumed = python(copy, "train.py", "resume=run", "num_epochs=2", *options)

    assert "epoch 2/2" in resumed
    command = [sys.executable, "train.py", "bacth_size=3", *options]
    wrong = subprocess.run(command, cwd=copy, capture_output=True, text=True)
    assert wrong.returncode == 2 and "bacth_size" in wrong.stderr
    assert "Traceback" not in wrong.stderr


def test_without_any_wing_every_module_is_imported_and_tests_of_whole_runs_pass(tmp_path):
    copy = copy_without(EVERY, tmp_path)
    files = (copy / "src" / "andiron").rglob("*.py")
    names = sorted(".".join(path.relative_to(copy / "src").with_suffix("").parts) for path in files)
    fast = copy / "tests" / "fast"
    tests = [
        path
        for path in [fast / "learner/test_after_fit.py", *sorted((fast / "run").rglob("test_*"))]
        if not imports_wing(path, copy / "tests")
    ]
    assert len(names) > 250 and len(tests) > 10
    every = 1 if "ANDIRON_ALL_WINGS" in os.environ else 3

    script = f"import sys, importlib; sys.path.insert(0, {str(copy / 'src')!r}); " + (
        "[importlib.import_module(name) for name in sys.argv[1:]]"
    )
    python(copy, "-c", script, *(name for name in names if not name.endswith("__main__")))
    python(copy, "-m", "pytest", "-q", *tests[::every])


def copy_without(folders: list[str], tmp_path: Path) -> Path:
    """A copy of the files that git knows or would add, without these folders of src."""
    names = "git ls-files -z --cached --others --exclude-standard".split()
    listed = subprocess.run(names, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    copy = tmp_path / "checkout"
    for name in listed.split("\0"):
        if name and not name.startswith(tuple(f"src/{folder}/" for folder in folders)):
            (copy / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / name, copy / name)
    return copy


def python(cwd: Path, *arguments: str | Path) -> str:
    environment = {name: value for name, value in os.environ.items() if "PYTEST" not in name}
    environment.pop("PYTHONPATH", None)  # the checkout has its own
    done = subprocess.run(
        [sys.executable, *arguments], cwd=cwd, env=environment, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def imports_wing(path: Path, tests: Path, seen: frozenset[Path] = frozenset()) -> bool:
    """Whether a test imports a module of a wing, itself or through helpers below `tests`."""
    for name in imported_names(path):
        if f"{name}.".startswith(MODULES):
            return True
        for folder in {path.parent, tests, tests.parent}:
            helper = folder / (name.replace(".", "/") + ".py")
            if helper.is_file() and helper not in seen | {path}:
                if imports_wing(helper, tests, seen | {path}):
                    return True
    return False


def imported_names(path: Path) -> Iterator[str]:
    """`a.b` of `import a.b`; `a` and `a.b` of `from a import b`."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield node.module
            yield from (f"{node.module}.{alias.name}" for alias in node.names)
