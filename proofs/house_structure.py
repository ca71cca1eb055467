"""The figures of the house that tell how objects hang together, counted in the text of the code.

- Modules of 290 lines or more; functions whose body has more than 30 lines after the docstring.
- `Any` for each 1,000 tokens; calls of `getattr`.
- Subclasses of own concrete classes: a class below `src/` whose base is another class of `src/`
  (by its last name, not one of `nn`) that is no Protocol, exception or NamedTuple and has no
  abstract method.
- Attributes set from outside: assignments to `name.attribute`, where `name` is a parameter, a
  variable or another attribute, and not `self` or `cls`.
- Arguments of the data set `csv`.
"""

import ast
from collections.abc import Iterator, Mapping
from pathlib import Path

from proofs.house import parsed

LONG_MODULE, LONG_FUNCTION = 290, 30
FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
NO_CONCRETE_BASE = {"Protocol", "NamedTuple", "TypedDict", "ABC", "Enum", "StrEnum", "IntEnum"}
EXCEPTIONS = ("Error", "Exception", "Warning", "Interrupt")


def figures(source: Path, tokens: int) -> Iterator[tuple[str, str]]:
    modules = parsed(source)
    nodes = [node for tree in modules.values() for node in ast.walk(tree)]
    texts = [path.read_text(encoding="utf-8") for path in sorted(source.rglob("*.py"))]
    long_modules = sum(len(text.splitlines()) >= LONG_MODULE for text in texts)
    long_functions = sum(lines_of(node) > LONG_FUNCTION for node in nodes)
    yield "modules of 290 lines; functions over 30", f"{long_modules}; {long_functions}"
    names = [node.id for node in nodes if isinstance(node, ast.Name)]
    yield "Any for each 1,000 tokens", f"{1000 * names.count('Any') / tokens:.1f}"
    yield "getattr", str(names.count("getattr"))
    yield "subclasses of own concrete classes", str(len(concrete_subclasses(modules)))
    outside = sum(is_set_from_outside(node) for node in nodes)
    yield "attributes set from outside", str(outside)
    yield "arguments of csv", str(arguments_of(modules, "csv"))


def lines_of(node: ast.AST) -> int:
    """The lines of a function's body after its docstring; 0 for another node."""
    if not isinstance(node, FUNCTIONS):
        return 0
    has_more = ast.get_docstring(node) is not None and len(node.body) > 1
    return (node.end_lineno or 0) - node.body[has_more].lineno + 1


def concrete_subclasses(modules: Mapping[str, ast.Module]) -> list[str]:
    """`module.Class` of every class that has an own concrete base."""
    classes = {
        node.name: node
        for tree in modules.values()
        for node in ast.walk(tree)
        if isinstance(node, ast.ClassDef)
    }
    concrete = {name for name, node in classes.items() if is_concrete(node, classes)}
    return [
        f"{module}.{node.name}"
        for module, tree in modules.items()
        for node in ast.walk(tree)
        if isinstance(node, ast.ClassDef) and concrete & set(bases_of(node))
    ]


def bases_of(node: ast.ClassDef) -> list[str]:
    """The last names of the bases: `Base` for `module.Base[T]`; none of `torch.nn`."""
    bases = [ast.unparse(base).partition("[")[0] for base in node.bases]
    return [base.rpartition(".")[2] for base in bases if not base.startswith(("nn.", "torch."))]


def is_concrete(node: ast.ClassDef, classes: Mapping[str, ast.ClassDef]) -> bool:
    left, bases = [node], {node.name}
    while left:
        new = set(bases_of(left.pop())) - bases
        bases |= new
        left += [classes[name] for name in new if name in classes]
    is_abstract = "abstractmethod" in ast.unparse(node)
    is_exception = any(name.endswith(EXCEPTIONS) for name in bases)
    return not is_abstract and not is_exception and not bases & NO_CONCRETE_BASE


def is_set_from_outside(node: ast.AST) -> bool:
    if not isinstance(node, ast.Attribute) or not isinstance(node.ctx, ast.Store):
        return False
    return getattr(node.value, "id", "") not in ("self", "cls")


def arguments_of(modules: Mapping[str, ast.Module], function: str) -> int:
    """The arguments of the function of this name with the most of them."""
    return max(
        len(node.args.args) + len(node.args.kwonlyargs)
        for tree in modules.values()
        for node in ast.walk(tree)
        if isinstance(node, FUNCTIONS) and node.name == function
    )
