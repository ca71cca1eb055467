"""Checks of targets, and errors that name the samples whose targets are invalid."""

import logging
from typing import Any

import torch
from jaxtyping import Float, Shaped
from torch import Tensor, nn
from torch.nn import functional

from andiron import errors
from andiron.outputs import IGNORED, Scalar
from andiron.plain import readable

ONE_SHAPE = "should be of one shape: give the targets, or take off the output, a dimension of 1"
OWN_TASK = (
    "several values for each target, such as a mean and a variance, need a task of your own "
    "(docs/extending.md)"
)
MOST_PLACES = 3  # named one by one
MOST_COLUMNS = 8
EXACT = 1e-5  # of a loss: float32 sums in another order
FAR = 10  # from 0, of a mean or standard deviation of targets that a network learns slowly
TOLERANCE = 1e-3  # of a sum of probabilities: rounding of bfloat16, and of printed decimals

log = logging.getLogger("andiron")


def misfit(task: object, output: Tensor, targets: Tensor, remedy: str) -> errors.DataError:
    """The error for an output whose shape does not fit the targets."""
    return errors.DataError(
        f"{type(task).__name__}: the network gives {list(output.shape)} for targets "
        f"{list(targets.shape)}; {remedy}"
    )


def no_tensor(network: nn.Module, output: object) -> errors.MismatchError:
    """The error for a network's output that is not one tensor; names the part to return instead."""
    part = "its .logits" if hasattr(output, "logits") else "one of its tensors"
    return errors.MismatchError(
        f"the network {type(network).__name__} returned {type(output).__name__}, not a tensor: "
        f"wrap it in a module whose forward returns {part}"
    )


def wrong_number(outputs: int, num_classes: int) -> errors.MismatchError:
    """The error for another number of outputs than classes."""
    return errors.MismatchError(
        f"the network gives {outputs} outputs, and the data has {num_classes} classes; give it "
        f"{num_classes} outputs (model.num_classes={num_classes}, or the size of the last layer "
        f"of your own network), or allow it with +task.num_classes={outputs}"
    )


def warn_of_unit(
    targets: Float[Tensor, "batch ..."], of_mean: bool, of_std: bool, remedy: str = "add"
) -> None:
    """Warns of a mean far from 0 or a standard deviation far above 1; of few outputs, of each."""
    is_table = targets.dim() == 2 and targets.shape[1] <= MOST_COLUMNS
    columns = targets.unbind(1) if is_table else [targets]
    values = [known for column in columns if len(known := column[column != IGNORED])]
    means = [float(known.mean()) for known in values]
    stds = [float(known.std(correction=0)) for known in values]
    is_far = any(abs(number) > FAR for number in means * of_mean + stds * of_std)
    if is_far and len(values) == len(columns):
        log.warning(
            "task: the data gives no mean and standard deviation of the targets, and the first "
            "batch is far from 0 and 1: training is slow and ends worse; %s %s %s (of this batch; "
            "the values of all training targets are better; 0 and 1 leave targets as they are)",
            remedy,
            _override("target_mean", [f"{mean:.6g}" for mean in means]),
            _override("target_std", [f"{std:.4g}" if std else "..." for std in stds]),
        )


def _override(name: str, numbers: list[str]) -> str:
    text = ",".join(numbers)
    return f"'task.{name}=[{text}]'" if len(numbers) > 1 else f"task.{name}={text}"


def all_count(targets: Tensor) -> None:
    """Refuses negative targets of a loss that says of none that it is ignored."""
    if bool((targets < 0).any()):
        raise errors.DataError(
            f"task: targets {int(targets.min())} are no classes, and would count in metrics and in "
            "the weight of a batch; give the loss an argument ignored_index with this default"
        )


def no_number(loss: object) -> errors.MismatchError:
    """The error for a loss that is not a tensor with a single number."""
    shown = f"a tensor {[*loss.shape]}" if isinstance(loss, Tensor) else type(loss).__name__
    return errors.MismatchError(
        f"loss gives {shown}, not one number; have it return the mean over the batch"
    )


def compares_pairs(loss: Any, output: Tensor, targets: Tensor) -> bool:
    """Whether a loss of [batch, 1] and [batch] compares each output with its own target alone.

    Generators stay as they are.
    """
    if output.numel() != targets.numel() or output.numel() == 1:  # other shapes are meant
        return True
    values, devices = [], [output.device] if output.is_cuda else []
    try:
        for given in (output.detach(), output.detach().view_as(targets)):
            with torch.random.fork_rng(devices):
                values.append(loss(given, targets))
    except (errors.AndironError, LookupError, RuntimeError, TypeError, ValueError):
        return True  # it takes the dimension off itself
    one, paired = values
    return torch.allclose(one, paired, equal_nan=True)


def mean_over_is(mean_over: str, loss: Tensor, output: Tensor, targets: Tensor) -> None:
    """Refuses a `mean_over` if another count gives exactly the loss, and this does not."""
    if targets.dim() != 2 or output.shape[:-1] != targets.shape:
        return
    fitting = []
    for shift, name in enumerate(("targets", "next_targets")):
        logits = output[:, : targets.shape[1] - shift].flatten(0, 1)
        value = functional.cross_entropy(logits.float(), targets[:, shift:].flatten())
        if torch.isclose(value, loss.float(), rtol=EXACT, atol=0):
            fitting.append(name)
    if fitting and mean_over not in fitting:
        problem = f"task.mean_over={mean_over}: the network's loss is the mean over {fitting[0]}"
        if mean_over == "next_targets":
            raise errors.DataError(
                f"{problem}: it compares each output with the target of its own place, and would "
                "learn to copy; shift the labels by one in the data, and set task.mean_over=targets"
            )
        raise errors.DataError(f"{problem}; set that")


def of_classes(
    targets: Tensor, num_classes: int, ignored_index: int | None, option: str | None
) -> None:
    """Refuses CPU targets that are neither one of the classes nor ignored.

    Raises: DataError that names the samples, and the option that ignores such targets, if any.
    """
    is_outside = (targets < 0) | (targets >= num_classes)
    allowed = f"should be 0 to {num_classes - 1}, the network gives {num_classes} classes"
    _check_targets(targets, targets, is_outside, allowed, ignored_index, option)


def of_yes_or_no(
    loss: Scalar,
    targets: Shaped[Tensor, "batch ..."],
    ignored_index: int | None,
    option: str | None,
) -> Scalar:
    """`loss`, if every target is 0, 1, a probability or ignored; torch would accept any number.

    A GPU is not synchronised: there the loss becomes NaN, which stops the run.
    Raises: DataError, on a CPU, that names the samples.
    """
    is_outside = ~((targets >= 0) & (targets <= 1))
    return _check_targets(loss, targets, is_outside, "should be 0 or 1", ignored_index, option)


def of_probabilities(
    loss: Scalar, targets: Float[Tensor, "batch classes"]
) -> Scalar:
    """`loss`, if each row of targets is probabilities; otherwise as `of_yes_or_no`.

    Raises: DataError, on a CPU, that names the first sample.
    """
    is_outside = (targets < 0).any(dim=1) | ((targets.sum(dim=1) - 1).abs() > TOLERANCE)
    is_outside |= targets.shape[1] == 1
    if not loss.is_cpu:
        return torch.where(is_outside.any(), torch.nan, loss)
    if bool(is_outside.any()):
        place = int(is_outside.nonzero()[0])
        error = errors.SampleError(
            f"sample {place} of the batch has targets {targets[place].tolist()}; "
            "should be probabilities of two or more classes that sum to 1; "
            "if these are values to predict, use task=regression"
        )
        error.places = [place]
        raise error
    return loss


def _check_targets(
    loss: Tensor,
    targets: Tensor,
    is_outside: Tensor,
    allowed: str,
    ignored_index: int | None,
    option: str | None = None,
) -> Tensor:
    ignoring = "no target is ignored"
    if ignored_index is not None:
        is_outside = is_outside & (targets != ignored_index)
        ignoring = f"{ignored_index} is ignored"
    if not loss.is_cpu:
        return torch.where(is_outside.any(), torch.nan, loss)
    if bool(is_outside.any()):
        values = {*targets[is_outside].tolist()}
        is_free = ignored_index is None or not bool((targets == ignored_index).any())
        if option and len(values) == 1 and is_free:
            ignoring += f", and {option}={(value := values.pop())} would ignore {value}"
        if ignored_index and IGNORED in values:
            ignoring += f"; of OnFields, ignored_index={ignored_index} marks new area so"
        error = errors.SampleError(f"{_named_samples(targets, is_outside)}; {allowed}; {ignoring}")
        error.places = [*dict.fromkeys(is_outside.nonzero()[:, 0].tolist())]
        raise error
    return loss


def _named_samples(targets: Tensor, is_outside: Tensor) -> str:
    """`sample 3 of the batch has target 10 at place 5`; of many places the numbers by target."""
    words = []
    if targets.dim() > 1 and int(is_outside.sum()) > MOST_PLACES:
        for value in sorted({*targets[is_outside].tolist()}):
            samples = (is_outside & (targets == value)).nonzero()[:, 0].tolist()
            listed = readable.joined([*dict.fromkeys(samples)])
            words.append(f"target {value:g} at {len(samples)} places of samples {listed}")
        return f"the batch has {readable.joined(words)}"
    for (sample, *inside), target in zip(
        is_outside.nonzero().tolist(), targets[is_outside].tolist(), strict=True
    ):
        where = f" at place {', '.join(map(str, inside))}" if inside else ""
        words.append(f"sample {sample} of the batch has target {target:g}{where}")
    return readable.joined(words)
