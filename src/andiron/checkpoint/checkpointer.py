"""The checkpoints of a run: copied when saved, written by a thread, pruned by a strategy.

>>> import tempfile
>>> from andiron.checkpoint import Checkpoint, KeepLast, newest_whole
>>> folder = Path(tempfile.mkdtemp())
>>> saver = FileCheckpointer(folder, KeepLast(2))
>>> saver.save(20, Checkpoint(model={}, optimizer={}, state={"updates": 20}), values={})
>>> saver.close(), newest_whole(folder)[0].name
(True, 'step-20')
"""

import logging
import math
import threading
import time
from collections.abc import Collection, Sequence
from contextlib import suppress
from pathlib import Path

from andiron import errors
from andiron.checkpoint import contents, directory
from andiron.plain.background import Background
from andiron.checkpoint.contents import Checkpoint, HostCopy, copied
from andiron.checkpoint.on_disk import checkpoint_files, manifest
from andiron.checkpoint.store import Store
from andiron.checkpoint.strategies import Saved, Strategy, names_kept
from andiron.disk import files
from andiron.plain.cadence import EVERY_EPOCH, Cadence
from andiron.protocols import Values

# The most that a kill can cost; writing after every 20 ms epoch of a toy would double its time.
SECONDS_BETWEEN_WRITES = 1.0
KEPT_WITH_IT = "checkpoints"  # key in a checkpoint's state: the other checkpoints kept
# to write a checkpoint and read it back; slower stores are not waited for
MOST_SECONDS, LEAST_BYTES_A_SECOND = 60.0, 1e6
NONE_YET = Saved(-1)  # before any checkpoint
log = logging.getLogger("andiron")


class FileCheckpointer:
    """Saves checkpoints as step-<updates> in a store and removes those that `strategy` drops.

    A checkpoint is copied at once and written by a thread: immediately, or a second after the last
    write began, together with later ones, except those that the strategy has dropped by then.
    Older ones are removed only once a newer one is in the store and was read back, and only those
    that this object wrote or adopted. If a write fails, a warning is logged, and the newest copy is
    kept and retried. A path is the store of a local folder. They carry the identity `run`.
    """

    def __init__(
        self,
        store: Store | Path,
        strategy: Strategy,
        cadence: Cadence = EVERY_EPOCH,
        run: str | None = None,
    ):
        self.store = directory.as_store(store)
        self.strategy = strategy
        self.cadence = cadence
        self._run = run
        self._lock = threading.RLock()  # guards the next four, which both threads use
        self._held: list[Saved] = []  # in the store or to be written, oldest first
        self._copies: dict[str, HostCopy] = {}  # to be written, oldest first
        self._written: set[str] = set()  # complete in the store
        self._is_failing = self._is_ours_alone = False
        self._newest = NONE_YET  # the last one saved, kept or not
        self._writing, self._deadline = "", math.inf
        self._writer = Background(self._write, SECONDS_BETWEEN_WRITES, lambda: self._deadline)

    @property
    def saved(self) -> list[Saved]:
        """The checkpoints to be kept, oldest first."""
        with self._lock:
            return self._kept(self._held)

    def sign(self, run: str) -> None:
        """Sets the identity that checkpoints carry, unless they have one."""
        self._run = self._run or run

    def save(self, updates: int, checkpoint: Checkpoint, values: dict[str, Values]) -> None:
        """Takes a copy to write; waits only for a write still under way after a second.

        `values` are empty for a checkpoint without a validation. A failing disk raises no error.
        Raises: ValueError if the state is that of another update; RunFolderError if the store holds
        another run's checkpoints; RuntimeError after `close`.
        """
        actual = checkpoint.state.get("updates")
        if actual != updates:
            raise ValueError(f"updates={updates}: the state is that of update {actual}; pass that")
        if not self._is_ours_alone:
            self._refuse_other_run()
        self._writer.check()
        if not self._writer.give_way() and not self._is_failing:
            self._is_failing = True
            self._warn_not_written(self._writing, "the store has not returned from it")
        number = self._newest.number + 1 if updates == self._newest.updates else 1
        self._newest = saved = Saved(updates, values, number)
        with self._lock:
            self._take(saved, checkpoint)
        self._writer.ask()

    def wait(self) -> bool:
        """Tries to write everything saved so far; returns whether it could, else logs an error."""
        if self._copies:
            self._writer.ask()
        stalled = [] if self._writer.finish() else [f"{self._writing} (the store does not return)"]
        self._writer.check()
        if lost := [*stalled, *self._copies]:
            message = "%s: not written, and lost when this process ends: %s"
            log.error(message, self.store, ", ".join(lost))
        return not lost

    def close(self) -> bool:
        """Waits as `wait` does, and ends the writing thread."""
        try:
            return self.wait()
        finally:
            self._writer.close()

    def turn_back(self, updates: int) -> None:
        """Sets this object's newer checkpoints aside, before the run continues from `updates`."""
        self._writer.finish()
        with self._lock:
            newer = {saved.name for saved in self._held if saved.updates > updates}
            directory.set_newer_aside(self.store, newer & self._written, f"update {updates}")
            self._forget(newer)
            self._newest = [NONE_YET, *self._held][-1]

    def adopt(self, folder: Path, checkpoint: Checkpoint) -> None:
        """Continues from a checkpoint of this run: takes over the listed ones still in the store.

        Newer ones are set aside, and leftovers of a killed process are removed.
        Raises: ValueError if it is not in this store.
        """
        place, stored = contents.step_place(name := folder.name), directory.names(self.store)
        # a store may fetch a checkpoint to another folder each time
        is_there = name in stored and manifest.read(self.store.fetch(name)) == manifest.read(folder)
        if place is None or not is_there:
            raise ValueError(f"{folder}: not a checkpoint in {self.store}; adopt one that is")
        entries = checkpoint.state.get(KEPT_WITH_IT, [])
        alone = Saved(place[0], number=place[1])
        listed = {entry.name: entry for entry in (alone, *map(Saved.from_plain, entries))}
        end = stored.index(name) + 1
        directory.set_newer_aside(self.store, stored[end:], name)
        self._is_ours_alone = True
        with self._lock:
            self._newest = alone
            self._written = {n for n in stored[:end] if directory.has_manifest(self.store, n)}
            self._held = [listed[entry] for entry in stored if entry in self._written & set(listed)]
            self._release_unchosen()
        try:
            self.store.remove_leftovers()
        except OSError as error:
            log.warning("%s: its half-written files stay (%s)", self.store, error.strerror)

    def _take(self, saved: Saved, checkpoint: Checkpoint) -> None:
        """Takes the copy; drops those that it makes superfluous."""
        if self._is_failing:
            self._forget(list(self._copies))  # a broken disk costs the memory of at most one copy
        kept = self._kept([*self._held, saved])
        self._forget(self._copies.keys() - {entry.name for entry in kept})
        state = {**checkpoint.state, KEPT_WITH_IT: [entry.plain for entry in kept]}
        self._copies[saved.name] = copied(checkpoint, state)
        self._held.append(saved)

    def _release_unchosen(self) -> None:
        """Never delete an adopted checkpoint that the current strategy would not have kept."""
        kept = self._kept(self._held)
        if released := [entry.name for entry in self._held if entry not in kept]:
            text = ", ".join(released)
            log.info("checkpoints that the current options would delete are kept: %s", text)
            self._forget(released)

    def _refuse_other_run(self) -> None:
        """Before the first save, refuses a store with another run's checkpoints."""
        others = directory.names(self.store)
        if others:
            why = f"already holds checkpoints of a run, the newest {others[-1]}: resume that run"
            raise errors.RunFolderError(f"{self.store} {why}, or choose another folder")
        self._is_ours_alone = True

    def _kept(self, saved: Sequence[Saved]) -> list[Saved]:
        """Those that the strategy keeps, and the newest, without which a stop loses updates."""
        names = names_kept(self.strategy, saved)
        return [entry for entry in saved if entry.name in names or entry is saved[-1]]

    def _forget(self, names: Collection[str]) -> None:
        """Drops checkpoints, and the copies of unwritten ones."""
        with self._lock:
            for name in self._copies.keys() & names:
                del self._copies[name]
            self._written.difference_update(names)
            self._held = [saved for saved in self._held if saved.name not in names]

    def _write(self) -> None:
        """Writes the waiting copies, oldest first, then prunes; runs in the thread."""
        self._find_vanished()
        for name in list(self._copies):
            with self._lock:  # removed, so that `save` cannot reuse its memory
                copy = self._copies.pop(name, None)
            if copy is None:  # dropped meanwhile
                continue
            try:
                problem = self._put(name, copy)
            except BaseException:
                self._forget([name])
                raise
            with self._lock:
                self._is_failing = problem is not None
                if problem is None:
                    self._written.add(name)
                    continue
                self._copies = {name: copy, **self._copies}
                self._forget([*self._copies][:-1])  # the newest is kept, to try again
            self._warn_not_written(name, problem)
            return
        self._prune()

    def _put(self, name: str, copy: HostCopy) -> str | None:
        """Writes a checkpoint and reads it back; returns the reason if that fails."""
        try:
            copy.wait()
            self._writing = name
            self._deadline = time.monotonic() + MOST_SECONDS + copy.size / LEAST_BYTES_A_SECOND
            content = checkpoint_files.pieces(name, copy.checkpoint, self._run)
            self.store.write(name, content)
            checkpoint_files.check(self.store.fetch(name), content)
        except OSError as error:
            return files.reason(error)
        except errors.DataError as error:
            with suppress(OSError):
                directory.set_aside(self.store, name, "damaged", {*self.store.names()})
            return f"reading it back gives something else: {error}"
        finally:
            self._deadline = math.inf
        return None

    def _prune(self) -> None:
        """Removes checkpoints that the strategy keeps neither of all nor of the written ones."""
        with self._lock:
            written = [entry for entry in self._held if entry.name in self._written]
            kept = {entry.name for entry in (*self._kept(self._held), *self._kept(written))}
            dropped = sorted(self._written - kept)
        for name in dropped:
            try:
                directory.remove(self.store, name)
            except (OSError, errors.DataError) as error:
                log.warning("checkpoint %s is no longer kept but was not removed: %s", name, error)
                if isinstance(error, OSError):
                    continue  # tried again after the next write
            self._forget([name])

    def _find_vanished(self) -> None:
        """Forgets checkpoints that others removed, with a warning."""
        try:
            vanished = self._written - set(directory.names(self.store))
        except errors.DataError as error:  # a network that fails for a while
            log.warning("%s", error)
            return
        if vanished:
            message = "%s: checkpoints were removed by somebody else: %s"
            log.warning(message, self.store, ", ".join(sorted(vanished)))
            self._forget(vanished)

    def _warn_not_written(self, name: str, problem: str) -> None:
        whole = [saved.name for saved in self._held if saved.name in self._written]
        log.warning(
            "checkpoint %s COULD NOT BE WRITTEN in %s (%s); the newest intact one there is %s. "
            "Training continues, and its newest state is written as soon as possible: free space "
            "there, or make the folder writable",
            *(name, self.store, problem, whole[-1] if whole else "none"),
        )
