"""The hyperparameters of a run as flat plain values, for TensorBoard's HParams and other writers."""

import json
from typing import Any

from andiron.config import schema
from andiron.config.leaves import leaves
from andiron.config.schema import Train


def of(config: Train) -> dict[str, bool | int | float | str]:
    """What distinguishes one run from another: numbers, and each node's class and arguments.

    A node's class stands under the name of the node. A schedule's repetitions of `lr` are left out.
    """
    flat: dict[str, bool | int | float | str] = {}
    for path, value in leaves(schema.hyperparameters(config)):
        is_repeated = len(path) == 2 and path[0] == "scheduler" and value == config.lr
        if value is None or value == {} or is_repeated:
            continue
        if path[-1] == "_target_":
            flat[".".join(path[:-1])] = value.rpartition(".")[2]
        else:
            flat[".".join(path)] = _plain(value)
    return flat


def _plain(value: Any) -> bool | int | float | str:
    return value if isinstance(value, bool | int | float | str) else json.dumps(value)
