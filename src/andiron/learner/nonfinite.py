"""The one policy for non-finite values: an update or a measured loss with a NaN or an infinity."""

import copy
import logging
import math
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import torch
from torch import Tensor, nn

from andiron import errors, gradients
from andiron.checkpoint.on_disk.checkpoint_files import write
from andiron.checkpoint.contents import Checkpoint
from andiron.distributed import ALONE, World
from andiron.gradients import Gradients
from andiron.learner.extras.nonfinite_cause import Step, diagnosis, fingerprint, nonfinite_weights
from andiron.learner.precision import Precision
from andiron.optim import model_weights
from andiron.optim.grouped import GroupedOptimizer
from andiron.plain import private_torch, wings
from andiron.plain.plain_values import Named, Plain
from andiron.protocols import Values

Policy = Literal["stop", "skip", "ignore"]
log = logging.getLogger("andiron")


class RejectedError(Exception):
    """Non-finite gradients of a step, which is then not made."""

    def __init__(self, gradients: Gradients):
        super().__init__("the gradients are not finite")
        self.gradients = gradients


@dataclass
class Nonfinite:
    """Decides before the weights change: `stop` ends the run, `skip` drops the update.

    Non-finite weights end the run under either policy. In fp16, an update with a finite
    loss and overflowed gradients is skipped, and the loss scale halved. `ignore` checks nothing
    else.
    Under `stop`, the state before the update is saved in a new folder in `folder`:
    `andiron replay` reads it if the run `is_configured`, and `Learner.load` otherwise.
    """

    policy: Policy = "stop"
    precision: Precision = field(default_factory=Precision)
    folder: Path | None = None
    skipped: int = 0
    world: World = ALONE
    is_configured: bool = True

    def __post_init__(self) -> None:
        self.checks = self.policy != "ignore" or self.precision.has_loss_scale
        # reads one value from the device: an update that was applied cannot be taken back
        self.passes = gradients.mean_is_finite if self.checks else lambda _: True

    def checked(self, mean: Gradients) -> Gradients:
        """The mean gradients; RejectedError if the weights may not change by them."""
        if not self.passes(mean):
            raise RejectedError(mean)
        return mean

    def leave_out(
        self,
        step: Step,
        model: nn.Module,
        rejected: Gradients,
        batches: Sequence[object],
        snapshot: Callable[[], Checkpoint] | None,
    ) -> None:
        """Skips a non-finite update with a warning, or stops the run.

        Raises: NonFiniteError under `stop`, after saving `snapshot()` and the step.
        """
        loss_is_finite = rejected.loss is None or math.isfinite(rejected.loss)
        if self.precision.may_have_overflowed and loss_is_finite:  # the loss is not scaled
            self.skipped += 1
            self.precision.overflowed()
            scale = self.precision.scale
            message = "%s skipped: gradients overflowed in fp16; the loss scale is now %g"
            log.warning(message, step, scale)
            return
        cause = diagnosis(step, model, rejected, batches, self.world)
        if self.policy != "stop" and not nonfinite_weights(model):  # or no other batch would pass
            self.skipped += 1
            log.warning("%s skipped: %s", step, cause)
            return
        saved = self._save_step(step, rejected, snapshot)
        raise errors.NonFiniteError(
            f"{step} was not applied: {cause}. The weights are unchanged. {saved}"
            "lower lr or clip the gradients, or skip such updates with on_nonfinite=skip"
        )

    def readings(self) -> Values:
        """`loss_scale` in fp16, and `skipped_updates` if there are any."""
        scale = {"loss_scale": self.precision.scale} if self.precision.has_loss_scale else {}
        return scale | ({"skipped_updates": float(self.skipped)} if self.skipped else {})

    def state_dict(self) -> Plain:
        """The number of skipped updates, and the loss scale."""
        return {"skipped": self.skipped, "precision": self.precision.state_dict()}

    def load_state_dict(self, state: Named) -> None:
        """Continues from a saved state."""
        self.skipped = state["skipped"]
        self.precision.load_state_dict(state["precision"])

    def _save_step(
        self, step: Step, rejected: Gradients, snapshot: Callable[[], Checkpoint] | None
    ) -> str:
        """Saves the state before the step; returns how to run it again, or why that failed."""
        if self.folder is None or snapshot is None:
            return ""
        target, number = self.folder / f"update-{step.update}", 1
        while target.exists():  # the same step of a resumed run
            number += 1
            target = target.with_name(f"update-{step.update}.{number}")
        checkpoint = snapshot()
        checkpoint.state["batch"] = step.first_batch - 1  # a learner that loads it repeats the step
        checkpoint.state["step"] = {**vars(step), "gradients": fingerprint(rejected)}
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            write(target, checkpoint)
        except OSError as error:  # a full disk must not hide what ended the run
            return f"The step could not be saved in {target} ({error.strerror}); "
        if self.is_configured:
            return f"`{wings.command(f'replay {target}')}` runs the step again; "
        return f"{in_python(target)} runs the step again; "


def in_python(folder: Path) -> str:
    """The code that makes a saved step the next one of a learner."""
    load = f"learner.load(andiron.checkpoint.load(Path({str(folder)!r})))"
    return f"`{load}` before `fit`, in another run_dir,"


class StateBefore:
    """The state that computing an update changes before the update is known to be finite.

    Buffers, such as running statistics; weights and optimizer state if a step moves them while it
    evaluates the loss several times.
    """

    def __init__(self, buffers: Iterable[dict[str, Any]], optimizer: GroupedOptimizer):
        self._buffers = [
            (own, name, tensor)
            for own in buffers for name, tensor in own.items() if tensor is not None
        ]  # fmt: skip
        self._values = _copies([buffer for *_, buffer in self._buffers])
        self._optimizer, self._weights = optimizer, dict[str, Tensor]()
        if optimizer.needs_closure:
            parameters = optimizer.parameters
            self._weights = dict(zip(parameters, _copies([*parameters.values()]), strict=True))
            self._state = copy.deepcopy(optimizer.state_dict())

    def restore(self) -> None:
        """Brings the state back; a buffer that was replaced is the former tensor again."""
        for (owner, name, buffer), value in zip(self._buffers, self._values, strict=True):
            owner[name] = buffer
            with torch.no_grad():
                buffer.copy_(value)
        if self._weights:
            model_weights.copy(self._weights, self._optimizer.parameters)
            self._optimizer.load_state_dict(self._state)


def _copies(tensors: list[Tensor]) -> list[Tensor]:
    """Copies of the tensors, made by one operation for each kind of tensor."""
    copies = [torch.empty_like(tensor, requires_grad=False) for tensor in tensors]
    kinds = defaultdict[Any, list[int]](list)
    for place, tensor in enumerate(tensors):
        kinds[tensor.dtype, tensor.device].append(place)
    for places in kinds.values():
        with torch.no_grad():
            private_torch.foreach_copy_([copies[p] for p in places], [tensors[p] for p in places])
    return copies
