"""What happens to an update whose loss or gradients are no numbers: before the weights are touched."""

import hashlib
import logging
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import torch
from torch import Tensor, nn

from andiron import errors, gradients
from andiron.checkpoint import Checkpoint, write
from andiron.gradients import Gradients
from andiron.learner.precision import Precision
from andiron.protocols import Values

Policy = Literal["stop", "skip", "ignore"]
FOLDER = "nonfinite"  # in a run's folder
MOST_LISTED = 8  # samples of a batch in a message
log = logging.getLogger("andiron")


@dataclass(frozen=True)
class Step:
    """Where in the run a step stands: the update it would have been, its epoch and batches, counted from 1."""

    update: int
    epoch: int
    first_batch: int
    num_batches: int
    samples: (
        list[list[int]] | None
    )  # indices into the training data; None where the loader does not tell

    def __str__(self) -> str:
        batches = ", ".join(str(self.first_batch + number) for number in range(self.num_batches))
        return f"update {self.update} (epoch {self.epoch}, batch {batches}{_listed(self.samples)})"


class Guard:
    """Lets through what is finite. What is not ends the run (`stop`), or is left out and counted (`skip`).

    Weights that are no numbers themselves end it under either. In fp16, gradients that overflowed while the loss did not are
    left out, and the loss scale is halved. With `ignore` nothing is looked at but for that. What a stop leaves for
    `scripts/replay.py` goes to `run_dir`.
    """

    def __init__(
        self,
        policy: Policy = "stop",
        precision: Precision | None = None,
        run_dir: Path | None = None,
    ):
        self.policy = policy
        self.precision = precision or Precision()
        self.run_dir = run_dir
        self.skipped = 0

    def passes(self, found: Gradients) -> bool:
        """Whether the update may be made. Reads one value from the device: what is applied cannot be taken back."""
        if self.policy == "ignore" and not self.precision.has_loss_scale:
            return True
        return gradients.all_finite(found)

    def leave_out(
        self,
        step: Step,
        model: nn.Module,
        found: Gradients,
        batches: Sequence[Any],
        state: Callable[[], Checkpoint],
    ) -> None:
        """What is done about an update that does not pass.

        Raises: NonFiniteError, with `state` and the step on the disk, if the policy is to stop.
        """
        loss_is_finite = found.loss is None or math.isfinite(found.loss)
        if (
            self.precision.may_have_overflowed and loss_is_finite
        ):  # the scale has no part in the loss itself
            self.skipped += 1
            self.precision.overflowed()
            log.warning(
                "%s left out: gradients overflowed in fp16; the loss scale is now %g",
                step,
                self.precision.scale,
            )
            return
        cause = diagnosis(step, model, found, batches)
        if self.policy != "stop" and not bad_weights(
            model
        ):  # with those no other batch would pass either
            self.skipped += 1
            log.warning("%s left out: %s", step, cause)
            return
        raise errors.NonFiniteError(
            f"{step} was not made: {cause}. The weights are as they were before it. {self._kept(step, found, state())}"
            "lower lr or clip the gradients, or leave such updates out with on_nonfinite=skip"
        )

    def updated(self) -> None:
        """After an update that was made."""
        self.precision.updated()

    def readings(self) -> Values:
        """`loss_scale` where there is one, and `skipped_updates` once there are some."""
        scale = {"loss_scale": self.precision.scale} if self.precision.has_loss_scale else {}
        return scale | ({"skipped_updates": float(self.skipped)} if self.skipped else {})

    def state_dict(self) -> dict[str, Any]:
        """The number of updates left out, and the loss scale."""
        return {"skipped": self.skipped, "precision": self.precision.state_dict()}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Goes on from there."""
        self.skipped = state["skipped"]
        self.precision.load_state_dict(state["precision"])

    def _kept(self, step: Step, found: Gradients, checkpoint: Checkpoint) -> str:
        """Saves the step for `scripts/replay.py`; in words, how to run it again, or why it could not be saved."""
        if self.run_dir is None:
            return ""
        name, number = f"update-{step.update}", 1
        while (
            folder := self.run_dir / FOLDER / (name if number == 1 else f"{name}.{number}")
        ).exists():
            number += 1  # the same step of a run that was resumed
        checkpoint.state["step"] = {**vars(step), "gradients": fingerprint(found)}
        try:
            folder.parent.mkdir(parents=True, exist_ok=True)
            write(folder, checkpoint)
        except OSError as error:  # a full disk must not hide what ended the run
            return f"The step could not be saved in {folder} ({error.strerror}); "
        return f"`python scripts/replay.py {folder}` runs the step again; "


def diagnosis(step: Step, model: nn.Module, found: Gradients, batches: Sequence[Any]) -> str:
    """What is not finite, from the cause to the effect: weights, batch, loss, gradients."""
    weights = bad_weights(model)
    if weights:
        return f"parameter {weights[0]!r} itself holds nan or inf"
    cause = _bad_samples(step, batches) or "weights and batch are finite"
    loss = "" if found.loss is None else f"; the loss is {float(found.loss)}"
    bad = gradients.not_finite(found)
    first = (
        f"; the first parameter with a gradient of nan or inf is {bad[0]!r} ({len(bad)} of {len(found)})"
        if bad
        else ""
    )
    return f"{cause}{loss}{first}"


def bad_weights(model: nn.Module) -> list[str]:
    """The parameters that hold a nan or an inf, by name, in order."""
    return gradients.not_finite(
        {name: tensor.detach() for name, tensor in model.named_parameters()}
    )


def _bad_samples(step: Step, batches: Sequence[Any]) -> str | None:
    """Which samples hold a nan or an inf, by their place in the batch where the loader does not tell more."""
    found: list[str] = []
    for number, batch in enumerate(batches):
        for tensor in tensors_in(batch):
            if (
                tensor.is_floating_point()
                and tensor.dim()
                and not bool(torch.isfinite(tensor).all())
            ):
                rows = (
                    ~torch.isfinite(
                        tensor.flatten(start_dim=1) if tensor.dim() > 1 else tensor[:, None]
                    )
                ).any(dim=1)
                places = rows.nonzero().flatten().tolist()
                names = step.samples[number] if step.samples else []
                is_known = len(names) == len(rows)
                found += [
                    str(names[place]) if is_known else f"{place} of its batch" for place in places
                ]
    return f"sample {', '.join(dict.fromkeys(found))} holds nan or inf" if found else None


def _listed(samples: Sequence[Sequence[int]] | None) -> str:
    """The first samples of each batch; state.json has them all."""
    if samples is None:
        return ""
    batches = [
        ", ".join(map(str, batch[:MOST_LISTED]))
        + (f" and {len(batch) - MOST_LISTED} more" if len(batch) > MOST_LISTED else "")
        for batch in samples
    ]
    return f", samples {'; '.join(batches)}"


def tensors_in(value: Any) -> Iterator[Tensor]:
    """Every tensor in a batch, whatever it is made of."""
    if isinstance(value, Tensor):
        yield value
    elif isinstance(value, Mapping):
        for inner in value.values():
            yield from tensors_in(inner)
    elif isinstance(value, Sequence) and not isinstance(value, str | bytes):
        for inner in value:
            yield from tensors_in(inner)


def fingerprint(found: Gradients) -> dict[str, Any]:
    """What tells whether gradients taken again are the same: the loss, the norm of each in words, and a SHA-256 of all bits."""
    digest = hashlib.sha256()
    for gradient in found.values():
        digest.update(
            gradient.detach().cpu().contiguous().flatten().view(torch.uint8).numpy().tobytes()
        )
    return {
        "loss": None if found.loss is None else str(float(found.loss)),
        "norms": {
            name: str(float(torch.linalg.vector_norm(gradient))) for name, gradient in found.items()
        },
        "sha256": digest.hexdigest(),
    }
