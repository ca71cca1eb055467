"""Describes a run before it is trained: its steps, groups, learning rates and memory."""

import copy
import dataclasses
import itertools
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from rich.console import Console
from rich.table import Table
from rich.text import Text
from torch import Tensor

from andiron.disk import guarded_folders
from andiron.optim.owners import group_table
from andiron.plain import wings
from andiron.protocols import Point
from andiron.render.summary_table import groups, right, rows
from andiron.run_folder import RunFolder
from andiron.shell.assembly import components, configured_learner
from andiron.shell.assembly.components import Components
from andiron.shell.cli import answers
from andiron.shell.config.schema import Train
from andiron.shell.run import exhausted
from andiron.writers import TensorBoardWriter

ROWS, POINTS = 11, 200  # in the table of learning rates, in the curves
Rates = dict[int, dict[str, float]]  # by completed updates, by group


def plan(config: Train, run_dir: Path) -> None:
    """Prints what training would do, and writes the learning rates to TensorBoard."""
    config = _unwritten(config)
    built = components.build(config)
    rates = _learning_rates(built)
    owners = group_table.param_groups(built.optimizer.groups, rates[0], built.schedule)
    _write_curves(rates, run_dir)
    sizes, slices = _memory_and_slices(config, built)
    steps, shown_rates = _steps(config, built), _spread(rates, ROWS)
    if answers.give({
        "run_dir": str(run_dir), "steps": steps, "groups": owners,
        "learning_rates": shown_rates, "memory_bytes": sizes, "slices": slices,
    }):  # fmt: skip
        return
    console, views = Console(), wings.optional("andiron_lab.views.model_views")
    fits = "memory" if slices is None else f"memory, with slices={slices}"
    counts = [[name, f"{number:,}"] for name, number in steps.items()]
    mebibytes = [[name, f"{size / 2**20:,.2f} MiB"] for name, size in sizes.items()]
    console.print(
        rows(counts, "", right(""), title="steps"),
        *([views.overview(built)] if views else []),
        groups(owners, "parameter groups at the first update", lr="lr"),
        _rate_table(shown_rates),
        rows(mebibytes, "", right(""), title=fits),
    )
    if slices != config.slices:
        now = "" if config.slices is None else f" with slices={config.slices}"
        console.print(f"an update is out of memory{now}; give {slices=}")
    console.print(f"learning rates as curves: tensorboard --logdir {run_dir}", soft_wrap=True)


def check(config: Train) -> dict[str, dict[str, int]]:
    """The steps and the memory of a run, after an update and a batch of validation in memory.

    Raises: AndironError for data, a model or another part that cannot be used.
    """
    why = "check writes nothing; training would write it"
    with tempfile.TemporaryDirectory() as name, guarded_folders.writing_refused(why, Path(name)):
        config = dataclasses.replace(_unwritten(config), data=_cached_in(name, config.data))
        built = components.build(config)
        sizes = _memory(config, built)
    return {"steps": _steps(config, built), "memory_bytes": sizes}


def _cached_in(folder: str, node: object) -> Any:
    """The node of a data set with this cache, where pictures are not decoded into a file."""
    if not isinstance(node, dict):
        return node
    inner = {name: _cached_in(folder, value) for name, value in node.items()}
    changed = {"decoded": "workers", "cache": folder}
    return inner | {name: changed[name] for name in changed if name in node}


def _unwritten(config: Train) -> Train:
    """The configuration without what a run shows or writes while it trains."""
    return dataclasses.replace(
        config, checkpoint=None, render=None, observers=None, test_weights="last"
    )


def _learning_rates(built: Components) -> Rates:
    """The rate of every group that is not frozen, at each update; Plateau stays at its first."""
    rates = {}
    for updates in range(built.num_updates):
        built.optimizer.thaw(updates)
        rates[updates] = built.optimizer.learning_rates(built.schedule(updates), updates)
    return rates


def _memory_and_slices(config: Train, built: Components) -> tuple[dict[str, int], int | None]:
    """The memory of an update, and the fewest slices with which it fits."""
    try:
        return _memory(config, built), config.slices
    except (RuntimeError, MemoryError) as error:
        slices = 2 * (config.slices or 1)
        if not exhausted.is_out_of_memory(error) or slices > config.batch_size:
            raise
    config = dataclasses.replace(config, slices=slices)
    return _memory_and_slices(config, components.build(config))


def _memory(config: Train, built: Components) -> dict[str, int]:
    """Bytes of weights, gradients, activations, optimizer state and averages; on a GPU its peak.

    Measured on one update of the first epoch, which changes the model.
    """
    with configured_learner.learner(config, built, Path("unused")) as learner:
        parameters = list(learner.model.parameters())
        batch = next(built.train.epoch(0))
        with learner.training(built.train):
            with _saved_for_backward(parameters) as activations:
                gradients, _ = learner.updater.gradients([batch], learner.position)
            learner.update([batch], built.train)
            first: Any = copy.copy(built.valid)
            first.epoch = lambda epoch: itertools.islice(built.valid.epoch(epoch), 1)
            learner.evaluate(first)  # its errors would end a run only after the first epoch
        averages = [average.state_dict().values() for average in learner.averages.values()]
        part = "slice" if config.slices else "batch"
        sizes = {
            "weights": _bytes(parameters),
            "gradients": _bytes(gradients.values()),
            f"activations saved for backward (per {part})": sum(activations.values()),
            "optimizer state": _bytes(learner.optimizer.state_dict().values()),
            "averages": sum(map(_bytes, averages)),
        }
    if built.device.type == "cuda":
        sizes["peak on the GPU"] = torch.cuda.max_memory_allocated(built.device)
    return sizes


def _bytes(tensors: Iterable[Tensor]) -> int:
    return sum(tensor.nbytes for tensor in tensors)


@contextmanager
def _saved_for_backward(parameters: Iterable[Tensor]) -> Iterator[dict[int, int]]:
    """The bytes that autograd saves in the body, by storage address, without weights."""
    weights = {tensor.untyped_storage().data_ptr() for tensor in parameters}
    saved: dict[int, int] = {}

    def pack(tensor: Any) -> Any:
        address = tensor.untyped_storage().data_ptr()
        if address not in weights:  # a batch may be a slice of a larger storage
            saved[address] = max(saved.get(address, 0), tensor.nbytes)
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        yield saved


def _steps(config: Train, built: Components) -> dict[str, int]:
    samples, batches, per_epoch = built.train.num_items, len(built.train), built.updates_per_epoch
    return {
        "training samples": samples,
        "batches per epoch": batches,
        "samples in the last batch": samples - (batches - 1) * config.batch_size,
        "updates per epoch": per_epoch,
        "batches in the last update": batches - (per_epoch - 1) * config.grads_accumulation,
        "epochs": -(-built.num_updates // per_epoch),
        "updates": built.num_updates,
    }


def _spread(rates: Rates, number: int) -> Rates:
    """`number` of the rates, evenly spread from the first to the last."""
    last, number = len(rates) - 1, min(number, len(rates))
    places = [round(step * last / max(number - 1, 1)) for step in range(number)]
    return {place: rates[place] for place in places}


def _rate_table(rates: Rates) -> Table:
    """A row for each update, a column for each group; empty where the group is frozen."""
    names = list(dict.fromkeys(name for by_group in rates.values() for name in by_group))
    cells = [
        [f"{updates:,}", *(f"{by_group[name]:.3g}" if name in by_group else "" for name in names)]
        for updates, by_group in rates.items()
    ]
    return rows(cells, *(right(Text(name)) for name in ("update", *names)), title="learning rates")


def _write_curves(rates: Rates, run_dir: Path) -> None:
    writer = TensorBoardWriter(RunFolder(run_dir).tensorboard)
    for updates, by_group in _spread(rates, POINTS).items():
        writer.write(Point("plan", updates, 1, {f"lr/{name}": lr for name, lr in by_group.items()}))
    writer.close()
