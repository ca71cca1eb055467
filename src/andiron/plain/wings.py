"""Parts that training works without: the wings, the package of the lab, and their commands."""

import importlib
import shlex
import shutil
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

LAB = "andiron_lab"
IN_LAB = f"the package {LAB}, which is not installed: pip install 'andiron[lab]'"
SCRIPT = Path(__file__).resolve().parents[3] / "scripts" / "andiron.py"  # in a checkout


def optional(name: str) -> Any:
    """The module `andiron.wings.<name>`, or `andiron_lab.<...>`; None if its folder is missing."""
    module = name if name.startswith(f"{LAB}.") else f"andiron.wings.{name}"
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as error:
        if not f"{module}.".startswith(f"{error.name}."):
            raise  # a library that the part needs is missing
        return None


def missing_lab(what: str) -> str:
    """That `what` is in the lab, which is not there, and how to get it."""
    return f"{what} is in {IN_LAB}"


def lab_hint(name: str) -> str:
    """That a class of Andiron which is missing may be in the lab; empty where that is there."""
    is_own = name.startswith(("andiron.", f"{LAB}."))
    return f"; {name} may be in {IN_LAB}" if is_own and not optional(f"{LAB}.commands") else ""


def required(name: str, option: str, refusal: Callable[[str], Exception]) -> Any:
    """The module `andiron_lab.<name>`. Raises: `refusal`, naming the option, without the lab."""
    if (module := optional(f"{LAB}.{name}")) is None:
        raise refusal(missing_lab(option))
    return module


def command(words: str) -> str:
    """How a command is typed here: `andiron WORDS`, or by its script if that is not installed."""
    if shutil.which("andiron") or not SCRIPT.is_file():
        return f"andiron {words}"
    script = SCRIPT
    with suppress(OSError, ValueError):  # the working folder is elsewhere, or gone
        script = SCRIPT.relative_to(Path.cwd())
    return f"python {shlex.quote(str(script))} {words}"
