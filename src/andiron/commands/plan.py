"""A run before it is run: its steps, its groups, its learning rates, its memory; nothing is trained."""

import dataclasses
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from rich.console import Console

from andiron.build import components, configured_learner
from andiron.commands import command_line
from andiron.config.schema import Train
from andiron.build.components import Components
from andiron.optim import group_table
from andiron.protocols import Point
from andiron.render import plan_tables as page
from andiron.writers import TensorBoardWriter

ROWS, POINTS = 11, 200  # of the learning-rate table, of the curves


def plan(config: Train, run_dir: Path, hydra_record: dict[str, str]) -> None:
    """Prints what `train.py` would do with this configuration, and writes its learning rates to TensorBoard."""
    config = dataclasses.replace(config, checkpoint=None, render=None)
    built = components.build(config)
    rates = learning_rates(built, config)
    groups = group_table.param_groups(built.optimizer.groups, rates[0])
    _draw(rates, run_dir)
    console = Console()
    console.print(page.steps(_steps(config, built)))
    console.print(page.groups(groups))
    console.print(page.learning_rates(_some(rates, ROWS)))
    console.print(page.memory(memory(config, built, run_dir)))
    console.print(f"the learning rates as curves: tensorboard --logdir {run_dir}", soft_wrap=True)


def learning_rates(built: Components, config: Train) -> dict[int, dict[str, float]]:
    """The rate of every group that is not frozen then, at each update of the run; a plateau stays at its first."""
    found = {}
    for updates in range(built.num_updates):
        built.optimizer.thaw(updates)
        found[updates] = built.optimizer.learning_rates(built.schedule(updates), updates)
    return found


def memory(config: Train, built: Components, run_dir: Path) -> dict[str, int]:
    """Bytes of the weights, of their gradients, of what one batch keeps for the way back, and of the optimizers' state.

    Measured on one update of the first epoch, whose weights are then forgotten; on a GPU with the peak it has come to.
    """
    with configured_learner.learner(config, built, run_dir) as learner:
        parameters = list(learner.model.parameters())
        batch = next(built.train.epoch(0))
        addresses = {tensor.untyped_storage().data_ptr() for tensor in parameters}
        with learner.training(built.train):
            with _kept_for_backward(addresses) as kept:
                gradients, _ = learner.updater.gradients([batch], learner.position)
            learner.update([batch], built.train)
        found = {
            "weights": sum(tensor.nbytes for tensor in parameters),
            "gradients": sum(tensor.nbytes for tensor in gradients.values()),
            "kept for the way back, a batch": sum(kept.values()),
            "optimizer state": sum(
                tensor.nbytes for tensor in learner.optimizer.state_dict().values()
            ),
            "averages": sum(
                t.nbytes
                for average in learner.averages.values()
                for t in average.state_dict().values()
            ),
        }
    if built.device.type == "cuda":
        found["peak on the GPU"] = torch.cuda.max_memory_allocated(built.device)
    return found


@contextmanager
def _kept_for_backward(weights: set[int]) -> Iterator[dict[int, int]]:
    """The bytes of each storage that autograd keeps meanwhile, by its address; the weights' own do not count."""
    kept: dict[int, int] = {}

    def keep(tensor: Any) -> Any:
        storage = tensor.untyped_storage()
        if storage.data_ptr() not in weights:
            kept[storage.data_ptr()] = storage.nbytes()
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
        yield kept


def _steps(config: Train, built: Components) -> dict[str, int]:
    batches, per_update = len(built.train), config.grads_accumulation
    return {
        "training samples": built.train.num_items,
        "batches an epoch": batches,
        "of samples, the last": built.train.num_items - (batches - 1) * config.batch_size,
        "updates an epoch": built.updates_per_epoch,
        "of batches, the last": batches - (built.updates_per_epoch - 1) * per_update,
        "epochs": config.num_epochs,
        "updates": built.num_updates,
    }


def _some(rates: dict[int, dict[str, float]], number: int) -> dict[int, dict[str, float]]:
    """So many of them, evenly spread from the first to the last."""
    last = len(rates) - 1
    return {
        round(step * last / (number - 1)): rates[round(step * last / (number - 1))]
        for step in range(number)
    }


def _draw(rates: dict[int, dict[str, float]], run_dir: Path) -> None:
    writer = TensorBoardWriter(run_dir / "tensorboard")
    for updates, named in (
        _some(rates, min(POINTS, len(rates))).items() if len(rates) > 1 else rates.items()
    ):
        writer.write(Point("plan", updates, 1, {f"lr/{name}": lr for name, lr in named.items()}))
    writer.close()


def main(conf_dir: Path | None = None) -> int:
    """What `python scripts/plan.py` does; the exit code."""
    return command_line.main(plan, conf_dir, command_line.in_folder(sys.argv[1:], "plan"))
