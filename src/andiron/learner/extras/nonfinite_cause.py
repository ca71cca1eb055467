"""The cause of a non-finite update, from weights to gradients, and its place in the run."""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn

from andiron import gradients
from andiron.data.structures import tensors_in
from andiron.distributed import ALONE, Sliced, World
from andiron.gradients import Gradients
from andiron.plain import readable


@dataclass(frozen=True)
class Step:
    """The place of an update in the run: its number, epoch and batches, counted from 1."""

    update: int
    epoch: int
    first_batch: int
    num_batches: int
    samples: list[list[int]] | None  # indices into the training data, if the loader has them

    @classmethod
    def of(cls, updates: int, epoch: int, first: int, number: int, loader: Any) -> "Step":
        """The update after `updates`, with `number` batches from `first` on of an `epoch`, from 0.

        A loader of the user's need not know its samples.
        """
        indices = getattr(loader, "indices", None)
        samples = indices and [indices(epoch, first + place) for place in range(number)]
        return cls(updates + 1, epoch + 1, first + 1, number, samples)

    def __str__(self) -> str:
        batches = ", ".join(str(self.first_batch + number) for number in range(self.num_batches))
        listed = "; ".join(map(readable.joined, self.samples or ()))  # state.json has them all
        samples = "" if self.samples is None else f", samples {listed}"
        return f"update {self.update} (epoch {self.epoch}, batch {batches}{samples})"


def diagnosis(
    step: Step,
    model: nn.Module,
    rejected: Gradients,
    batches: Sequence[object],
    world: World = ALONE,
) -> str:
    """The non-finite values, from cause to effect: weights, batch, loss, gradients."""
    weights = nonfinite_weights(model)
    if weights:
        return f"parameter {weights[0]!r} itself has NaN or infinity"
    cause = _nonfinite_samples(step, batches, world) or "weights and batch are finite"
    loss = "" if rejected.loss is None else f"; the loss is {float(rejected.loss)}"
    names = gradients.not_finite(rejected)
    if not names:
        return f"{cause}{loss}"
    first = f"{names[0]!r} ({len(names)} of {len(rejected)})"
    return f"{cause}{loss}; the first parameter with a gradient of nan or inf is {first}"


def nonfinite_weights(model: nn.Module) -> list[str]:
    """The names of the parameters that hold a NaN or an infinity, in order."""
    return gradients.not_finite({name: p.detach() for name, p in model.named_parameters()})


def _nonfinite_samples(step: Step, batches: Sequence[object], world: World) -> str | None:
    """The samples that hold a NaN or an infinity: indices into the data, or places in the batch."""
    parts: list[tuple[Any, Sequence[int]]] = []
    for number, batch in enumerate(batches):
        indices = step.samples[number] if step.samples else []
        if isinstance(batch, Sliced):
            of_slices = dict(world.parts(indices))
            parts += [(part, of_slices[slice_number]) for slice_number, part in batch.items()]
        else:
            parts.append((batch, indices))
    own: list[str] = []
    for part, numbers in parts:
        for tensor in tensors_in(part):
            if tensor.dim() and tensor.is_floating_point():
                bad = (~tensor[..., None].isfinite()).flatten(start_dim=1).any(dim=1)
                places = bad.nonzero().flatten().tolist()
                is_known = len(numbers) == len(bad)
                own += [str(numbers[p]) if is_known else f"{p} of its batch" for p in places]
    names = [name for of_process in world.gathered(own) for name in of_process]
    return f"sample {', '.join(dict.fromkeys(names))} has NaN or infinity" if names else None


def fingerprint(gradients: Gradients) -> dict[str, Any]:
    """Identifies gradients: the loss, each norm as text, and a SHA-256 of all bits."""
    digest = hashlib.sha256()
    for gradient in gradients.values():
        bits = gradient.detach().cpu().contiguous().flatten().view(torch.uint8)
        digest.update(bits.numpy().tobytes())
    norms = {name: str(float(torch.linalg.vector_norm(g))) for name, g in gradients.items()}
    loss = None if gradients.loss is None else str(float(gradients.loss))
    return {"loss": loss, "norms": norms, "sha256": digest.hexdigest()}
