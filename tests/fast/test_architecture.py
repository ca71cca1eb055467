"""The house: imports go down only and never in a circle; modules are small, have one name each, and
no code is left over.

Each test collects every offender, so that one failure names all there is to do.
"""

import ast
import graphlib
import re
import subprocess
from collections import Counter
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from proofs.house import WINGS, entry_of, homes, imported, listed_kinds, parsed
from proofs.house_figures import private_uses

ROOT = Path(__file__).resolve().parents[2]
SOURCE = ROOT / "src"
FLOORS = [
    {"disk", "plain"},
    {"inference", "progress", "randomness", "recording", "run_folder"},
    {"errors", "gradients"},
    {"outputs", "ranges"},
    {"distributed", "interrupter", "models", "options", "protocols", "schedules", "serialization"},
    {"checkpoint", "config", "data", "metrics", "optim", "render", "writers"},
    {"run", "tasks"},
    {"cli", "learner"},
    {"assembly", "python_run"},
    {"training"},
    {"__main__", "commands", "explain", "runs", "screen", "sweep", "trained", "hydra_plugins"},
    {"andiron_lab"},
]
FLOOR = {name: number for number, names in enumerate(FLOORS) for name in names}
MOST_PRIVATE_NAMES = 50  # of torch, Hydra, optuna and Python
LINES_OF_A_MODULE, LINES_OF_A_FUNCTION = 300, 40
GENERATED = re.compile("# options: generated.*# end of the options", re.DOTALL)
TO_KINDS = {  # what a module may import of other kinds; a leaf beside these its own package
    "ground": {"ground", "kernel"},  # of plain/
    "kernel": {"ground", "kernel", "frame"},
    "frame": {"ground", "kernel", "frame"},
    "leaf": {"ground"},
    "shell": {"ground", "kernel", "frame", "shell"},
}
NOUNS = {  # and modules at the top
    "andiron.data.dataset", "andiron.data.structures", "andiron.schedules.schedule",
}  # fmt: skip
EXCEPTIONS = {  # to become fewer
    # an optimizer and scheduler of torch's are given as they are
    "andiron.learner.construction": {"andiron.optim.foreign.torch_optimizer"},
    # the door: what a builder hands to the learner unless something else is chosen
    "andiron.learner.builder": {"andiron.metrics.classification.worst_classes", "andiron.render",
                                "andiron.writers"},
    # the vocabulary that data.json holds
    "andiron.data.splitting.described": {"andiron.data.on_disk.text_file"},
    # options that wrap any data, network, task or schedule
    "andiron.shell.assembly.components": {"andiron.data.composed.derived_splits"},
    "andiron.shell.assembly.grouped_optimizer": {"andiron.schedules"},
    "andiron.shell.assembly.network": {"andiron.models.activation_checkpointing"},
    "andiron.shell.assembly.targets": {"andiron.schedules"},
}  # fmt: skip
# imported when a learner is built from Python, so that the learner itself needs no shell
DOOR = "andiron.learner.builder", "andiron.shell.python_run.folder_host"
VAGUE_NAMES = {"util", "utils", "helper", "helpers", "common", "base", "manager", "part", "parts"}
CALLED_BY_LIBRARIES = {
    "after_trial", "emit", "extra_repr", "forward", "manipulate_search_path", "reset_parameters",
}  # fmt: skip


@cache
def modules() -> dict[str, ast.Module]:
    """The syntax tree of every module of the package; read when a test asks, not in collection."""
    return parsed(SOURCE)


@cache
def graph() -> dict[str, set[str]]:
    """The modules of the package that each of them imports."""
    return {name: imported(tree, set(modules())) for name, tree in modules().items()}


def part(module: str) -> str:
    """The part of the house that a module belongs to: its package, or itself at the top."""
    package, *below = module.split(".")
    below = below[1:] if below[:1] in (["shell"], ["wings"]) else below
    return (below or [""])[0] if package == "andiron" else package


def functions(tree: ast.Module) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield node


def test_a_module_imports_only_from_lower_floors_and_its_own_package():
    too_high = [
        f"{module} (floor {FLOOR[part(module)]}) imports {other} (floor {FLOOR[part(other)]})"
        for module, others in graph().items()
        for other in sorted(others)
        if part(module) and part(other) and part(other) != part(module)
        if not {part(module), part(other)} <= WINGS and (module, other) != DOOR
        if FLOOR[part(other)] >= FLOOR[part(module)]
    ]
    assert not too_high, "\n".join(too_high)


def test_training_imports_no_wing():
    imports = [
        f"{module} imports {other}"
        for module, others in graph().items()
        for other in sorted(others)
        if part(module) not in {*WINGS, "andiron_lab"} and part(other) in WINGS
    ]
    assert not imports, "\n".join(imports)


def test_nothing_imports_the_lab():
    imports = [
        f"{module} imports {other}"
        for module, others in graph().items()
        for other in sorted(others)
        if part(module) != "andiron_lab" == part(other)
    ]
    assert not imports, "\n".join(imports)


def test_engine_leaves_and_shell_import_only_what_their_kind_may():
    listed, packages = listed_kinds(), {name.rpartition(".")[0] for name in modules()}
    kinds = {name: listed[entry_of(name, listed) or ""][0] for name in modules()}
    crossings = {
        module: {other for other in homes(tree, modules()) if not may_import(module, other, kinds)}
        for module, tree in modules().items()
        if module not in packages  # faces show their package
        if kinds[module] not in ("wing", "lab")
    }
    assert {module: others for module, others in crossings.items() if others} == EXCEPTIONS


def may_import(module: str, other: str, kinds: dict[str, str]) -> bool:
    is_at_top = other.count(".") == 1 and kinds[other] == "kernel"
    is_noun = is_at_top or other in NOUNS or part(other) == "plain"
    is_of_leaf = kinds[module] == "leaf" and (is_noun or part(other) == part(module))
    return is_of_leaf or kinds[other] in TO_KINDS[kinds[module]]


@pytest.mark.usefixtures("needs_lab")
def test_every_part_of_the_house_has_a_floor():
    assert {part(module) for module in modules() if part(module)} == set(FLOOR)


@pytest.mark.usefixtures("needs_lab")
def test_the_plan_of_the_house_has_every_module_once():
    listed = listed_kinds()
    entries = {module: entry_of(module, listed) for module in modules()}

    assert [module for module, entry in entries.items() if entry is None] == []
    assert sorted(set(listed) - {*entries.values()}) == []  # nothing is left in these
    assert {entry: kinds for entry, kinds in listed.items() if len(kinds) > 1} == {}


def test_no_modules_import_each_other_in_a_circle():
    try:
        graphlib.TopologicalSorter(graph()).prepare()
    except graphlib.CycleError as error:
        pytest.fail(" -> ".join(reversed(error.args[1])))


def test_private_names_are_few_and_of_torch_in_one_module():
    uses = [(name, use) for name, tree in modules().items() for _, use in private_uses(tree)]
    assert len(uses) <= MOST_PRIVATE_NAMES, uses
    home = "andiron.plain.private_torch"
    assert [use for use in uses if use[1].startswith("torch._") and use[0] != home] == []


def test_no_import_is_relative():
    relative = [
        f"{module}:{node.lineno}"
        for module, tree in modules().items()
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and node.level
    ]
    assert not relative, "\n".join(relative)


def test_every_module_says_what_it_knows():
    assert [module for module, tree in modules().items() if not ast.get_docstring(tree)] == []


def test_every_module_has_a_name_of_its_own_and_no_vague_one():
    packages = {".".join(module.split(".")[:-1]) for module in modules()}
    stems = {module: module.rpartition(".")[2] for module in modules() if module not in packages}
    number = Counter(stems.values())
    offenders = [
        module
        for module, stem in stems.items()
        if number[stem] > 1 or VAGUE_NAMES & set(stem.split("_"))
    ]
    assert not offenders, "\n".join(offenders)


def test_modules_are_short():
    long = [
        f"{path.relative_to(ROOT)}: {number} lines"
        for path in sorted(SOURCE.rglob("*.py"))
        if (number := len(GENERATED.sub("", path.read_text("utf-8")).splitlines()))
        > LINES_OF_A_MODULE
    ]
    assert not long, "\n".join(long)
    assert len((ROOT / "train.py").read_text(encoding="utf-8").splitlines()) < 60


def test_functions_are_short():
    long = []
    for module, tree in modules().items():
        for node in functions(tree):
            has_more = ast.get_docstring(node) and len(node.body) > 1
            lines = node.end_lineno - node.body[1 if has_more else 0].lineno + 1
            if lines > LINES_OF_A_FUNCTION:
                long.append(f"{module}:{node.lineno}: {node.name} has {lines} lines")
    assert not long, "\n".join(long)


def test_nothing_is_asserted_and_no_error_is_swallowed():
    offenders = []
    for module, tree in modules().items():
        for node in ast.walk(tree):
            if isinstance(node, ast.Assert):
                offenders.append(f"{module}:{node.lineno}: an assert vanishes under python -O")
            if isinstance(node, ast.ExceptHandler) and _catches_everything(node):
                offenders.append(f"{module}:{node.lineno}: an error of any kind is swallowed")
    assert not offenders, "\n".join(offenders)


def _catches_everything(handler: ast.ExceptHandler) -> bool:
    """Whether errors of any kind end there: none is raised again, kept, or handed on."""
    if handler.type is None:
        return True
    is_broad = getattr(handler.type, "id", "") in ("Exception", "BaseException")
    names = {node.id for node in ast.walk(handler) if isinstance(node, ast.Name)}
    is_raised = any(isinstance(node, ast.Raise) for node in ast.walk(handler))
    return is_broad and not is_raised and handler.name not in names


def test_no_code_is_left_that_only_tests_use():
    pytest.importorskip("andiron_lab", reason="the lab uses some of it")
    used = names_used()
    unused = [
        f"{module}:{node.lineno}: {node.name}"
        for module, tree in modules().items()
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef | ast.ClassDef)
        if not node.name.startswith("_") and node.name not in used | CALLED_BY_LIBRARIES
    ]
    assert not unused, "\n".join(unused)


def names_used() -> set[str]:
    """Every name that code outside the tests, a configuration or a page refers to; words of short
    strings count.
    """
    used: set[str] = set()
    others = [parsed(ROOT / folder) for folder in ("proofs", "benchmarks", "scripts")]
    del others[0]["house"]  # names modules only
    for tree in (tree for trees in (modules(), *others) for tree in trees.values()):
        for node in ast.walk(tree):
            if isinstance(node, ast.Name | ast.Attribute):
                used.add(node.id if isinstance(node, ast.Name) else node.attr)
            elif isinstance(node, ast.Constant) and isinstance(node.value, str):
                used |= set(re.findall(r"\w+", node.value)) if len(node.value) < 200 else set()
    pages = [*(ROOT / "conf").rglob("*.yaml"), *(ROOT / "docs").glob("*.md")]
    for path in [*pages, ROOT / "README.md", ROOT / "setup.cfg", ROOT / "train.py"]:
        used |= set(re.findall(r"\w+", path.read_text(encoding="utf-8")))
    return used


@pytest.mark.usefixtures("needs_lab")
def test_benchmarks_and_proofs_use_names_that_the_package_has():
    missing = []  # the type checker reads src/ only
    for folder in ("benchmarks", "proofs", "scripts"):
        for path, tree in parsed(ROOT / folder).items():
            aliases = {}  # of modules of the package, such as `andiron.shell.config.schema`
            for module, name, alias in names_imported(tree):
                if f"{module}.{name}" in modules():
                    aliases[alias] = f"{module}.{name}"
                elif name not in names_of(module):
                    missing.append(f"{folder}/{path}: {module}.{name}")
            for node in ast.walk(tree):
                if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
                    module = aliases.get(node.value.id)
                    if module and node.attr not in names_of(module):
                        missing.append(f"{folder}/{path}:{node.lineno}: {module}.{node.attr}")
    assert not missing, "\n".join(missing)


def names_imported(tree: ast.Module) -> Iterator[tuple[str, str, str]]:
    """Module, name and local name of every `from andiron... import name`."""
    for node in ast.walk(tree):
        package = str(getattr(node, "module", "")).split(".")[0]
        if isinstance(node, ast.ImportFrom) and package in ("andiron", "andiron_lab"):
            for name in node.names:
                yield node.module or "", name.name, name.asname or name.name


@cache
def names_of(module: str) -> set[str]:
    """The names that a module of the package defines or imports, and the modules inside it."""
    inside = {name.rpartition(".")[2] for name in modules() if name.rpartition(".")[0] == module}
    names = inside | {"__file__", "__name__"}
    for node in ast.walk(modules()[module]):
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            names.add(node.name)
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            names.add(node.id)
        elif isinstance(node, ast.Import | ast.ImportFrom):
            names |= {name.asname or name.name for name in node.names}
    return names


def test_every_test_belongs_to_a_tier():
    tiers = [ROOT / "tests" / name for name in ("fast", "runs", "proofs", "lab")]
    stray = [
        path.relative_to(ROOT).as_posix()
        for path in (ROOT / "tests").rglob("test_*.py")
        if not any(tier in path.parents for tier in tiers)
    ]
    assert not stray, "\n".join(stray)
    assert [path.as_posix() for path in (ROOT / "tests").rglob("__init__.py")] == []


def test_every_test_module_has_a_name_of_its_own():
    names = Counter(path.name for path in (ROOT / "tests").rglob("*.py"))
    assert [name for name, number in names.items() if number > 1] == []  # pytest imports by name


def test_the_fast_tier_starts_no_python():
    signs = re.compile(r"sys\.executable|small_disks|train_processes|\bPopen\(")
    offenders = [
        path.relative_to(ROOT).as_posix()
        for path in sorted((ROOT / "tests" / "fast").rglob("*.py"))
        if path != Path(__file__) and signs.search(path.read_text(encoding="utf-8"))
    ]
    assert not offenders, "\n".join(offenders)


def test_nothing_tells_of_the_machine_it_was_written_on():
    listed = subprocess.run(["git", "-C", ROOT, "ls-files"], capture_output=True, text=True)
    if listed.returncode:
        pytest.skip("not a git checkout: there is no list of the files that belong to it")
    stray = re.compile(
        r"(?<![\w.~])/(?:work|root)/\w|\.\./" + "shared|" + "TO" + r"DO\b|FIX" + r"ME\b"
    )

    result = []
    for name in listed.stdout.split():
        path = ROOT / name
        if (
            not name.startswith(".ci/")
            and path.is_file()
            and path.suffix not in (".png", ".safetensors", ".bpk")
        ):
            lines = path.read_text(encoding="utf-8").splitlines()
            result += [
                f"{name}:{number}" for number, line in enumerate(lines, 1) if stray.search(line)
            ]
    assert not result, "\n".join(result)
