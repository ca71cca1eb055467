"""BatchNorm's running statistics when a batch is computed in slices."""

from collections.abc import Mapping

from torch import Tensor, nn

from andiron import errors
from andiron.gradients import Gradients
from andiron.plain import private_torch

PREFIX = "running statistics of "  # prefix of a name among parameters' names


class RunningStatistics:
    """The running means and variances that a training step changes.

    Every slice starts from the statistics before the update. They are then averaged like gradients,
    so that neither their order nor the process that computes a slice matters. A step must not
    change any other buffer.
    """

    def __init__(self, model: nn.Module):
        modules = [
            (name, module)
            for name, module in model.named_modules()
            if isinstance(module, private_torch.NormBase)
            if module.training and module.running_mean is not None
        ]
        self.tensors: dict[str, Tensor] = {
            f"{PREFIX}{name}.{buffer}": getattr(module, buffer)
            for name, module in modules
            for buffer in ("running_mean", "running_var")
        }
        # SyncBatchNorm has the statistics of all processes, by exchanges of its own
        self.are_exchanged = any(isinstance(m, nn.SyncBatchNorm) for m in model.modules())
        counts = [module.num_batches_tracked for _, module in modules]
        self._counts = [count for count in counts if count is not None]
        self._before = {name: tensor.clone() for name, tensor in self.tensors.items()}
        self._counts_before = [count.clone() for count in self._counts]
        self._fixed = [
            (f"{name}.{key}", module, key, buffer, private_torch.version(buffer))
            for name, module in model.named_modules()
            if not isinstance(module, private_torch.NormBase)
            for key, buffer in module.named_buffers(recurse=False)
        ]

    def of_slice(self) -> Mapping[str, Tensor]:
        """The statistics after a slice; the model's are reset for the next one.

        Raises: MismatchError naming another buffer that the slice changed.
        """
        for name, module, key, buffer, version in self._fixed:
            if getattr(module, key) is not buffer or private_torch.version(buffer) != version:
                raise errors.MismatchError(
                    f"buffer {name!r} is changed by a training step: only running statistics of "
                    "BatchNorm are merged; start one process without slices, or keep it constant"
                )
        after = {name: tensor.clone() for name, tensor in self.tensors.items()}
        self._put(self._before)
        for count, before in zip(self._counts, self._counts_before, strict=True):
            count.copy_(before)
        return after

    def merge(self, sums: Gradients, weight: float, micro_batches: int) -> None:
        """Moves the sums of all slices' statistics from `sums` to the model, as their means."""
        merged = {name: sums.pop(name) / weight for name in self.tensors if name in sums}
        self._put(merged)
        for count in self._counts:
            count += micro_batches

    def _put(self, values: Mapping[str, Tensor]) -> None:
        if values:
            private_torch.foreach_copy_([self.tensors[name] for name in values], [*values.values()])
