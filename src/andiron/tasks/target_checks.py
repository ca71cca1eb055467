"""What targets may be, and the errors that name the sample whose target is something else."""

import torch
from jaxtyping import Float, Shaped
from torch import Tensor

from andiron import errors

MOST_LISTED = 8  # targets in a message
TOLERANCE = 1e-3  # of a sum of probabilities: rounding of bfloat16, and of those who print theirs


def misfit(task: object, output: Tensor, targets: Tensor, remedy: str) -> errors.DataError:
    """The error for an output whose shape is not the one that the targets ask for."""
    shapes = f"the network gives {list(output.shape)} for targets {list(targets.shape)}"
    return errors.DataError(f"{type(task).__name__}: {shapes}; {remedy}")


def no_class(
    targets: Tensor, num_classes: int, ignored_index: int | None
) -> errors.DataError | None:
    """The error for targets that name none of the classes; None if all do, or are ignored."""
    is_outside = (targets < 0) | (targets >= num_classes)
    if ignored_index is not None:
        is_outside &= targets != ignored_index
    allowed = f"should be 0 to {num_classes - 1}, the network gives {num_classes} classes"
    ignoring = "no target is ignored" if ignored_index is None else f"{ignored_index} is ignored"
    return _error(targets, is_outside, f"{allowed}; {ignoring}") if bool(is_outside.any()) else None


def of_yes_or_no(
    loss: Float[Tensor, ""], targets: Shaped[Tensor, "batch ..."], ignored_index: int | None
) -> Float[Tensor, ""]:
    """`loss`, provided that every target is 0, 1, a probability, or ignored: binary cross entropy would take any number.

    Where one is not, a CPU is told which. A GPU is not waited for: there the loss becomes nan, which stops the run.
    Raises: DataError, on a CPU.
    """
    is_outside = ~((targets >= 0) & (targets <= 1))
    if ignored_index is not None:
        is_outside &= targets != ignored_index
    if loss.device.type != "cpu":
        return torch.where(is_outside.any(), torch.nan, loss)
    if bool(is_outside.any()):
        ignoring = (
            "no target is ignored" if ignored_index is None else f"{ignored_index} is ignored"
        )
        raise _error(targets, is_outside, f"should be 0 or 1; {ignoring}")
    return loss


def of_probabilities(
    loss: Float[Tensor, ""], targets: Float[Tensor, "batch classes"]
) -> Float[Tensor, ""]:
    """`loss`, provided that each row of targets is probabilities: cross entropy would take any numbers. As `of_yes_or_no`.

    Raises: DataError, on a CPU.
    """
    is_outside = (
        (targets < 0).any(dim=1)
        | ((targets.sum(dim=1) - 1).abs() > TOLERANCE)
        | (targets.shape[1] == 1)
    )
    if loss.device.type != "cpu":
        return torch.where(is_outside.any(), torch.nan, loss)
    if bool(is_outside.any()):
        place = int(is_outside.nonzero()[0])
        error = errors.SampleError(
            f"sample {place} of the batch has targets {targets[place].tolist()}; should be probabilities of two or more classes "
            "that sum to 1; if these are values to predict, say task=regression"
        )
        error.places = [place]
        raise error
    return loss


def _error(targets: Tensor, is_outside: Tensor, allowed: str) -> errors.SampleError:
    error = errors.SampleError(f"{_listed(targets, is_outside)}; {allowed}")
    error.places = list(dict.fromkeys(is_outside.nonzero()[:, 0].tolist()))[:MOST_LISTED]
    return error


def _listed(targets: Tensor, is_outside: Tensor) -> str:
    """`sample 3 of the batch has target 10`, or `target 10 at place 5` of several targets; the first few of many."""
    places = is_outside.nonzero().tolist()
    told = []
    for sample, *inside in places[:MOST_LISTED]:
        where = f" at place {', '.join(map(str, inside))}" if inside else ""
        told.append(
            f"sample {sample} of the batch has target {targets[(sample, *inside)].item():g}{where}"
        )
    more = [f"{len(places) - MOST_LISTED} more"] if len(places) > MOST_LISTED else []
    return ", ".join(told + more)
