"""Checks of targets, and errors that name the samples whose targets are invalid."""

from collections.abc import Callable

import torch
from jaxtyping import Float, Shaped
from torch import Tensor

from andiron import errors

MOST_LISTED = 8  # targets in a message
TOLERANCE = 1e-3  # of a sum of probabilities: rounding of bfloat16, and of printed decimals


def misfit(task: object, output: Tensor, targets: Tensor, remedy: str) -> errors.DataError:
    """The error for an output whose shape does not fit the targets."""
    shapes = f"the network gives {list(output.shape)} for targets {list(targets.shape)}"
    return errors.DataError(f"{type(task).__name__}: {shapes}; {remedy}")


def no_class(
    targets: Tensor, num_classes: int, ignored_index: int | None
) -> errors.DataError | None:
    """The error for targets outside the classes; None if all are inside, or ignored."""
    is_outside = (targets < 0) | (targets >= num_classes)
    if ignored_index is not None:
        is_outside &= targets != ignored_index
    allowed = f"should be 0 to {num_classes - 1}, the network gives {num_classes} classes"
    if not bool(is_outside.any()):
        return None
    return _error(targets, is_outside, f"{allowed}; {_ignoring(ignored_index)}")


def of_yes_or_no(
    loss: Float[Tensor, ""], targets: Shaped[Tensor, "batch ..."], ignored_index: int | None
) -> Float[Tensor, ""]:
    """`loss`, if every target is 0, 1, a probability or ignored; torch would take any number.

    A GPU is not waited for: there the loss becomes nan, which stops the run.
    Raises: DataError, on a CPU, that names the samples.
    """
    is_outside = ~((targets >= 0) & (targets <= 1))
    if ignored_index is not None:
        is_outside &= targets != ignored_index
    allowed = f"should be 0 or 1; {_ignoring(ignored_index)}"
    return _checked(loss, is_outside, lambda: _error(targets, is_outside, allowed))


def of_probabilities(
    loss: Float[Tensor, ""], targets: Float[Tensor, "batch classes"]
) -> Float[Tensor, ""]:
    """`loss`, if each row of targets is probabilities; otherwise as `of_yes_or_no`.

    Raises: DataError, on a CPU, that names the first sample.
    """
    is_outside = (targets < 0).any(dim=1) | ((targets.sum(dim=1) - 1).abs() > TOLERANCE)
    is_outside |= targets.shape[1] == 1

    def error() -> errors.SampleError:
        place = int(is_outside.nonzero()[0])
        found = errors.SampleError(
            f"sample {place} of the batch has targets {targets[place].tolist()}; "
            "should be probabilities of two or more classes that sum to 1; "
            "if these are values to predict, use task=regression"
        )
        found.places = [place]
        return found

    return _checked(loss, is_outside, error)


def _checked(
    loss: Float[Tensor, ""], is_outside: Tensor, error: Callable[[], errors.SampleError]
) -> Float[Tensor, ""]:
    if loss.device.type != "cpu":
        return torch.where(is_outside.any(), torch.nan, loss)
    if bool(is_outside.any()):
        raise error()
    return loss


def _ignoring(ignored_index: int | None) -> str:
    return "no target is ignored" if ignored_index is None else f"{ignored_index} is ignored"


def _error(targets: Tensor, is_outside: Tensor, allowed: str) -> errors.SampleError:
    error = errors.SampleError(f"{_listed(targets, is_outside)}; {allowed}")
    error.places = list(dict.fromkeys(is_outside.nonzero()[:, 0].tolist()))[:MOST_LISTED]
    return error


def _listed(targets: Tensor, is_outside: Tensor) -> str:
    """`sample 3 of the batch has target 10 at place 5`; the first few of many."""
    places = is_outside.nonzero().tolist()
    shown = []
    for sample, *inside in places[:MOST_LISTED]:
        target = targets[(sample, *inside)].item()
        where = f" at place {', '.join(map(str, inside))}" if inside else ""
        shown.append(f"sample {sample} of the batch has target {target:g}{where}")
    more = [f"{len(places) - MOST_LISTED} more"] if len(places) > MOST_LISTED else []
    return ", ".join(shown + more)
