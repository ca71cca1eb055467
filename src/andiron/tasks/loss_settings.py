"""The settings of a loss, torch's or a user's: reduction, ignored index and class weights.

>>> setting(nn.CrossEntropyLoss(ignore_index=-1), "ignore_index")
-1
>>> setting(functional.cross_entropy, "reduction")
'mean'
"""

import functools
import inspect
from typing import Any

from torch import Tensor, nn
from torch.nn import functional

from andiron.tasks.class_weights import total_weight

# torch's losses whose mean is over the class weights of the targets
CLASS_LOSSES = (functional.cross_entropy, functional.nll_loss)
CLASS_LOSS_MODULES = (nn.CrossEntropyLoss, nn.NLLLoss)


def setting(loss: Any, name: str) -> Any:
    """The loss's attribute of this name, or the default of its argument; None if it has neither."""
    if hasattr(loss, name):
        return getattr(loss, name)
    try:
        default = inspect.signature(loss).parameters[name].default
    except (KeyError, TypeError, ValueError):  # another signature, or a callable without one
        return None
    return None if default is inspect.Parameter.empty else default


def check(loss: object) -> None:
    """Raises: ValueError for a loss that is not a mean, is a class, or has trainable parameters."""
    if isinstance(loss, type):
        raise ValueError(
            f"loss={loss.__name__}: is a class; give an object of it, in YAML without _partial_"
        )
    reduction = setting(loss, "reduction")
    if reduction not in (None, "mean", "batchmean"):
        raise ValueError(
            f"loss.reduction={reduction}: should be mean, so that batches of any size weigh alike"
        )
    if isinstance(loss, nn.Module) and (names := dict(loss.named_parameters())):
        raise ValueError(
            f"loss has parameters ({', '.join(names)}) that would not be trained; put them in the "
            "network"
        )


def class_weight(loss: Any, targets: Tensor, ignored_index: int | None) -> Tensor | None:
    """The sum of the targets' weights by the class weights of torch's own losses; else None."""
    function = getattr(loss, "func", None)  # of a functools.partial
    while isinstance(function, functools.partial):  # of another
        function = function.func
    if not isinstance(loss, CLASS_LOSS_MODULES) and function not in CLASS_LOSSES:
        return None
    return total_weight(setting(loss, "weight"), targets, ignored_index)
