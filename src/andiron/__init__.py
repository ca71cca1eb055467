"""Andiron: a training codebase for PyTorch."""

import importlib
from typing import Any

__version__ = "0.1.0"


def __getattr__(name: str) -> Any:
    """`andiron.load`, which imports torch on first use."""
    if name == "load":
        return importlib.import_module("andiron.wings.trained.loading").load
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
