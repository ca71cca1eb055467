"""Parts that training works without: the wings, and the package of the lab."""

import importlib
from typing import Any

LAB = "andiron_lab"


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
    return f"{what} is in the package {LAB}, which is not installed: pip install 'andiron[lab]'"
