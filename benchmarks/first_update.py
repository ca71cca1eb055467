"""Runs train.py up to its first update, and prints how many seconds after STARTED (in time.time())
that was done.

python benchmarks/first_update.py STARTED [OVERRIDE ...]
"""

import functools
import importlib.util
import os
import runpy
import sys
import time
from collections.abc import Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType
from typing import Any

TRAIN = Path(__file__).resolve().parents[1] / "train.py"


class UpdateWatch(MetaPathFinder):
    """Patches the module of the update when train.py comes to import it: importing it earlier would
    change what is timed.
    """

    def __init__(self, started: float):
        self._started = started

    def find_spec(
        self, name: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if name != "andiron.learner.update":
            return None
        sys.meta_path.remove(self)
        spec = importlib.util.find_spec(name)
        execute = spec.loader.exec_module

        def execute_and_patch(module: ModuleType) -> None:
            execute(module)
            module.Updater.update = _last(module.Updater.update, self._started)

        spec.loader.exec_module = execute_and_patch
        return spec


def _last(update: Any, started: float) -> Any:
    """`update`, after which the process says how long that took and is gone."""

    @functools.wraps(update)
    def updated(*arguments: Any) -> None:
        update(*arguments)
        print(time.time() - started, flush=True)
        os._exit(0)

    return updated


if __name__ == "__main__":
    sys.meta_path.insert(0, UpdateWatch(float(sys.argv[1])))
    sys.argv = [str(TRAIN), *sys.argv[2:]]
    runpy.run_path(str(TRAIN), run_name="__main__")
