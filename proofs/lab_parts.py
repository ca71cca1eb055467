"""Modules of the lab by their names, for tests and proofs of the rest that also need some of them.

    from proofs.lab_parts import rerun

Without the lab a name is a stand-in: what calls anything in it is skipped.
"""

import importlib
import unittest
from typing import Any

ASK, SEEDS, VIEWS = "andiron_lab.ask", "andiron_lab.seeds", "andiron_lab.views"
PACKAGES = {
    "bisect": ASK, "bit_comparison": ASK, "recheck": ASK, "replay": ASK, "rerun": ASK,
    "samples": ASK, "differ": SEEDS, "ideas": SEEDS, "seeds": SEEDS, "find_lr": VIEWS,
    "layer_table": VIEWS, "verify_resume": "proofs.exact_resume",
    "import_state_dict": "andiron_lab.records",
}  # fmt: skip


class _Missing:
    """A module that is not there, and anything in it."""

    def __getattr__(self, name: str) -> "_Missing":
        if name.startswith("__"):
            raise AttributeError(name)
        return self

    def __call__(self, *arguments: Any, **options: Any) -> Any:
        raise unittest.SkipTest("needs andiron_lab")


def __getattr__(name: str) -> Any:
    if name not in PACKAGES:
        raise AttributeError(name)
    try:
        return importlib.import_module(f"{PACKAGES[name]}.{name}")
    except ModuleNotFoundError as error:
        if error.name != "andiron_lab":
            raise
        return _Missing()
