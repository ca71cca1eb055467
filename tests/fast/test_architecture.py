"""The house: imports go down only, files stay small, and nothing is imported before it is needed."""

import ast
import configparser
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "src" / "andiron"
FLOORS = [
    {"improvement", "ranges"},
    {"cadence", "options"},
    {
        "errors",
        "files",
        "append_only",
        "gradients",
        "schedules",
        "outputs",
        "randomness",
        "inference",
    },
    {"serialization", "protocols", "interrupter", "devices"},
    {"config"},
    {"optim", "data", "models", "metrics", "checkpoint", "writers", "render"},
    {"tasks"},
    {"learner"},
    {"run"},
    {"build"},
    {"experiment"},
    {"commands"},
]
FLOOR = {name: number for number, names in enumerate(FLOORS) for name in names}
MODULES = sorted(path for path in PACKAGE.rglob("*.py") if path != PACKAGE / "__init__.py")
IDS = [path.relative_to(PACKAGE).as_posix() for path in MODULES]


def part(path: Path) -> str:
    """The part of the house a module belongs to: its package, or itself at the top."""
    return path.relative_to(PACKAGE).parts[0].removesuffix(".py")


def imported(path: Path) -> set[str]:
    """The parts of the house that a module imports, anywhere in it."""
    parts = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            parts |= {
                name.name.split(".")[1] for name in node.names if name.name.startswith("andiron.")
            }
        elif isinstance(node, ast.ImportFrom) and node.module == "andiron":
            parts |= {name.name for name in node.names}
        elif isinstance(node, ast.ImportFrom) and (node.module or "").startswith("andiron."):
            parts.add(node.module.split(".")[1])
        assert not (isinstance(node, ast.ImportFrom) and node.level), f"{path}: relative import"
    return parts


@pytest.mark.parametrize("path", MODULES, ids=IDS)
def test_a_module_imports_only_from_lower_floors_and_its_own_package(path):
    too_high = {
        other for other in imported(path) - {part(path)} if FLOOR[other] >= FLOOR[part(path)]
    }

    assert not too_high, f"{part(path)} is on floor {FLOOR[part(path)]}"


def test_every_part_of_the_house_has_a_floor():
    assert {part(path) for path in MODULES} == set(FLOOR)


def test_the_guard_sees_every_way_to_import(tmp_path):
    module = tmp_path / "module.py"
    module.write_text(
        "import andiron.a\nfrom andiron import b\nfrom andiron.c import d\ndef f():\n    from andiron.e.g import h\n"
    )

    assert imported(module) == {"a", "b", "c", "e"}


@pytest.mark.parametrize("path", MODULES, ids=IDS)
def test_a_module_has_one_idea_and_says_which(path):
    text = path.read_text(encoding="utf-8")
    tree = ast.parse(text)

    assert ast.get_docstring(tree)
    assert len(text.splitlines()) <= 300
    assert not re.search(r"utils|helpers|common|base|manager", path.stem)
    for node in ast.walk(tree):
        assert not isinstance(node, ast.Assert), (
            f"{path.name}:{node.lineno}: an assert vanishes under python -O"
        )
        if isinstance(node, ast.FunctionDef):
            first = node.body[1] if ast.get_docstring(node) and len(node.body) > 1 else node.body[0]
            assert node.end_lineno - first.lineno < 40, f"{path.name}: {node.name}"


def test_train_py_is_short():
    assert len((ROOT / "train.py").read_text(encoding="utf-8").splitlines()) < 60


def modules_after(statement: str) -> set[str]:
    script = (
        f"import sys; sys.path.insert(0, {str(ROOT / 'src')!r}); {statement}; print(*sys.modules)"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True, timeout=120
    )
    return set(done.stdout.split())


def test_a_config_is_checked_before_torch_is_imported():
    assert "torch" not in modules_after("import andiron.commands.train")


def test_what_a_run_does_not_need_is_not_imported():
    loaded = modules_after("import andiron.experiment")

    assert "torch" in loaded
    assert not loaded & {"torchvision", "torch._dynamo", "sklearn", "torch.utils.tensorboard"}


def test_the_package_list_is_complete():
    setup = configparser.ConfigParser()
    setup.read(ROOT / "setup.cfg", encoding="utf-8")
    listed = setup["options"]["packages"].split()

    folders = {
        path.parent.relative_to(PACKAGE.parent).as_posix().replace("/", ".")
        for path in PACKAGE.rglob("*.py")
    }
    assert listed == sorted(folders | {"andiron.conf"})


def test_nothing_tells_of_the_machine_it_was_written_on():
    listed = subprocess.run(["git", "-C", ROOT, "ls-files"], capture_output=True, text=True)
    if listed.returncode:
        pytest.skip("not a git checkout: there is no list of the files that belong to it")
    stray = re.compile(
        r"(?<![\w.~])/(?:work|root)/\w|\.\./" + "shared|" + "TO" + r"DO\b|FIX" + r"ME\b"
    )

    found = []
    for name in listed.stdout.split():
        path = ROOT / name
        if (
            not name.startswith(".ci/")
            and path.is_file()
            and path.suffix not in (".png", ".safetensors")
        ):
            lines = path.read_text(encoding="utf-8").splitlines()
            found += [
                f"{name}:{number}" for number, line in enumerate(lines, 1) if stray.search(line)
            ]
    assert found == []
