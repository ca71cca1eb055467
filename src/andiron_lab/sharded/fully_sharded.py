"""`strategy=fsdp`: parameters, gradients and optimizer state in parts, by torch's `fully_shard`.

The blocks of a network are gathered one after the other, in forward and again in backward. With
`slices` the bits of a run do not depend on the number of processes, nor on whether they hold
copies of the model or parts.
"""

import logging
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from datetime import timedelta
from typing import Any

import torch
from torch import Tensor, nn
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import DTensor

from andiron import errors
from andiron.checkpoint.contents import Checkpoint
from andiron.data import Splits
from andiron.distributed import World
from andiron.optim import GroupedOptimizer
from andiron.protocols import network_of
from andiron.shell.assembly import devices
from andiron.shell.config.schema import Train
from andiron_lab.sharded import dtensor_rules, parameter_rows
from andiron_lab.sharded.exchanges import BlockGather, BlockSum, StepPlace
from andiron_lab.sharded.rank_files import RankCheckpointer, RankFiles
from andiron_lab.sharded.sharded_mean import ShardedMean

log = logging.getLogger("andiron")
# classes whose step treats every element alike, but for norms of parameters (Adan, Lamb)
ELEMENTWISE = {
    *(f"torch.optim.{name}" for name in (
        "ASGD", "Adadelta", "Adagrad", "Adam", "AdamW", "Adamax", "NAdam", "RAdam", "RMSprop",
        "Rprop", "SGD",
    )),
    "andiron.optim.own.adaptive.Adan", "andiron.optim.own.adaptive.Lamb",
    "lion_pytorch.lion_pytorch.Lion",
    "schedulefree.adamw_schedulefree.AdamWScheduleFree",
}  # fmt: skip


class FullySharded:
    """Shards a model over the processes of `world`.

    `mesh` is the one-dimensional mesh of all of them, or has the dimensions copies and parts. With
    `writes_files` each process writes a file of every checkpoint; see `rank_files`.
    Raises: ConfigError for one process, or parameters outside of the network.
    """

    def __init__(
        self, model: nn.Module, world: World, mesh: DeviceMesh, *, writes_files: bool = False
    ):
        if world.size == 1:  # torch then copies gradients, without their weights
            raise errors.ConfigError("strategy=fsdp: needs several processes; start torchrun")
        self._world, self._place = world, StepPlace()
        self._writes_files = writes_files
        self._files: RankFiles | None = None  # of the run's checkpoints
        network: Any = network_of(model)
        held = {*network.parameters()}
        outside = [name for name, p in model.named_parameters() if p not in held]
        if outside:
            raise errors.ConfigError(
                f"strategy=fsdp: parameters {', '.join(outside)} are outside of the task's "
                "network, whose forward gathers its own; move them into it, or give strategy=ddp"
            )
        copies = mesh.get_group("copies") if mesh.ndim > 1 else None
        parts = mesh["parts"] if mesh.ndim > 1 else mesh
        units = {**blocks(network), "": network}
        self._sums = [BlockSum(world, self._place, name or "the network", copies) for name in units]
        gather = BlockGather(world)
        for module, block_sum in zip(units.values(), self._sums, strict=True):
            name = type(module).__name__
            sharded: Any = fully_shard(module, mesh=parts)
            type(module).__name__ = name  # torch has put FSDP before it
            sharded.set_custom_all_gather(gather)
            sharded.set_custom_reduce_scatter(block_sum)
        dtensor_rules.install(world)
        world.sharding = self
        named = ", ".join([*units][:-1]) or "none"
        number, size = mesh.size() // parts.size(), parts.size()
        log.info("fsdp: %d x the model in parts in %d processes; blocks: %s", number, size, named)

    def reduction(self, model: nn.Module, size: Callable[[Any], int]) -> ShardedMean:
        """The reduction of one update."""
        return ShardedMean(self._world, model, size, self._place, self._sums)

    def check(self, optimizer: GroupedOptimizer) -> None:
        """Raises: ConfigError for an optimizer whose step does not treat every element alike."""
        known = ", ".join(sorted(name.rpartition(".")[2] for name in ELEMENTWISE))
        problems = [
            f"optimizer: {owner.name} is not known to step every element alike, and strategy=fsdp "
            f"gives it parts of parameters; choose one of {known}, or strategy=ddp"
            for owner in optimizer.optimizers
            if owner.name not in ELEMENTWISE
        ]
        if problems:
            raise errors.ConfigError(problems)

    def whole(self, value: Any) -> Any:
        """The value with whole tensors, in the memory of rank 0's host, one after the other.

        Of a checkpoint that all processes write, the tensors of this one's file.
        """
        if isinstance(value, Checkpoint):
            if self._files:
                return self._files.own(value)
            return replace(value, **{name: self.whole(own) for name, own in vars(value).items()})
        if isinstance(value, dict):
            return {name: self.whole(inner) for name, inner in value.items()}
        return self._gathered(value) if isinstance(value, DTensor) else value

    def _gathered(self, tensor: DTensor) -> Tensor:
        own, distributed = parameter_rows.part(tensor).detach(), torch.distributed
        mesh, own_rank = tensor.device_mesh, self._world.rank
        with self._world.explained():
            if own_rank:
                if own.numel() and own_rank < mesh.size():  # of the first copy
                    distributed.send(own.contiguous(), 0)
                return own
            whole = torch.empty(tensor.shape, dtype=tensor.dtype)
            for rank, (first, last) in enumerate(parameter_rows.bounds(len(whole), mesh)):
                if rank and last > first:
                    theirs = own.new_empty((last - first, *whole.shape[1:]))
                    distributed.recv(theirs, rank)
                    whole[first:last] = theirs
                elif not rank:
                    whole[first:last] = own
        return whole

    def checkpointer(self, own: Any) -> Any:
        """The checkpointer of this process, or one that writes the tensors of its file.

        Raises: ConfigError for a store that is no folder.
        """
        if not self._writes_files:
            return own
        self._files = RankFiles(self._world, own.store)
        return RankCheckpointer(self._world, own) if self._world.rank else own

    def parts(self, saved: Checkpoint, parameters: Mapping[str, nn.Parameter]) -> Checkpoint:
        """A checkpoint with this process's parts of the optimizer's state."""
        parts = {}
        for key, value in saved.optimizer.items():
            parameter: Any = parameters.get(key.rpartition("/")[0])
            is_divided = isinstance(parameter, DTensor) and value.shape == parameter.shape
            parts[key] = self._part(value, parameter) if is_divided else value
        return replace(saved, optimizer=parts)

    def _part(self, value: Tensor, parameter: DTensor) -> Tensor:
        own = parameter_rows.rows(value, parameter.device_mesh).to(parameter.device, copy=True)
        return parameter_rows.like(own, parameter)


def blocks(network: nn.Module) -> dict[str, nn.Module]:
    """The modules that are gathered at once, by name: the items of lists of one class.

    A list is an `nn.ModuleList` or `nn.Sequential` of two modules or more. A block in another one
    is gathered with it.
    """
    chosen: dict[str, nn.Module] = {}
    for name, module in network.named_modules():
        if any(f"{name}.".startswith(f"{block}.") for block in chosen):
            continue
        items = dict(module.named_children())
        kinds = {type(item) for item in items.values()}
        has_weights = any(True for item in items.values() for _ in item.parameters())
        if isinstance(module, nn.ModuleList | nn.Sequential) and len(items) > len(kinds) == 1:
            if has_weights:
                chosen |= {f"{name}.{key}".removeprefix("."): item for key, item in items.items()}
    return chosen


def join_groups(config: Train, world: World) -> None:
    """Joins the groups of copies of the model, each in parts in `shards` consecutive ranks.

    All processes call it at once, before rank 0 builds the components. Options that are wrong make
    no groups, and are refused later.
    """
    if config.strategy == "fsdp" and _has_copies(config, world):
        ranks, timeout = _ranks(config, world), timedelta(seconds=config.peer_timeout)
        world.groups = [
            torch.distributed.new_subgroups_by_enumeration(lists.tolist(), timeout=timeout)[0]
            for lists in (ranks.T, ranks)
        ]


def _has_copies(config: Train, world: World) -> bool:
    shards = config.shards or world.size
    return 1 < shards < world.size and world.size % shards == 0


def _ranks(config: Train, world: World) -> Tensor:
    """The ranks of each copy: [copies, shards]. torchrun numbers the processes of a host in a row.
    """
    return torch.arange(world.size).view(-1, config.shards or world.size)


def shard_configured(model: nn.Module, splits: Splits, config: Train, world: World) -> None:
    """Shards the model of a configured run.

    Raises: ConfigError for options and data that would be wrong with parts.
    """
    if problems := [*_option_problems(config, world), *_short_batches(splits, config, world)]:
        raise errors.ConfigError(problems)
    device = devices.resolve(config.device).type
    if world.groups:
        mesh = DeviceMesh.from_group(
            world.groups, device, _ranks(config, world), mesh_dim_names=("copies", "parts")
        )
    else:
        mesh = init_device_mesh(device, (world.size,))
    FullySharded(model, world, mesh, writes_files=_writes_files(config))


def _writes_files(config: Train) -> bool:
    return (config.checkpoint or {}).get("files") == "rank"


def _option_problems(config: Train, world: World) -> Iterator[str]:
    shards, size = config.shards, world.size
    if shards not in (None, size) and not _has_copies(config, world):
        yield (
            f"shards={shards}: {size} processes do not make copies of several parts each; give a "
            f"divisor of {size} from 2, or null for one copy in all of them"
        )
    elif _has_copies(config, world) and _writes_files(config):
        yield (
            f"checkpoint.files=rank: does not work with copies of {shards} shards; leave one of "
            "them out"
        )
    refused = {
        "precision=fp16": config.precision == "fp16",
        "compile=true": config.compile,
        "channels_last=true": config.channels_last,
        "histograms": config.histograms is not False,
        "sync_batchnorm=true": config.sync_batchnorm,
        "activation_checkpointing": config.activation_checkpointing is not None,
    }
    for option, is_given in refused.items():
        if is_given:
            yield f"{option}: does not work with strategy=fsdp; leave one of them out"


def _short_batches(splits: Splits, config: Train, world: World) -> Iterator[str]:
    """A line for each set whose last batch cannot be divided."""
    for name, dataset in splits.by_name.items():
        size = config.batch_size
        if name != "train":
            size = max(size, splits.evaluation_batch_size)
        last = len(dataset) % size or min(size, len(dataset))
        if 0 < last < world.num_slices:
            yield (
                f"batch_size={config.batch_size}: the last {name} batch has {last} samples, and "
                f"strategy=fsdp needs one for each of {world.num_slices} parts; choose another"
            )
