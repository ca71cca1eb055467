"""The training loop, on one screen."""

from pathlib import Path
from types import TracebackType
from typing import Any

import torch
from torch import nn

from andiron import files, inference, randomness
from andiron.checkpoint import Checkpoint, FileCheckpointer
from andiron.learner.journal import Journal
from andiron.learner.summary import summarise
from andiron.optim import Optimizer
from andiron.protocols import Loader, Values
from andiron.schedules import Schedule


class Learner:
    """Trains a model that has `train_step` and `valid_step`; built by `LearnerBuilder`.

    Its state is the model's, the optimizer's, `updates` (completed optimizer updates) and `epoch` (completed
    epochs); everything random is a function of `seed` and those two.
    """

    def __init__(
        self,
        model: nn.Module,
        optimizer: Optimizer,
        schedule: Schedule,
        *,
        journal: Journal,
        checkpointer: FileCheckpointer | None = None,
        summary_dir: Path | None = None,
        num_epochs: int = 10,
        log_every: int = 20,
        seed: int = 42,
    ):
        self.model: Any = model
        self.optimizer = optimizer
        self.schedule = schedule
        self.journal = journal
        self.checkpointer = checkpointer
        self.summary_dir = summary_dir
        self.num_epochs = num_epochs
        self.log_every = log_every
        self.seed = seed
        self.updates = self.epoch = 0
        self.lr = schedule(0)  # of the update under way or last made

    def fit(self, train: Loader, valid: Loader, test: Loader | None = None) -> nn.Module:
        """The model after `num_epochs` epochs over `train`, measured on `valid` after each and on `test` at the end.

        Raises: TypeError for a loader without epochs; NonFiniteError when the loss is no number any more.
        """
        check_loaders(train, valid, *([] if test is None else [test]))
        if not self.model.training:  # a part of it that was frozen in evaluation mode stays so
            self.model.train()
        self.journal.start(train, self.epoch, self.updates)
        try:
            while self.epoch < self.num_epochs:
                self.journal.start_epoch(self.epoch)
                for batch in train.epoch(self.epoch):
                    self.update(batch)
                    if self.updates % self.log_every == 0:
                        self.journal.log_window(self.lr)
                self.journal.log_window(self.lr)  # the short window that is left
                self.journal.close_train_epoch()
                self.measure(valid, "valid")
                self.journal.epoch_ended()
                self.epoch += 1
                if self.checkpointer:
                    self.checkpointer.save(self.updates, self.state(), dict(self.journal.progress.latest))
            if test is not None:
                self.measure(test, "test")
        finally:
            self._settle()
        if self.summary_dir:
            self.summarise(self.summary_dir)
        trained: nn.Module = self.model
        return trained

    def _settle(self) -> None:
        try:
            if self.checkpointer:
                self.checkpointer.wait()
        finally:
            self.journal.stop()

    def update(self, batch: Any) -> None:
        """One step of the model and one update of its parameters."""
        randomness.start_stream(self.seed, "update", self.updates)
        self.lr = self.schedule(self.updates)
        output = self.model.train_step(batch)
        self.model = self.optimizer.step(self.lr, self.model, output.gradients)
        self.updates += 1
        with torch.no_grad():  # an item that was not detached must not keep its graph alive in the metrics
            self.journal.trained(output.item, self.updates)

    def measure(self, loader: Loader, split: str) -> Values:
        """The metrics' means over one pass through `loader`, recorded as `split`."""
        with inference.valid(self.model) as model:
            for batch in loader.epoch(0):
                self.journal.measured(model.valid_step(batch))
        return self.journal.close_pass(split)

    def summarise(self, run_dir: Path) -> None:
        """Writes `run_dir`/summary.json and shows it."""
        summary = summarise(self.journal, self.model, run_dir)
        files.write_json(run_dir / "summary.json", summary)
        self.journal.show(summary)

    def state(self) -> Checkpoint:
        """Everything needed to go on from here."""
        history = self.journal.history.state_dict()
        state = {"updates": self.updates, "epoch": self.epoch, "seed": self.seed, "history": history}
        return Checkpoint(self.model.state_dict(), self.optimizer.state_dict(), state)

    def load(self, checkpoint: Checkpoint) -> None:
        """Goes on from a checkpoint: the next `fit` trains the epochs that are left."""
        self.model.load_state_dict(checkpoint.model)
        self.optimizer.load_state_dict(checkpoint.optimizer)
        self.updates, self.epoch = checkpoint.state["updates"], checkpoint.state["epoch"]
        self.seed = checkpoint.state["seed"]
        self.journal.history.load_state_dict(checkpoint.state["history"])

    def close(self) -> None:
        """Waits for the last checkpoint and closes the writers."""
        try:
            if self.checkpointer:
                self.checkpointer.close()
        finally:
            self.journal.close()

    def __enter__(self) -> "Learner":
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()


def check_loaders(*loaders: object) -> None:
    """Refuses what is no loader of ours, such as torch's, whose order is no function of the epoch.

    Raises: TypeError naming the remedy.
    """
    for loader in loaders:
        if not isinstance(loader, Loader):
            raise TypeError(f"{type(loader).__name__} has no epochs; make it with andiron.data.DataLoaderBuilder")
