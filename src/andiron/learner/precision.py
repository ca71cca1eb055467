"""The arithmetic of the forward pass: full or mixed precision, and fp16's loss scale."""

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Literal

import torch

from andiron import gradients
from andiron.gradients import During
from andiron.plain.memory import keep_freed_memory
from andiron.plain.plain_values import Named, Plain

Name = Literal["fp32", "tf32", "bf16", "fp16"]
AUTOCAST = {"bf16": torch.bfloat16, "fp16": torch.float16}
FIRST_SCALE, SMALLEST_SCALE = 2.0**16, 1.0
UPDATES_TO_GROW = 2000  # as torch.amp.GradScaler; scales are powers of two, so scaling is exact


class Precision:
    """`fp32`; `tf32` (a GPU rounds the factors of products); `bf16` and `fp16` by autocast.

    With `fp16` the loss is scaled. The scale is halved when the gradients of an update overflow,
    and doubled after 2,000 updates without overflow. Weights and gradients stay float32.
    Source: Micikevicius et al. 2018, arXiv:1710.03740, section 3.2.
    """

    def __init__(self, name: Name = "fp32", device: torch.device | str = "cpu"):
        self.name = name
        self.device_type = torch.device(device).type
        self.changes_step = name in AUTOCAST  # else `step` is an empty context
        self.has_loss_scale = name == "fp16"
        self.scale = FIRST_SCALE if name == "fp16" else 1.0
        self._updates_since = 0  # the scale last changed

    def apply(self) -> None:
        """Sets how a GPU multiplies float32, which an earlier run may have changed; CPU: memory."""
        if self.device_type == "cpu":
            keep_freed_memory()
        if self.device_type == "cuda":
            torch.set_float32_matmul_precision("high" if self.name == "tf32" else "highest")
            torch.backends.cudnn.allow_tf32 = self.name == "tf32"

    def autocast(self) -> AbstractContextManager[object]:
        """The context of a forward pass."""
        if self.name not in AUTOCAST:
            return nullcontext()
        return torch.autocast(self.device_type, AUTOCAST[self.name])

    @contextmanager
    def step(self, during: During | None = None) -> Iterator[None]:
        """The context of a forward and backward pass; see `gradients.loss_scaled`."""
        with gradients.loss_scaled(self.scale, during), self.autocast():
            yield

    @property
    def may_have_overflowed(self) -> bool:
        """Whether a smaller scale might give finite gradients."""
        return self.has_loss_scale and self.scale > SMALLEST_SCALE

    def overflowed(self) -> None:
        """Halves the scale, after gradients that were not finite."""
        self.scale, self._updates_since = max(self.scale / 2, SMALLEST_SCALE), 0

    def updated(self) -> None:
        """Counts a completed update towards doubling a loss scale."""
        self._updates_since += 1
        if self._updates_since == UPDATES_TO_GROW:
            self.scale, self._updates_since = self.scale * 2, 0

    def state_dict(self) -> Plain:
        """The scale and the updates since it changed."""
        return {"scale": self.scale, "updates_since": self._updates_since}

    def load_state_dict(self, state: Named) -> None:
        """Continues from a saved scale."""
        self.scale, self._updates_since = state["scale"], state["updates_since"]
