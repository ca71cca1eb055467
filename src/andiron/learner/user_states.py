"""The states of parts that users may write, as JSON and tensors that give equal states back.

>>> import torch
>>> plain, tensors = encoded({"observers": {"mine": {1: (0.5, None), "mean": torch.ones(2)}}})
>>> decoded(plain, tensors)["observers"]["mine"]
{1: (0.5, None), 'mean': tensor([1., 1.])}
"""

from collections.abc import Mapping
from typing import Any

from torch import Tensor

from andiron import errors
from andiron.disk import files
from andiron.serialization import state_trees

PREFIX = "parts/"  # of their tensors, which are beside those of the metrics
MOST_VALUES = files.VALUES_LIMIT // 2  # of all parts together


def encoded(states: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Tensor]]:
    """Plain values by kind and name of the part, and the tensors in them.

    Raises: ConfigError naming the place of a value that no checkpoint can hold.
    """
    tensors: dict[str, Tensor] = {}
    try:
        plain = state_trees.encoded(
            {kind: {**own} for kind, own in states.items()}, tensors, prefix=PREFIX
        )
    except RecursionError as error:
        why = "the state of a part is nested too deeply, or in itself"
        raise errors.ConfigError([f"{', '.join(states)}: {why}"]) from error
    sizes = {
        f"{kind}.{name}": files.num_values(files.as_json(state))
        for kind, own in plain.items()
        for name, state in own.items()
    }
    if sum(sizes.values()) > MOST_VALUES:
        place = max(sizes, key=lambda name: sizes[name])
        why = f"has {sizes[place]:,} values, and a checkpoint holds {MOST_VALUES:,} of all parts"
        raise errors.ConfigError([f"{place}: {why}; put many numbers in a tensor"])
    return plain, tensors


def decoded(plain: Any, tensors: Mapping[str, Tensor], file: str = "state.json") -> Any:
    """The states; their tensors are on the CPU.

    Raises: DataError for values that `encoded` cannot have written.
    """
    try:
        return state_trees.decoded(plain, tensors)
    except (LookupError, TypeError, ValueError, AttributeError, RuntimeError) as error:
        why = f"the state of a part is damaged ({errors.one_line(error)})"
        raise errors.DataError(f"{file}: {why}; use another checkpoint") from error
