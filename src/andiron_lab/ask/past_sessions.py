"""The sessions of a recorded run, from its start and each resume, with the options of each."""

import dataclasses
import os
import re
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from functools import cached_property
from typing import Any

import torch

from andiron import errors, randomness, serialization
from andiron.checkpoint import Store, contents, directory
from andiron.disk import files
from andiron.distributed import World
from andiron.interrupter import Interrupter
from andiron.learner import Learner
from andiron.plain.cadence import Cadence
from andiron.run_folder import RunFolder
from andiron.shell.assembly import (
    components, configured_learner, configured_store, devices, resume_point,
)  # fmt: skip
from andiron.shell.assembly.components import Components
from andiron.shell.assembly.network import SizeLimit
from andiron.shell.assembly.resume_point import Saved
from andiron.shell.cli import process
from andiron.shell.config import leaves
from andiron.shell.config.schema import Train
from andiron.shell.config.trust import Trust
from andiron.shell.run import resume_policy, provenance, run_record
from andiron.shell.run.resume_policy import applied
from andiron.shell.training import joining, ranks
from andiron.wings.runs import logged_lines
from andiron.writers import JsonLinesWriter
from andiron_lab.forks import fork_point
from andiron_lab.forks.fork_point import ForkPoint

SAVED = re.compile(r" INFO saved (step-[0-9.]+): (.*)$")  # in the log
BEGUN_FROM = ("start_from", "fork_from")
AT_THE_END = {  # of a stretch, and nowhere else
    "_target_": "andiron.checkpoint.checkpointing", "metric": None, "last": 2,
    "every": 2**53,
}  # fmt: skip


class PastSessions:
    """Makes the learner of a run again, as it was after any update; see `Recorded`."""

    def __init__(self, folder: RunFolder, trusted: Trust, given: leaves.Differences):
        self._folder, self._given, self.world = folder, given, World()
        self._trusted = dataclasses.replace(trusted, builds_writers=False)
        self.config = run_record.config(folder, self._trusted)
        self._origin = provenance.read(folder)
        self._resumes = [e for e in self._origin["resumes"] if type(e.get("updates")) is int]
        self._changes = resume_policy.history(self._resumes)
        self.resumed = {entry["updates"] for entry in self._resumes}  # after these updates

    @cached_property
    def store(self) -> Store:
        """The store of its checkpoints."""
        folder = self._folder.checkpoints
        return configured_store.store(self.config.checkpoint, folder, self._trusted)

    @cached_property
    def saved(self) -> dict[int, str]:
        """{updates: the newest checkpoint saved after that many updates}."""
        places = filter(None, map(contents.step_place, directory.names(self.store)))
        return {place[0]: contents.step_name(*place) for place in sorted(places)}

    @contextmanager
    def together(self) -> Iterator[None]:
        """Updates are made by all processes that torchrun started, each its part of them."""
        place = process.rank_and_size(os.environ)
        if place is None:
            yield
            return
        store, options = ranks.store_of_start(*place), joining.options_of(self.config)
        with joining.joined(store, *place, **options) as self.world:
            yield

    @contextmanager
    def threads(self, updates: int, number: int | None) -> Iterator[None]:
        """A context with `number` threads, by default as many as made the update after `updates`.

        A process of torchrun or a job of a sweep has fewer; others add up in another order.
        """
        before, most = torch.get_num_threads(), os.cpu_count() or 1
        match self.record_at(updates):
            case {"hardware": {"threads": int(had)}} if type(had) is int and 0 < had <= most:
                number = number or had
        torch.set_num_threads(number or before)
        try:
            yield
        finally:
            torch.set_num_threads(before)

    @property
    def beginning(self) -> int:
        """The completed updates that the run began with: 0, or a fork's parent's."""
        match self._origin:
            case {"fork_from": {"checkpoint": str(name)}}:
                return (contents.step_place(name) or (0,))[0]
        return 0

    def state_at(self, updates: int) -> Saved | None:
        """The state that the run saved after this number of updates."""
        if updates not in self.saved:
            return None
        run = run_record.identity(self._folder)
        return fork_point.of_run(self.store, self.saved[updates], run)

    @cached_property
    def _reasons(self) -> dict[str, str]:
        """Why the run saved each of its checkpoints, by name."""
        path = self._folder.log
        try:
            with files.opened(path) as log:
                files.check_size(log, logged_lines.MOST_BYTES)
                lines = (line.decode(errors="replace").strip() for line in logged_lines.whole(log))
                return {match[1]: match[2] for match in map(SAVED.search, lines) if match}
        except (OSError, ValueError) as error:
            raise errors.DataError(f"{path}: cannot be read ({error}); restore it") from error

    def why_saved(self, updates: int) -> str | None:
        """Why the run saved its state after this number of updates; None if it did not.

        Raises: RunFolderError if the log does not say.
        """
        name = self.saved.get(updates)
        if name is not None and name not in self._reasons:
            raise errors.RunFolderError(
                f"{self._folder.log}: does not say why {name} was saved, as the log of an earlier "
                "version; ask a run that this version trained"
            )
        return name and self._reasons[name]

    def record_at(self, updates: int, *, is_begun: bool = True) -> dict[str, Any]:
        """The record of the session that made the update after `updates`.

        One that `is_begun` no longer depends on the weights that the run began with.
        """
        resumes = [entry for entry in self._resumes if entry["updates"] <= updates]
        record = {**self._origin, **(resumes[-1] if resumes else {})}
        return {name: record[name] for name in record if not is_begun or name not in BEGUN_FROM}

    @contextmanager
    def learner(
        self, begin: int, state: Saved | None, again: RunFolder, interrupter: Interrupter
    ) -> Iterator[tuple[Learner, Components]]:
        """The learner of the run after `begin` updates, with the `state` that was saved there.

        Raises: RunFolderError if a fork's parent is no longer as it was.
        """
        config, world = self.config_at(begin), self._world_at(begin)
        self._check_clock(config)
        with devices.deterministic(config.deterministic), ExitStack() as at_end:
            built, point = self._built(config, state, world)
            for loader in built.loaders:
                at_end.callback(loader.close)
            logs = built.world.rank == 0
            writers = {"json_lines": JsonLinesWriter(again.metrics)} if logs else {}
            learner = at_end.enter_context(
                configured_learner.learner(
                    config, built, again.path, writers, interrupter=interrupter
                )
            )
            if state is not None:
                resume_point.check(config, built, state[1], {})
                resume_point.resume(learner, config, state, {}, is_fork=True)
                learner.position.enter(built.train)
            elif point is not None:
                point.begin(learner, config, built)
            if learner.updates != begin:
                raise errors.RunFolderError(
                    f"{self._folder.path}: began after update {begin}, and {config.fork_from} is "
                    f"after update {learner.updates} now; restore the run that it was forked from"
                )
            yield learner, built

    def _check_clock(self, config: Train) -> None:
        """Refuses options by which a session logged or validated by the minutes of a clock."""
        cadences = {"log_every": config.log_every, "validate_every": config.validate_every}
        for name, value in (cadences | (config.valid_sets_every or {})).items():
            if Cadence.of(value).minutes is not None:
                raise errors.RunFolderError(
                    f"{self._folder.path}: {name}={value} followed a clock, which cannot be made "
                    "again; ask a run that logs and validates by updates or epochs"
                )

    def _built(
        self, config: Train, state: Saved | None, world: World
    ) -> tuple[Components, ForkPoint | None]:
        """The components with these options, and where a fork begins."""
        randomness.seed_others(config.seed)
        point = None
        if state is not None:
            config = dataclasses.replace(config, start_from=None)
        elif config.fork_from:
            point = fork_point.named(config.fork_from, self._trusted)
        if point is None:
            built = components.build(config, self._trusted, self._size_limit(), world)
        else:
            built = point.build(config, self._trusted, world)
        changed = [*self._changes, *leaves.by_name(self._given)]
        provenance.check_data(self._folder, built.splits, {name: [] for name in changed})
        begun = built.started.get("start_from")
        if begun and begun != self._origin.get("start_from"):
            raise errors.DataError(
                f"start_from={config.start_from}: has other weights than this run began with; "
                "restore them"
            )
        return built, point

    def _size_limit(self) -> SizeLimit:
        """The most that a network of the run takes, from weights that it has saved."""
        if state := self.state_at(max(self.saved, default=0)):
            return SizeLimit.of(state[1].model, str(state[0]))
        if not self._folder.model.is_file():
            raise errors.RunFolderError(
                f"{self._folder.path}: has neither checkpoints nor weights; ask another run"
            )
        weights = serialization.load_tensors(self._folder.model)
        return SizeLimit.of(weights, str(self._folder.model))

    def config_at(self, updates: int) -> Train:
        """The options with which the run made the update after `updates`, to make it once more."""
        flat = dict(leaves.leaves(dataclasses.asdict(self.config)))
        for name, values in self._changes.items():
            path = tuple(name.split("."))
            flat[path] = [value for begin, value in values if begin <= updates][-1]
            if flat[path] is None and len(path) > 1:  # null stands for an argument left out
                del flat[path]
        return dataclasses.replace(
            Train(**applied(leaves.nested(flat), self._given)), checkpoint=AT_THE_END, render=None,
            writers=None, show_layers=False, profile=None, max_time=None, test_weights="last",
        )  # fmt: skip

    def processes_at(self, updates: int) -> Any:
        """How many processes make the update after `updates` again; one does if it had slices."""
        record, has_slices = self.record_at(updates), self.config_at(updates).slices is not None
        return 1 if has_slices else record.get("processes", 1)

    def _world_at(self, updates: int) -> World:
        """The processes, as many as trained the run then, or any number if it had slices.

        Raises: RunFolderError.
        """
        here, slices = self.world, self.config_at(updates).slices
        world = World(here.rank, here.size, slices, here.reports)
        number = self.processes_at(updates)
        if slices is None and number != world.size:
            raise errors.RunFolderError(
                f"{self._folder.path}: {number} processes trained this run without slices after "
                f"update {updates}, and {world.size} would add up in another order; ask with "
                f"`torchrun --nproc-per-node={number} -m andiron`"
            )
        return world
