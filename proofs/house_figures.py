"""The figures of the house: how large each kind of room is, and what the training loop hangs on.

    python proofs/house_figures.py [--checkout FOLDER] [--list closure|private|kinds] [--no-runs]

- Tokens of `src/` by kind (`proofs/house.py`): names, operators and numbers, as `tokenize` cuts
  them. Modules of no kind are "unlisted", as in a checkout that has another plan.
- The closure of `andiron.learner.learner`: the module and every module that it reaches by import
  statements, also those in functions and under TYPE_CHECKING. `from package import name` reaches
  the module `package.name` if there is one, else the package's `__init__`, and not both.
- What `import andiron.learner` loads in a fresh process, and the files that an update passes at a
  log point and at an epoch's end (medians of the checkout's own `proofs/trace.py`). `--no-runs`
  leaves both out; then nothing of the checkout is executed.
- Uses of private names of torch, Hydra, optuna and Python: each attribute `_name` (one
  underscore), and each imported name with such a part in its path. Not counted: attributes of
  `self` and `cls`, names that the module itself defines or sets on `self`, methods of named tuples
  (`_replace`), and names of torchmetrics, which its adapter reads.
- The longest row of a table of `docs/contributing.md` in letters, the lines of Python below
  `tests/` and `proofs/`, the words of the pages directly in `docs/`.
- What `proofs/house_structure.py` counts: long modules and functions, `Any`, `getattr`, subclasses,
  attributes set from outside.
"""

import argparse
import ast
import io
import json
import os
import subprocess
import sys
import tokenize
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

HERE = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(HERE))

from proofs import house_structure  # noqa: E402
from proofs.house import PLAN, dotted, entry_of, imported, listed_kinds, parsed  # noqa: E402

ENGINE = "andiron.learner.learner"
COUNTED = (tokenize.NAME, tokenize.OP, tokenize.NUMBER)
LOADED = ("hydra", "omegaconf", "pydantic", "rich")
OF_NAMED_TUPLES = {"_asdict", "_fields", "_make", "_replace"}
OF_TORCHMETRICS = {"_defaults", "_reductions", "_update_count"}


def tokens_by_module(source: Path) -> dict[str, int]:
    tokens = {}
    for path in sorted(source.rglob("*.py")):
        lines = io.StringIO(path.read_text(encoding="utf-8")).readline
        tokens[dotted(path, source)] = sum(
            token.type in COUNTED for token in tokenize.generate_tokens(lines)
        )
    return tokens


def kind_by_module(modules: dict[str, ast.Module]) -> dict[str, str]:
    listed = listed_kinds()
    entries = {module: entry_of(module, listed) for module in modules}
    return {module: listed[name][0] if name else "unlisted" for module, name in entries.items()}


def closure(modules: dict[str, ast.Module], start: str) -> set[str]:
    """The modules that `start` reaches by imports, itself included."""
    names, reached, left = set(modules), {start}, [start]
    while left:
        new = imported(modules[left.pop()], names) - reached
        reached |= new
        left += new
    return reached


def private_uses(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """Line and name of every use of a private name of another package."""
    exempt = OF_NAMED_TUPLES | OF_TORCHMETRICS | names_defined(tree)
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute):
            is_own = getattr(node.value, "id", "") in ("self", "cls") or node.attr in exempt
            if is_private(node.attr) and not is_own:
                yield node.lineno, ast.unparse(node)
        elif isinstance(node, ast.Import | ast.ImportFrom):
            package = f"{node.module}." if isinstance(node, ast.ImportFrom) else ""
            for name in node.names:
                parts = f"{package}{name.name}".split(".")
                if any(is_private(part) for part in {*parts} - exempt):
                    yield node.lineno, ".".join(parts)


def is_private(name: str) -> bool:
    return name.startswith("_") and not name.startswith("__")


def names_defined(tree: ast.Module) -> set[str]:
    """The names that a module defines: of functions, classes, fields, and set on `self`."""
    names = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            names.add(node.name)
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            names.add(node.id)
        elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
            names |= {node.attr} if getattr(node.value, "id", "") == "self" else set()
    return names


def modules_loaded(checkout: Path) -> list[str]:
    """The modules that a fresh process has after `import andiron.learner`."""
    code = "import sys, json, andiron.learner; print(json.dumps([*sys.modules]))"
    environment = {**os.environ, "PYTHONPATH": str(checkout / "src")}
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    return list(json.loads(done.stdout.splitlines()[-1]))


def files_passed(checkout: Path) -> list[str]:
    """Files of an update, at a log point, at an epoch's end: medians over a default run."""
    command = [sys.executable, str(checkout / "proofs" / "trace.py"), "--json"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    walks = json.loads(done.stdout.splitlines()[-1])
    return [str(walks[kind][0]) for kind in ("plain", "log_point", "epoch_end")]


def of_runs(checkout: Path) -> Iterator[tuple[str, str]]:
    modules = modules_loaded(checkout)
    own = [module for module in modules if module.split(".")[0] == "andiron"]
    of_shell = sum(module.startswith("andiron.shell") for module in own)
    packages = ", ".join(name for name in LOADED if name in modules) or "none"
    yield "import andiron.learner: own modules; of the shell", f"{len(own)}; {of_shell}"
    yield "import andiron.learner: packages", packages
    yield "files of an update; a log point; an epoch's end", "; ".join(files_passed(checkout))


def of_texts(checkout: Path) -> Iterator[tuple[str, str]]:
    page = (checkout / "docs" / "contributing.md").read_text(encoding="utf-8")
    rows = [line for line in page.splitlines() if line.startswith("| ")]
    yield "longest row of contributing.md: letters", str(max(map(len, rows)))
    for folder in ("tests", "proofs"):
        texts = [path.read_text(encoding="utf-8") for path in (checkout / folder).rglob("*.py")]
        yield f"lines below {folder}/", f"{sum(len(text.splitlines()) for text in texts):,}"
    pages = [path.read_text(encoding="utf-8") for path in (checkout / "docs").glob("*.md")]
    yield "words in docs/", f"{sum(len(page.split()) for page in pages):,}"


def figures(checkout: Path, with_runs: bool) -> Iterator[tuple[str, str]]:
    modules, tokens = parsed(checkout / "src"), tokens_by_module(checkout / "src")
    number, size = Counter[str](), Counter[str]()
    for module, kind in kind_by_module(modules).items():
        number[kind] += 1
        size[kind] += tokens[module]
    for kind in (*PLAN, "unlisted"):
        if number[kind]:
            yield f"{kind}: tokens; modules", f"{size[kind]:,}; {number[kind]}"
    yield "all: tokens; modules", f"{sum(tokens.values()):,}; {len(tokens)}"
    reached = closure(modules, ENGINE)
    yield f"closure of {ENGINE}: tokens; modules", (
        f"{sum(tokens[module] for module in reached):,}; {len(reached)}"
    )
    uses = sum(len([*private_uses(tree)]) for tree in modules.values())
    yield "uses of private names of other packages", str(uses)
    yield from house_structure.figures(checkout / "src", sum(tokens.values()))
    if with_runs:
        yield from of_runs(checkout)
    yield from of_texts(checkout)


def listing(checkout: Path, what: str) -> Iterator[str]:
    """The lines behind a figure."""
    source = checkout / "src"
    modules, tokens = parsed(source), tokens_by_module(source)
    kind = kind_by_module(modules)
    if what == "private":
        for module, tree in modules.items():
            yield from (f"{module}:{line}: {name}" for line, name in sorted(private_uses(tree)))
    else:
        shown = closure(modules, ENGINE) if what == "closure" else set(modules)
        for module in sorted(shown, key=lambda module: (kind[module], module)):
            yield f"{kind[module]:<9}{tokens[module]:>6}  {module}"


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--checkout", type=Path, default=HERE, help="whose figures; this one's")
    parser.add_argument("--list", choices=("closure", "private", "kinds"), help="lines, no figures")
    parser.add_argument("--no-runs", action="store_true", help="only what the text of code tells")
    arguments = parser.parse_args()
    checkout = arguments.checkout.resolve()
    if arguments.list:
        print("\n".join(listing(checkout, arguments.list)))
    else:
        for name, value in figures(checkout, not arguments.no_runs):
            print(f"{name:<55} {value}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
