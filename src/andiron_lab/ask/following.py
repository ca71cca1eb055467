"""Makes updates as a recorded run made them: its validations on request, its stops and its ends."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import Any

from andiron import errors
from andiron.interrupter import Interrupter
from andiron.learner import Learner, saving
from andiron.learner.extras.observers import Step
from andiron.shell.assembly.components import Components

Logged = Mapping[tuple[int, str, str], int]  # lines by completed updates, split, window or epoch


class Follows:
    """Stops a learner after the update `last`, once it has the validations that a run `logged`.

    `state` is what the run saved there, and `why`. `may_end`: the run ended or was resumed there;
    `is_left`: it was interrupted there, maybe during a validation, and not resumed.
    """

    def __init__(
        self,
        last: int,
        logged: Logged,
        state: Mapping[str, Any] | None,
        why: str | None,
        *,
        may_end: bool,
        is_left: bool,
    ):
        self.interrupter = Interrupter(stop_rule=self._reason)
        self._last, self._logged, self._state, self._why = last, logged, state, why
        self._may_end, self._is_left = may_end, is_left
        self._stops: Callable[[int], bool] = bool  # before which batch of an epoch
        self._updates, self._is_over = -1, False
        self.nonfinite: int | None = None  # the update that could not be made

    def follow(self, learner: Learner, built: Components, saw: Callable[[Step], None]) -> bool:
        """Makes the updates; returns whether `state` is from before a validation or an epoch's end.

        The checkpoint to compare is then the first after `last`, else the newest.
        """
        splits, size = ("train", "valid", *built.more), len(built.train)
        is_closed = all(self._logged[self._last, split, "epoch"] for split in splits)
        at, nonfinite = learner.position, learner.updater.nonfinite
        may_skip = nonfinite.policy == "skip" or nonfinite.precision.has_loss_scale
        saved = None if self._state is None else (self._state["epoch"], self._state["batch"])
        is_early = saved is not None and (saved[1] == size or self._why == saving.INTERRUPTED)
        goal = None if saved is None else divmod(saved[0] * size + saved[1], size)
        if goal is None or is_early:  # not where the epoch is not closed, or batches are skipped
            waits = may_skip and (is_early or is_closed)
            self._stops = lambda batch: batch != size and not waits
        else:
            self._stops = lambda batch: (at.epoch, batch) == goal
        with suppress(errors.Interrupted), self._nonfinite_noted(learner):
            for step in learner.steps(built.train, built.valid, more=built.more):
                saw(step)
                self._repeat_requests(step)
                if step.kind == "update" and step.updates == self._last:
                    if is_early and learner.checkpointer is not None:
                        learner.checkpointer.save(self._last, learner.state(), {})
                is_there = goal in (None, divmod(at.epoch * size + at.batch, size))
                if self._may_end and is_closed and step.updates == self._last and is_there:
                    learner.end("the run ended here")
                self._is_over = learner.is_over
        learner.wait()
        return is_early

    @contextmanager
    def _nonfinite_noted(self, learner: Learner) -> Iterator[None]:
        try:
            yield
        except errors.NonFiniteError:
            self.nonfinite = learner.updates + 1

    def _repeat_requests(self, step: Step) -> None:
        """Requests the validations that the run made on request after an update, and its last save.

        A run that ended within an epoch may have saved its state before it closed the epoch.
        """
        if step.updates != self._updates:
            self._updates = step.updates
            for _ in range(self._logged[step.updates, "valid", "window"]):
                self.interrupter.request("validate")
        is_within = self._state is not None and self._state["batch"] > 0
        is_early = is_within and self._why in (saving.DUE, saving.REQUESTED)
        if is_early and step.updates == self._last:
            self.interrupter.request("save")

    def _reason(self, split: str, updates: int, batch: int) -> str | None:
        """Why to stop: the run stopped here, or everything is made."""
        if split != "train":
            is_there = self._is_left and not self._logged[updates, split, "epoch"]
        else:  # a run that is over closes its epoch
            is_there = not self._is_over and self._stops(batch)
        if updates > self._last or updates == self._last and is_there:
            return "every update that was asked for is made"
        return None
