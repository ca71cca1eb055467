"""Checks that a run can be divided: into processes, and into slices of its batches."""

import logging
from collections.abc import Iterator

from torch import nn

from andiron import errors
from andiron.data import DataLoader
from andiron.distributed import World
from andiron.optim import GroupedOptimizer
from andiron.shell.config.schema import Train

# without SyncBatchNorm, which normalises by the whole batch
BY_BATCH = (
    nn.BatchNorm1d, nn.BatchNorm2d, nn.BatchNorm3d,
    nn.InstanceNorm1d, nn.InstanceNorm2d, nn.InstanceNorm3d,
)  # fmt: skip
EMBEDDINGS = nn.Embedding | nn.EmbeddingBag
log = logging.getLogger("andiron")


def option_problems(config: Train, world: World) -> Iterator[str]:
    """A line for each option that does not fit the number of processes and slices."""
    slices, size = config.slices, world.size
    if slices and (slices & (slices - 1) or slices > config.batch_size or slices % size):
        yield (
            f"slices={slices}: should be a power of two, at most batch_size={config.batch_size}, "
            f"and a multiple of the number of processes, which is {size}"
        )
    if config.strategy in ("ddp", "fsdp") and size == 1:
        yield (
            f"strategy={config.strategy}: this is one process; start several with torchrun, or "
            "give auto"
        )
    elif config.strategy == "none" and size > 1:
        yield f"strategy=none: torchrun started {size} processes; start one with python"
    if config.shards and config.strategy != "fsdp":
        yield f"shards={config.shards}: belongs to strategy=fsdp; give it too, or shards=null"
    if config.sync_batchnorm and slices is not None:
        yield (
            f"sync_batchnorm=true: slices={slices} are computed one after the other, each with "
            "statistics of its own; leave one of them out"
        )
    if size > 1 and config.device not in ("auto", "cpu", "cuda"):
        yield (
            f"device={config.device}: each of the {size} processes takes the GPU of its "
            "LOCAL_RANK; give auto, cpu or cuda"
        )


def synchronised(model: nn.Module, train: DataLoader, world: World) -> nn.Module:
    """The model with each BatchNorm replaced by torch's SyncBatchNorm, which has no CPU kernel.

    Raises: ConfigError.
    """
    last, size = train.num_items % train.batch_size, world.size
    problem = None
    if train.device.type == "cpu":
        problem = "torch.nn.SyncBatchNorm runs on GPUs only; leave it out, or choose GroupNorm"
    elif 0 < last < size:  # a process without samples would block the others
        problem = f"the last batch has {last} samples for {size} processes; change batch_size"
    if problem:
        raise errors.ConfigError(f"sync_batchnorm=true: {problem}")
    convert = nn.SyncBatchNorm.convert_sync_batchnorm
    return convert(model)  # type: ignore[no-untyped-call]


def problems(model: nn.Module, optimizer: GroupedOptimizer, world: World) -> Iterator[str]:
    """A line for each component that cannot be divided."""
    for owner in optimizer.optimizers:
        if world.is_divided and owner.takes_sparse_gradients:
            yield (
                f"optimizer: {owner.name} takes sparse gradients, which are not added up over "
                "slices or processes; choose another, or start one process without slices"
            )
    for name, module in model.named_modules():
        if world.size > 1 and isinstance(module, EMBEDDINGS) and module.max_norm is not None:
            yield (
                f"model: {name} has max_norm, which rescales the rows that a process looks up in "
                "its own copy alone; leave max_norm out, or start one process"
            )


def warn(model: nn.Module, world: World) -> None:
    """Warns of normalisation by the statistics of a part of the batch."""
    names = [name for name, module in model.named_modules() if isinstance(module, BY_BATCH)]
    if world.is_divided and names:
        log.warning(
            "%s and %d more normalise by the statistics of a part of the batch, of %d parts; "
            "running statistics are averaged over them",
            names[0],
            len(names) - 1,
            world.num_slices,
        )
