"""The plan of the house: which module is kernel, shell, wing or leaf, and what imports what.

Ground: what everything stands on. Kernel: what one must hold to change how training works. Frame:
what the engine or several leaves share, read only when a task names it. Leaf: one data set, metric,
network, format, optimizer, schedule or writer. Shell: command, configuration, record and resume.
Wing: can be deleted with its folder. Lab: a package of its own, which nothing here imports.
Read by `tests/fast/test_architecture.py` and by `proofs/house_figures.py`.
"""

import ast
from collections.abc import Collection, Mapping
from pathlib import Path

WHOLE = "*"  # every module of a package that its line in another list does not name
PLAN = {
    "ground": {
        "andiron": "errors ranges recording run_folder",
        "andiron.disk": WHOLE,
        "andiron.plain": WHOLE,
        "andiron.serialization": "safetensors_codec state_trees",
    },
    "kernel": {
        "andiron": "distributed gradients inference interrupter options outputs progress "
        "protocols randomness",
        "andiron.checkpoint": "checkpointer contents directory store strategies",
        "andiron.data": "batchers dataset loader prefetch",
        "andiron.learner": "construction evaluation learner loop metric_log nonfinite "
        "position precision run_host saving state update",
        "andiron.metrics": "history tally",
        "andiron.optim": "gradient_mean grouped model_weights optimizer transformations",
        "andiron.plain": "cadence fast_paths improvement",
        "andiron.schedules": "schedule",
        "andiron.writers": "fanout",
    },
    "shell": {
        "andiron": "__init__ __main__",
        "andiron.learner": "__init__ builder",
        "andiron.shell": WHOLE,
    },
    "wing": {
        "andiron.wings": WHOLE,
        "hydra_plugins": WHOLE,
    },
    "lab": {
        "andiron_lab": WHOLE,
    },
    "frame": {
        "andiron.checkpoint": "policy",
        "andiron.checkpoint.on_disk": WHOLE,
        "andiron.data.loading": WHOLE,
        "andiron.data.splitting": WHOLE,
        "andiron.data": "structures",
        "andiron.data.augment": "sample_random",
        "andiron.learner.extras": WHOLE,
        "andiron.metrics": "direction metric_sums",
        "andiron.optim.foreign":
            "__init__ held_class slot_checks torch_class torch_step whole_state",
        "andiron.optim.divided": WHOLE,
        "andiron.optim.own": "__init__ averaging flat_state",
        "andiron.optim.owners": WHOLE,
        "andiron.render": "text",
        "andiron.serialization": "layouts matching record",
        "andiron.tasks": "criterion loss_settings named_answers target_checks",
    },
    "leaf": {
        "andiron.checkpoint": "__init__",
        "andiron.data": "__init__",
        "andiron.data.augment": WHOLE,
        "andiron.data.composed": WHOLE,
        "andiron.data.kinds": WHOLE,
        "andiron.data.on_disk": WHOLE,
        "andiron.data.sources": WHOLE,
        "andiron.metrics": "__init__",
        "andiron.metrics.adapted": WHOLE,
        "andiron.metrics.classification": WHOLE,
        "andiron.metrics.regression": WHOLE,
        "andiron.metrics.sequence": WHOLE,
        "andiron.models": WHOLE,
        "andiron.optim": "__init__ torch_schedule",
        "andiron.optim.foreign": "torch_optimizer",
        "andiron.render": WHOLE,
        "andiron.schedules": "__init__ single_curve",
        "andiron.schedules.phased": WHOLE,
        "andiron.serialization": WHOLE,
        "andiron.tasks": "__init__ classifier forward language regressor",
        "andiron.writers": "__init__",
        "andiron.writers.shipped": WHOLE,
    },
}
WINGS = {"commands", "explain", "hydra_plugins", "runs", "screen", "sweep", "trained"}


def listed_kinds() -> dict[str, list[str]]:
    """The kinds under which `PLAN` lists each entry: `{"andiron.learner.loop": ["kernel"], ...}`.

    An entry is a module, or `andiron.shell.run.*`: the modules of a package that have no entry.
    """
    kinds: dict[str, list[str]] = {}
    for kind, packages in PLAN.items():
        for package, names in packages.items():
            for name in names.split():
                kinds.setdefault(f"{package}.{name}".removesuffix(".__init__"), []).append(kind)
    return kinds


def entry_of(module: str, listed: Collection[str]) -> str | None:
    """The entry that covers a module: its own, or that of its innermost package."""
    package = module if module not in listed else ""
    while package and f"{package}.{WHOLE}" not in listed:
        package = package.rpartition(".")[0]
    return module if module in listed else f"{package}.{WHOLE}" if package else None


def dotted(path: Path, below: Path) -> str:
    """The name by which a module is imported; that of a package for its `__init__`."""
    return ".".join(path.relative_to(below).with_suffix("").parts).removesuffix(".__init__")


def parsed(below: Path) -> dict[str, ast.Module]:
    """The syntax tree of every module below a folder, by its dotted name."""
    paths = sorted(below.rglob("*.py"))
    return {dotted(path, below): ast.parse(path.read_text(encoding="utf-8")) for path in paths}


def imported(tree: ast.Module, modules: set[str]) -> set[str]:
    """The modules of `modules` that a module imports, anywhere in it: in functions and under
    TYPE_CHECKING too.
    """
    result = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            result |= {name.name for name in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            for name in node.names:
                inner = f"{node.module}.{name.name}"
                result.add(inner if inner in modules else node.module)
    return result & modules


def homes(tree: ast.Module, modules: Mapping[str, ast.Module]) -> set[str]:
    """The modules that define what a module imports: a name from the face of a package counts for
    the module behind the face.
    """
    result = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            result |= {name.name for name in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            result |= {_home(node.module, name.name, modules) for name in node.names}
    return result & set(modules)


def _home(module: str, name: str, modules: Mapping[str, ast.Module]) -> str:
    if f"{module}.{name}" in modules or module not in modules:
        return f"{module}.{name}"
    for node in ast.walk(modules[module]):
        if isinstance(node, ast.ImportFrom) and name in {other.name for other in node.names}:
            return _home(node.module or "", name, modules) if node.module in modules else module
    return module
