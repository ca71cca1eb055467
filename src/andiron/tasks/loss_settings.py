"""The settings of a loss, torch's or a user's: reduction, ignored index and class weights.

>>> setting(nn.CrossEntropyLoss(ignore_index=-1), "ignore_index")
-1
>>> setting(functional.cross_entropy, "reduction")
'mean'
"""

import functools
import inspect
import logging
from collections.abc import Sequence
from typing import Any

import torch
from jaxtyping import Float, Shaped
from torch import Tensor, nn
from torch.nn import functional

from andiron.plain import readable

log = logging.getLogger("andiron")

# torch's losses whose mean is over the class weights of the targets
CLASS_LOSSES = {nn.CrossEntropyLoss: functional.cross_entropy, nn.NLLLoss: functional.nll_loss}


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


def class_function(loss: Any) -> Any:
    """`cross_entropy` or `nll_loss` of torch if the loss computes one of them; else None."""
    while isinstance(loss, functools.partial):
        loss = loss.func
    kinds = [function for module, function in CLASS_LOSSES.items() if isinstance(loss, module)]
    function = kinds[0] if kinds else setting(loss, "torch_function") or loss
    return function if function in CLASS_LOSSES.values() else None


def class_weight(loss: Any, targets: Tensor, ignored_index: int | None) -> Tensor | None:
    """The sum of the targets' weights by the class weights of torch's own losses; else None."""
    if class_function(loss) is None:
        return None
    return total_weight(setting(loss, "weight"), targets, ignored_index)


def warn_of_activations(loss: Any, output: Float[Tensor, "batch ..."]) -> None:
    """Warns of softmax before a loss that applies it, and of logits for a loss of log p."""
    function = class_function(loss)
    if function is None or output.is_meta or output.dim() < 2 or output.shape[1] < 2:
        return
    takes_log = function is functional.nll_loss
    sums = (output.exp() if takes_log else output).sum(1)
    is_one = ((sums - 1).abs() < 0.01).all()  # bfloat16 rounds to 0.4 %
    are_probabilities = bool(is_one if takes_log else is_one & (output >= 0).all())
    if takes_log and not are_probabilities:
        log.warning(
            "loss: %s takes logarithms of probabilities, and the network's outputs are none: end "
            "the network with log_softmax(dim=1), or take loss=cross_entropy",
            readable.name_of(loss),
        )
    if are_probabilities and not takes_log:
        log.warning(
            "loss: %s applies softmax, and the network has applied it already (the outputs of a "
            "sample sum to 1): training is slower and ends worse; return the logits",
            readable.name_of(loss),
        )


def total_weight(
    weights: Shaped[Tensor, " classes"] | None, targets: Tensor, ignored_index: int | None
) -> Tensor | None:
    """The sum of the targets' weights, on the device; None for no weights or for probabilities."""
    if weights is None or targets.is_floating_point():
        return None
    if ignored_index is None:
        return weights[targets].sum()
    is_known = targets != ignored_index
    return (weights[torch.where(is_known, targets, 0)] * is_known).sum()


def positive(name: str, values: Sequence[float] | None) -> Float[Tensor, " classes"] | None:
    """The values as a tensor; a negative weight would train away from its class.

    Raises: ValueError for a value that is not positive.
    """
    if values is None:
        return None
    if not values or not all(0 < value < float("inf") for value in values):
        raise ValueError(f"{name}={[*values]}: each should be a number greater than 0")
    return torch.tensor(values, dtype=torch.float32)


def like(output: Tensor, weights: Shaped[Tensor, " classes"]) -> Shaped[Tensor, " classes"]:
    """The weights on the device and in the dtype of the output."""
    if weights.device == output.device and weights.dtype == output.dtype:
        return weights
    with torch.inference_mode(False):  # a tensor from inference mode cannot be used in training
        return weights.to(output.device, output.dtype)
