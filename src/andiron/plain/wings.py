"""Optional parts of the package: training works without their folders."""

import importlib
from typing import Any


def optional(name: str) -> Any:
    """The module `andiron.wings.<name>`; None if its folder was deleted."""
    try:
        return importlib.import_module(f"andiron.wings.{name}")
    except ModuleNotFoundError as error:
        if not f"andiron.wings.{name}.".startswith(f"{error.name}."):
            raise  # a library that the wing needs is missing
        return None
