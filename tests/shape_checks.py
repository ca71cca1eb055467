"""Calls checked against every annotation of `andiron`, shapes of arrays included.

An int is accepted where a float is annotated, as PEP 484 has it.
"""

import functools
import random
import re
from pathlib import Path
from types import CodeType, FunctionType

from beartype import BeartypeConf, beartype
from beartype._check.code import codemain
from beartype._decor._nontype import decornontype
from beartype.claw import beartype_package
from jaxtyping import install_import_hook

PACKAGE = Path(__file__).resolve().parents[1] / "src" / "andiron"
# the items to check are drawn apart from Python's own generator, which is a part of a run's state
codemain.getrandbits = random.Random(0).getrandbits
ALIAS = re.compile(r"^(\w+) = .*\b(?:Bool|Float|Int|Shaped|UInt8)\[", re.M)  # of a shape
CONF = BeartypeConf(is_pep484_tower=True, claw_is_pep526=False, violation_type=TypeError)
check = beartype(conf=CONF)
DECORATE = decornontype.beartype_func
CHECKED: dict[tuple[CodeType, str], FunctionType] = {}


def install() -> None:
    """Checks the functions of andiron as they are imported.

    A shape takes a wrapper around each call: only modules that annotate shapes have one.
    """
    texts = {path: path.read_text(encoding="utf-8") for path in PACKAGE.rglob("[!_]*.py")}
    aliases = "|".join({name for text in texts.values() for name in ALIAS.findall(text)})
    shape = re.compile(rf"^from (jaxtyping|andiron.* import (\([^)]*|.*)\b({aliases})\b)", re.M)
    shaped = [path for path, text in texts.items() if shape.search(text)]
    names = [".".join(path.relative_to(PACKAGE.parent).with_suffix("").parts) for path in shaped]
    decornontype.beartype_func = _decorated
    beartype_package("andiron", conf=CONF)
    install_import_hook(names, f"{__name__}.check")


def _decorated(func: FunctionType, **more: object) -> FunctionType:
    """`func` with checks; a function within another has those that its code had the first time."""
    if "<locals>" not in func.__qualname__ or more.keys() - {"conf"}:
        return DECORATE(func, **more)
    key = (func.__code__, repr(func.__annotations__))
    if key not in CHECKED:
        CHECKED[key] = DECORATE(func, **more)
    first = CHECKED[key]
    if "__beartype_func" not in (first.__kwdefaults__ or {}):  # nothing to check
        return func
    checked = FunctionType(first.__code__, first.__globals__, first.__name__)
    checked.__kwdefaults__ = {**first.__kwdefaults__, "__beartype_func": func}
    return functools.update_wrapper(checked, func)
