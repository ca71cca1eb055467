"""The checkpoint that a fork begins with, in the folder of its parent, which is only read."""

import dataclasses
import os
import re
from typing import Any

from andiron import errors
from andiron.checkpoint import Store, contents, directory
from andiron.checkpoint.on_disk import checkpoint_files, manifest
from andiron.disk import checksums
from andiron.distributed import World
from andiron.learner import Learner
from andiron.learner.extras import state_format
from andiron.plain import readable
from andiron.plain.plain_values import as_text
from andiron.run_folder import RunFolder
from andiron.shell.assembly import components, configured_store, resume_point
from andiron.shell.assembly.network import SizeLimit
from andiron.shell.config import leaves
from andiron.shell.config.leaves import Differences
from andiron.shell.config.schema import Train
from andiron.shell.config.trust import Trust
from andiron.shell.run import (
    log_file, named_folder, provenance, resume_policy, run_record,
)  # fmt: skip

NAMED = re.compile("(.+)@([^@/]+)")


@dataclasses.dataclass(frozen=True)
class ForkPoint:
    """A parent's folder, its options, and the checkpoint."""

    folder: RunFolder
    parent: Train
    saved: resume_point.Saved

    @property
    def text(self) -> str:
        """The option that names this checkpoint."""
        return f"{self.folder.path}@{self.saved[1].state['updates']}"

    def changes(self, config: Train) -> Differences:
        """The options of a fork that differ from its parent's."""
        before = dataclasses.replace(self.parent, fork_from=config.fork_from)
        return resume_policy.changes(*map(dataclasses.asdict, (before, config)))

    def build(self, config: Train, trusted: Trust, world: World) -> components.Components:
        """The components of a fork, with the record of the parent for its provenance."""
        (path, saved), changes = self.saved, self.changes(config)
        trusted = trusted.with_config(resume_policy.applied({}, changes))  # the user's own words
        built = components.build(config, trusted, SizeLimit.of(saved.model, str(path)), world)
        record = world.decided(lambda: {"fork_from": self._record(changes)})
        return dataclasses.replace(built, started=record)

    def begin(self, learner: Learner, config: Train, built: components.Components) -> None:
        """Loads the checkpoint into the learner of a new run.

        Raises: ConfigError if it does not fit, or nothing is left to train; DataError for other
        data than the parent's.
        """
        named, (path, saved) = leaves.by_name(self.changes(config)), self.saved
        built.world.decided(lambda: provenance.check_data(self.folder, built.splits, named))
        resume_point.check(config, built, saved, named)
        resume_point.resume(learner, config, self.saved, named, is_fork=True)
        if learner.is_over:
            why = "nothing is left to train; fork an earlier checkpoint, or give more num_epochs"
            raise errors.ConfigError(f"{path}: {why}")
        learner.position.enter(built.train)
        start = f"forked from {path}: {learner.position.within(built.train)}"
        resume_policy.log_start(start, named, learner.position.batch)

    def _record(self, changes: Differences) -> dict[str, Any]:
        path, origin = self.saved[0], provenance.read(self.folder)
        newest = {**origin, **(origin["resumes"] or [origin])[-1]}
        return {
            "path": str(self.folder.path),
            "run": run_record.identity(self.folder),
            "checkpoint": path.name,
            "sha256": checksums.entry(path / contents.MANIFEST)["sha256"],
            "changes": {n: [*map(as_text, pair)] for n, pair in leaves.by_name(changes).items()},
            **{name: newest.get(name) for name in (*provenance.CODE, "data")},
        }


def named(text: str, trusted: Trust) -> ForkPoint:
    """The point that the option `fork_from` names.

    Raises: RunFolderError if there is no such run or checkpoint, or a process trains the run;
    DataError or ConfigError for a damaged record or checkpoint.
    """
    match = None if os.path.isdir(text) else NAMED.fullmatch(text)
    place, at = match.groups() if match else (text, named_folder.LATEST)
    folder = named_folder.run_folder_of(place)
    if log_file.is_held(folder.log):
        raise errors.RunFolderError(
            f"{folder.path}: a process still trains this run, and removes checkpoints of it; fork "
            "it once it has ended"
        )
    parent = run_record.config(folder, trusted)
    store = configured_store.store(parent.checkpoint, folder.checkpoints, trusted)
    names = directory.names(store)
    best = _best(folder, parent, store, names) if at == "best" and names else None
    chosen = [name for name in names if name == best or _is_at(at, store, name)]
    if not chosen:
        there = readable.joined([name.replace("step-", "@") for name in names], 20)
        raise errors.RunFolderError(
            f"fork_from={text}: no such checkpoint in {store}, which are named by their updates, "
            f"latest, best or epoch:3; there are: {there or 'none'}; a run keeps more with "
            "checkpoint.last=20 or checkpoint.keep_every_updates=500"
        )
    saved = of_run(store, chosen[-1], run_record.identity(folder))
    return ForkPoint(folder, parent, saved)


def of_run(checkpoints: Store, name: str, run: str | None) -> resume_point.Saved:
    """The checkpoint of that name, of this `run`.

    Raises: DataError if it is damaged, or another run's.
    """
    path = checkpoints.fetch(name)
    owner = manifest.read(path).run
    if owner not in (None, run):
        raise errors.DataError(f"{path}: is of another run, {owner}; use another checkpoint")
    saved = checkpoint_files.load(path)
    state_format.checked(saved.state, saved.place(contents.STATE))
    return path, saved


def _is_at(at: str, store: Store, name: str) -> bool:
    """Whether a checkpoint is after `at`: updates, `epoch:3`; or any, for the `latest`."""
    kind, _, epoch = at.partition(":")
    if epoch:
        state = resume_point.state_of(store.fetch(name))
        return [kind, str(state["epoch"]), state["batch"]] == ["epoch", epoch, 0]
    return name.partition(".")[0] == f"step-{at}" or at == named_folder.LATEST


def _best(folder: RunFolder, parent: Train, store: Store, names: list[str]) -> str | None:
    """The name of the best checkpoint, as the newest one lists their values."""
    facts, newest = run_record.read_json(folder, folder.data), store.fetch(names[-1])
    saved, _ = resume_point.best(parent, facts, newest, names)
    return saved.name if saved else None
