"""The whole Learner with every default of `python train.py`, drawn on a terminal."""

import os
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from threading import Thread

import torch
from rich.console import Console
from torch import nn

import rounds
from andiron.checkpoint import checkpointing
from andiron.data import DataLoaderBuilder, Splits
from andiron.disk import files
from andiron.learner import Learner, LearnerBuilder
from andiron.learner.extras.observers import Observer
from andiron.metrics import Accuracy, Loss
from andiron.optim import GroupedOptimizer, Optimizer
from andiron.tasks import Classifier
from andiron.wings.screen.live import Live

MakeOptimizer = Callable[[nn.Module], Optimizer | GroupedOptimizer]
EVALUATION_BATCH = 256  # as andiron.shell.training.experiment has it


def adam(model: nn.Module) -> Optimizer:
    """One Adam for all parameters."""
    return Optimizer(torch.optim.Adam, model)


def seconds(
    network: nn.Module,
    splits: Splits,
    *,
    lr: float,
    batch_size: int,
    epochs: int,
    optimizer: MakeOptimizer = adam,
    observers: Mapping[str, Observer] | None = None,
) -> float:
    """The time of `fit` and the summary, until the last checkpoint is on the disk.

    Raises: RuntimeError if a file or a line on the terminal is missing.
    """
    train = DataLoaderBuilder(splits.batcher).batch_size(batch_size).shuffle(0).build(splits.train)
    valid = DataLoaderBuilder(splits.batcher).batch_size(EVALUATION_BATCH).build(splits.valid)
    with tempfile.TemporaryDirectory() as folder:
        with terminal() as (console, drawn):
            learner = everything_on(
                network, Path(folder), console, lr=lr, epochs=epochs, optimizer=optimizer,
                observers=observers,
            )  # fmt: skip
            with rounds.stopwatch() as elapsed, learner:
                learner.fit(train, valid)
                results = {"run_dir": folder, **learner.summary()}
                files.write_json(Path(folder) / "summary.json", results)
                learner.metric_log.show(results)
        _check(Path(folder), bytes(drawn), updates=epochs * len(train), epochs=epochs)
    return elapsed()


def everything_on(
    network: nn.Module,
    run_dir: Path,
    console: Console,
    *,
    lr: float,
    epochs: int,
    optimizer: MakeOptimizer = adam,
    observers: Mapping[str, Observer] | None = None,
) -> Learner:
    """A learner as andiron.shell.training.experiment builds it from the default configuration."""
    model, metrics = Classifier(network), (Loss(), Accuracy())
    return (
        LearnerBuilder(run_dir)
        .metric_train_numeric(*metrics)
        .metric_valid_numeric(*metrics)
        .with_file_checkpointer(checkpointing().strategy)
        .renderer(Live(console))
        .options(num_epochs=epochs)
        .observers(**(observers or {}))
        .build(model, optimizer(model), lr)
    )


@contextmanager
def terminal() -> Iterator[tuple[Console, bytearray]]:
    """A console on a pseudo-terminal, and all that is drawn there once the block is left."""
    ours, theirs = os.openpty()
    drawn = bytearray()

    def read() -> None:
        with suppress(OSError):  # Linux: the other end is closed
            while chunk := os.read(ours, 65536):
                drawn.extend(chunk)

    reader = Thread(target=read)
    reader.start()
    try:
        with open(theirs, "w", encoding="utf-8") as file:
            yield Console(file=file, force_terminal=True, width=120), drawn
    finally:
        reader.join()
        os.close(ours)


def _check(run_dir: Path, drawn: bytes, *, updates: int, epochs: int) -> None:
    """Raises: RuntimeError if something that the time should include was not written or drawn."""
    expected = ("metrics.jsonl", "summary.json", f"checkpoints/step-{updates}/manifest.json")
    absent = [name for name in expected if not (run_dir / name).is_file()]
    absent += [
        f"events of {split}"
        for split in ("train", "valid")
        if not any(run_dir.glob(f"tensorboard/{split}/*"))
    ]
    # the last epoch's line, the bar, the summary
    shown = (f"epoch {epochs}/{epochs}  update", "━", "trained in")
    absent += [f"{text!r} on the terminal" for text in shown if text.encode() not in drawn]
    if absent:
        raise RuntimeError(f"not everything was on; there is no {', no '.join(absent)}")
