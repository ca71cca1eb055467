"""When the state of a learner is saved, and how it is loaded back."""

import logging
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import Any

from andiron import errors
from andiron.checkpoint import directory, strategies
from andiron.checkpoint.contents import Checkpoint
from andiron.checkpoint.on_disk import checkpoint_files
from andiron.checkpoint.store import Checkpointer
from andiron.distributed import World
from andiron.learner.metric_log import Measured
from andiron.learner.state import LearnerState
from andiron.optim import model_weights
from andiron.plain.cadence import EVERY_EPOCH, Ticker
from andiron.serialization import state_trees

# why a state is saved: in the log, beside the name of the checkpoint
BEGINS, DUE, REQUESTED, STOPS, ENDS = "the run begins", "due", "on request", "it stops", "it ends"
INTERRUPTED = "from before a validation that was interrupted"
log = logging.getLogger("andiron.epoch")  # for experiment.log; the terminal has a renderer
CHECKPOINTER = "build it with with_file_checkpointer()"


class Saver:
    """Saves the state with the checkpointer, once at each position of the run."""

    def __init__(
        self, state: LearnerState, checkpointer: Checkpointer | None, tested: str, world: World
    ):
        self._state = state
        self._world = world
        self._tested = tested
        self._best_epoch: int | None = None
        self._checkpointer = checkpointer
        cadence = checkpointer.cadence if checkpointer else EVERY_EPOCH
        self.ticker = Ticker(cadence, world.clock)
        self._saved: tuple[Any, ...] | None = None
        self._resumed: Checkpoint | None = None  # until the writers are cut back to it
        self._is_silent = False

    @property
    def _place(self) -> tuple[Any, ...]:
        at = self._state.position
        return at.updates, at.epoch, at.batch, self._measured

    @property
    def _measured(self) -> set[str]:
        """The validation sets that were measured after the last update."""
        updates, sets = self._state.position.updates, self._state.validations.items()
        return {name for name, ticker in sets if ticker.was_done(updates)}

    def begin(self) -> None:
        """Saves the state to resume from before the first epoch is over."""
        if self._checkpointer:
            self._state.user_states()  # refuses also if this position is saved
        self.save(BEGINS)

    def save_if_due(self, epochs: int | None = None) -> None:
        """Saves if the cadence is due; `epochs` is the number completed, at the end of one."""
        if self.ticker.due(updates=self._state.position.updates, epochs=epochs):
            self.save(DUE)

    def save(self, why: str, measured: Measured | None = None) -> None:
        """Saves the current state once; `measured` replaces the state of the metric log."""
        place = self._place
        if self._checkpointer is None or self._is_silent or place == self._saved:
            return
        state, updates = self._state, self._state.position.updates
        values = {
            split: latest
            for split, latest in state.metric_log.latest.items()
            if measured is None and state.set_of(split) in self._measured
        }
        checkpoint = self._world.whole(state.capture(measured))
        self._checkpointer.save(updates, checkpoint, values)
        for newest in self._checkpointer.saved[-1:]:
            log.info("saved %s: %s", newest.name, why)
        self._saved = place
        if why != REQUESTED:
            self.ticker.done(updates)

    def wait(self) -> None:
        """Waits until everything saved is on the disk, or cannot be written."""
        if self._checkpointer:
            self._checkpointer.wait()

    @property
    def tested_epoch(self) -> int | None:
        """The epoch of the best weights, if those were tested; None for the last weights."""
        return self._best_epoch or self._state.early_stopping.restored_epoch

    @property
    def tested_average(self) -> str:
        """The average of the weights that were tested, if those were the best; else empty."""
        of_checkpoint = self._judged_average if self._best_epoch else ""
        return of_checkpoint or self._state.early_stopping.restored_average

    @property
    def _judged_average(self) -> str:
        return strategies.judged_average(
            self._checkpointer.strategy if self._checkpointer else None
        )

    @contextmanager
    def tested(self) -> Iterator[None]:
        """A context in which the model has the weights to test: its own, or the best checkpoint's.

        Raises: DataError if there is no best checkpoint, or it cannot be read.
        """
        if self._tested == "last":
            yield
            return
        weights, self._best_epoch = self.best()
        with weights:
            yield

    def best(self) -> tuple[ExitStack, int]:
        """A context in which the model has the best checkpoint's weights, and its epoch.

        Raises: DataError if there is no best checkpoint, or it cannot be read; RunFolderError
        without a checkpointer.
        """
        if self._checkpointer is None:
            raise errors.RunFolderError(f"there are no checkpoints; {CHECKPOINTER}")
        saved = self._world.decided(partial(self._best, self._checkpointer))
        self._state.check_model(saved)
        # the weights that were measured: the average's, if its values choose
        weights = saved.averages.get(self._judged_average, saved.model)
        epoch = saved.state["epoch"] + (saved.state["batch"] > 0)
        return model_weights.swapped_in(weights, self._state.model), epoch

    def _best(self, checkpointer: Checkpointer) -> Checkpoint:
        """The checkpoint with the best value of its metric."""
        checkpointer.wait()
        best = strategies.best(checkpointer.strategy, checkpointer.saved)
        if best is None:
            raise errors.DataError(
                f"{checkpointer.store}: no checkpoint has a finite value of the metric that "
                "chooses the best weights; use the last ones (test_weights=last)"
            )
        return checkpoint_files.load(checkpointer.store.fetch(best.name))

    @contextmanager
    def saved_if_interrupted(self, evaluation: ExitStack) -> Iterator[None]:
        """If the pass inside is interrupted, saves the state from before it, to repeat it."""
        metric_log = self._state.metric_log
        before = metric_log.state_dict()
        try:
            with metric_log.throughput.halted():
                yield
        except errors.Interrupted:
            evaluation.close()
            self.save(INTERRUPTED, before)
            raise

    def save_on_request(self) -> None:
        """Writes the current state to the disk; the cadence of checkpoints is unchanged."""
        self.save(REQUESTED)
        self.wait()  # a later state would replace one not yet written

    def load(self, saved: Checkpoint) -> None:
        """Continues from a checkpoint; newer ones of this learner's checkpointer are set aside."""
        if sharding := self._world.sharding:
            saved = sharding.parts(saved, self._state.optimizer.parameters)
        self._state.restore(saved)
        if self._checkpointer:
            self._checkpointer.turn_back(self._state.position.updates)
        if self._saved:  # else the state is another run's, and this one saves it first
            self._saved = self._place

    def resume(self, saved: tuple[Path, Checkpoint] | None) -> Path:
        """Continues from `saved`, or the newest whole checkpoint; `rewind` when training starts."""
        if saved is None:
            if self._checkpointer is None:
                raise errors.RunFolderError(
                    f"there are no checkpoints to resume from; {CHECKPOINTER}"
                )
            saved = directory.newest_whole(self._checkpointer.store)
        folder, newest = saved
        self.load(newest)
        if self._checkpointer:
            self._checkpointer.adopt(folder, newest)
            self._begin_to_restore(self._checkpointer)
        self._resumed = newest
        return folder

    def _begin_to_restore(self, checkpointer: Checkpointer) -> None:
        """Gives the best checkpoint to a rule that restores from now on, if it judges alike."""
        rules, strategy = self._state.early_stopping, checkpointer.strategy
        for judge in strategies.keeping_best(strategy)[:1]:
            observes = [judge.metric, judge.split, judge.direction]
            if rules.restoring and not rules.best and rules.restoring.observes == observes:
                best = self._world.decided(lambda: strategies.best(strategy, checkpointer.saved))
                if best:
                    weights, epoch = self.best()
                    with weights:
                        rules.begin(best.values[judge.split][judge.metric], epoch, best.updates)

    def rewind(self) -> None:
        """Cuts the writers back to the checkpoint from which the run was resumed."""
        resumed, self._resumed = self._resumed, None
        if resumed is not None:
            written = resumed.state["metric_log"]["writers"]
            positions = state_trees.decoded_parts(written, resumed.metrics)
            self._state.metric_log.writers.rewind(positions, resumed.state["updates"])
            self._saved = self._place  # also within an epoch that other batches left

    @contextmanager
    def silenced(self) -> Iterator[None]:
        """A context in which nothing is saved or written."""
        self._is_silent = True
        try:
            with self._state.metric_log.writers.silenced():
                yield
        finally:
            self._is_silent = False
