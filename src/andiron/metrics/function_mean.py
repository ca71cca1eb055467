"""A metric that is one function of what a step returns, a user's own."""

import sys
from collections.abc import Callable
from typing import Any

from torch import Tensor

from andiron import errors


class Mean:
    """The mean of what `of(item)` gives: a tensor of values, or (total, count) of the batch.

    `of` is a function or its dotted name, which Hydra looks up, so that its policy on what a config may name holds.
    The name is by default the function's own.
    Raises: ValueError if `of` names no function.
    """

    def __init__(
        self, of: str | Callable[[Any], Any], *, higher_is_better: bool, name: str | None = None
    ):
        self.of = _located(of) if isinstance(of, str) else of
        self.higher_is_better = higher_is_better
        self.name = name or str(getattr(self.of, "__name__", type(self.of).__name__))

    def __call__(self, item: Any) -> tuple[Tensor, Tensor | int]:
        """(total, count) of one batch.

        Raises: TypeError if the function gives neither that nor values to count.
        """
        result = self.of(item)
        if isinstance(result, Tensor) and result.ndim > 0:
            return result, result.numel()
        if isinstance(result, tuple) and len(result) == 2 and isinstance(result[0], Tensor):
            return result
        found = (
            "a single number" if isinstance(result, Tensor | float | int) else type(result).__name__
        )
        raise TypeError(
            f"{self.name}: the function gives {found} for a batch; return a tensor with a value for each sample, "
            "or (total, count), so that a short batch counts for what it is"
        )


def _located(name: str) -> Callable[[Any], Any]:
    import hydra.utils  # here, because only a config names functions
    from hydra.errors import HydraException

    try:
        function: Callable[[Any], Any] = hydra.utils.instantiate(
            {"_target_": name, "_partial_": True}
        ).func
    except HydraException as error:
        cause = " ".join(str(error.__cause__ or error).split())
        raise ValueError(
            f"of={name}: no function of that name can be used: {cause}{_remedy(name)}"
        ) from error
    return function


def _remedy(name: str) -> str:
    module, _, attribute = name.rpartition(".")
    if module not in sys.modules:
        return "; give module.function, of a module that Python finds: beside train.py, installed, or on PYTHONPATH"
    if hasattr(sys.modules[module], attribute):
        return "; give a function of your own module"
    return errors.nearest(attribute, dir(sys.modules[module]))
