"""Parts of the package that training does without: each may be deleted with its folder."""

import importlib
from typing import Any


def optional(name: str) -> Any:
    """The module `andiron.<name>` of a wing; None if its folder was deleted."""
    try:
        return importlib.import_module(f"andiron.{name}")
    except ModuleNotFoundError as error:
        if not f"andiron.{name}.".startswith(f"{error.name}."):
            raise  # of a library that the wing needs
        return None
