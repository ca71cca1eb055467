"""Whether a run can be divided: into processes, and into slices of its batches."""

import logging
from collections.abc import Iterator

from torch import nn
from torch.nn.modules.batchnorm import _NormBase

from andiron.config.schema import Train
from andiron.distributed import World
from andiron.optim import GroupedOptimizer

log = logging.getLogger("andiron")


def option_problems(config: Train, world: World) -> Iterator[str]:
    """The options that do not hold for so many processes and slices, a line each."""
    slices, size = config.slices, world.size
    if slices is not None and slices & (slices - 1):
        below = 1 << slices.bit_length() - 1
        yield f"slices={slices}: should be a power of two; give {below} or {2 * below}"
    elif slices is not None and slices > config.batch_size:
        yield f"slices={slices}: more than the {config.batch_size} samples of batch_size; give less"
    elif slices is not None and slices % size:
        yield (
            f"slices={slices}: {size} processes cannot share them; start a power of two of at most "
            f"{slices} processes"
        )
    if size > 1 and config.device not in ("auto", "cpu", "cuda"):
        yield (
            f"device={config.device}: each of the {size} processes takes the GPU of its "
            "LOCAL_RANK; give auto, cpu or cuda"
        )


def problems(optimizer: GroupedOptimizer, world: World) -> list[str]:
    """The parts of a run that cannot be divided, a line each."""
    return [
        f"optimizer: {each.name} takes sparse gradients, which are not added up over slices or "
        "processes; choose another, or start one process without slices"
        for each in optimizer.optimizers
        if world.is_divided and each.takes_sparse_gradients
    ]


def warn(model: nn.Module, world: World) -> None:
    """Warns of a normalisation that sees a part of the batch where it would see the whole."""
    names = [name for name, module in model.named_modules() if isinstance(module, _NormBase)]
    if world.is_divided and names:
        log.warning(
            "%s and %d more normalise by the statistics of a part of the batch, of %d parts; "
            "running statistics are averaged over them",
            names[0],
            len(names) - 1,
            world.num_slices,
        )
