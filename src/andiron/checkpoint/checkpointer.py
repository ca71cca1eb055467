"""Checkpoints of a run: copied when they are due, written by a thread of their own, pruned by a strategy."""

import logging
import threading
import time
from collections.abc import Sequence
from pathlib import Path

from andiron import errors
from andiron.cadence import Cadence
from andiron.checkpoint import checkpoint_files as on_disk
from andiron.checkpoint import directory, host_copy, manifest, step_names
from andiron.checkpoint.background_writer import Background
from andiron.checkpoint.contents import Checkpoint
from andiron.checkpoint.host_copy import HostBuffers, HostCopy
from andiron.checkpoint.strategies import Saved, Strategy
from andiron.protocols import Values

EVERY_EPOCH = Cadence(epochs=1)
SECONDS_BETWEEN_WRITES = (
    1.0  # what a kill can cost at most; writing every 20 ms epoch of a toy would double its time
)
LISTED = "checkpoints"  # in the state: those that are kept with it
log = logging.getLogger("andiron")


class FileCheckpointer:
    """Saves checkpoints as `folder`/step-<updates> and removes those that `strategy` does not keep.

    A checkpoint is copied at once and written by a thread of its own: straight away, or, when the last write began less
    than a second ago, after that second with those that followed, less those the strategy has dropped by then. Older
    ones go only when a newer one is on the disk and was read back. Only checkpoints that this object wrote or adopted
    are ever removed. Of a write that fails a warning tells; the newest copy is kept and tried again.
    """

    def __init__(self, folder: Path, strategy: Strategy, cadence: Cadence = EVERY_EPOCH):
        self.folder = folder
        self.strategy = strategy
        self.cadence = cadence
        self._lock = threading.RLock()  # of what the two threads share: the next four
        self._known: list[Saved] = []  # on the disk or to be written, oldest first
        self._copies: dict[str, HostCopy] = {}  # of those to be written
        self._written: set[str] = set()  # whole on the disk
        self._is_failing = self._is_ours_alone = False
        self._buffers = HostBuffers()
        self._last = (-1, 1)  # place of the newest ever saved
        self._last_save = time.monotonic()
        self._writer = Background(self._write, seconds=lambda: SECONDS_BETWEEN_WRITES)

    @property
    def saved(self) -> list[Saved]:
        """The checkpoints to be kept, oldest first."""
        with self._lock:
            return self._kept(self._known)

    def due(self, updates: int) -> bool:
        """Whether there is to be a checkpoint after this update."""
        every = self.cadence.updates
        return (
            every is not None and updates % every == 0 and updates != self._last[0]
        ) or self._minutes_are_over()

    def due_after_epoch(self, epoch: int) -> bool:
        """Whether there is to be a checkpoint after this epoch, counted from 1."""
        return (
            self.cadence.epochs is not None and epoch % self.cadence.epochs == 0
        ) or self._minutes_are_over()

    def save(self, updates: int, checkpoint: Checkpoint, values: dict[str, Values]) -> None:
        """Takes a copy to be written; waits only if a write is still under way a second after it began.

        `values` are empty for a checkpoint in the middle of an epoch. A failing disk is no error here.
        Raises: ValueError if the state is that of another update; RunFolderError where the folder holds another run's, which
        was not adopted; RuntimeError after `close`.
        """
        if checkpoint.state.get("updates") != updates:
            raise ValueError(
                f"updates={updates}: the state says {checkpoint.state.get('updates')}; save it as what it is"
            )
        if not self._is_ours_alone:
            self._refuse_strangers()
        self._writer.check()
        self._writer.give_way()
        self._last_save = time.monotonic()
        saved = Saved(updates, values, self._last[1] + 1 if updates == self._last[0] else 1)
        self._last = (updates, saved.number)
        with self._lock:
            if saved in self._kept([*self._known, saved]):
                self._take(saved, checkpoint)
            is_waiting = bool(self._copies)
        if is_waiting:
            self._writer.ask()

    def wait(self) -> bool:
        """Tries to have everything saved so far on the disk; whether it is, and an error is logged if not."""
        if self._copies:
            self._writer.ask()
        self._writer.finish()
        self._writer.check()
        return self._is_all_written()

    def close(self) -> bool:
        """Waits as `wait` does, and ends the writing thread."""
        try:
            return self.wait()
        finally:
            self._writer.close()

    def path(self, updates: int, number: int = 1) -> Path:
        """The folder of the checkpoint made after so many updates; `number` counts those made there, from 1."""
        return self.folder / step_names.name_of(updates, number)

    def turn_back(self, updates: int) -> None:
        """Before going on from an earlier state: its own checkpoints that are newer are set aside."""
        self._writer.finish()
        with self._lock:
            newer = {saved.name for saved in self._known if saved.updates > updates}
            self._forget(newer & set(self._copies))
            self._set_aside([name for name in newer if name in self._written], f"update {updates}")
            self._forget_written(newer)
            self._last = max(
                (step_names.place_of(saved.name) or (-1, 1) for saved in self._known),
                default=(-1, 1),
            )

    def adopt(self, folder: Path, checkpoint: Checkpoint) -> None:
        """Goes on from a checkpoint of this run: takes over those that it lists and that are on the disk.

        Newer ones are set aside, and what a killed process left unfinished is removed.
        Raises: ValueError if it is none in this folder.
        """
        place = step_names.place_of(folder.name)
        if place is None or folder.parent.absolute() != self.folder.absolute():
            raise ValueError(f"{folder}: is no checkpoint in {self.folder}; adopt one that is")
        listed = {
            saved.name: saved for saved in map(Saved.from_plain, checkpoint.state.get(LISTED, []))
        }
        listed.setdefault(folder.name, Saved(place[0], number=place[1]))
        there = directory.names(self.folder)
        self._set_aside(there[there.index(folder.name) + 1 :], folder.name)
        self._is_ours_alone = True
        with self._lock:
            self._last = place
            self._written = {
                name for name in there[: there.index(folder.name) + 1] if self._is_ours(name)
            }
            self._known = [
                listed[name] for name in there if name in listed and name in self._written
            ]
            self._leave_others_choice()
        try:
            directory.remove_leftovers(self.folder)
        except OSError as error:
            log.warning(
                "%s: what a killed process left there could not be removed (%s)",
                self.folder,
                error.strerror,
            )
        self._note_latest(folder.name)

    def _take(self, saved: Saved, checkpoint: Checkpoint) -> None:
        """The copy, in the place of those that it makes superfluous."""
        if self._is_failing:
            self._forget(set(self._copies))  # memory for one is all that a broken disk may cost
        kept = self._kept([*self._known, saved])
        self._forget(set(self._copies) - {each.name for each in kept})
        state = host_copy.plain_copy({**checkpoint.state, LISTED: [each.plain for each in kept]})
        self._copies[saved.name] = self._buffers.copy(checkpoint, state)
        self._known.append(saved)

    def _set_aside(self, names: Sequence[str], origin: str) -> None:
        for name in names:
            put = directory.set_aside(self.folder / name, "unused")
            log.warning(
                "checkpoint %s is newer than %s, which the run goes on from; it is kept as %s",
                name,
                origin,
                put.name,
            )

    def _leave_others_choice(self) -> None:
        """Of what it adopted, that which only another strategy kept is nobody's to remove."""
        kept = {saved.name for saved in self._kept(self._known)}
        left = [saved.name for saved in self._known if saved.name not in kept]
        if left:
            log.info(
                "checkpoints kept so far that these options would not keep: %s; they stay",
                ", ".join(left),
            )
            self._forget_written(set(left))

    def _refuse_strangers(self) -> None:
        """Before the first save: two runs' checkpoints in one folder would pass for one run's."""
        there = directory.names(self.folder) if self.folder.is_dir() else []
        if there:
            raise errors.RunFolderError(
                f"{self.folder} holds checkpoints of a run already, the newest {there[-1]}: go on with it by learner.resume(), "
                "or choose another folder"
            )
        self._is_ours_alone = True

    def _minutes_are_over(self) -> bool:
        minutes = self.cadence.minutes
        return minutes is not None and time.monotonic() - self._last_save >= 60 * minutes

    def _kept(self, saved: Sequence[Saved]) -> list[Saved]:
        names = self.strategy(saved)
        return [each for each in saved if each.name in names]

    def _forget(self, names: set[str]) -> None:
        """Drops copies that were not written, for good."""
        for name in names:
            self._buffers.give_back(self._copies.pop(name))
        self._known = [saved for saved in self._known if saved.name not in names]

    def _write(self) -> None:
        """What the thread does: writes the copies there are now, oldest first, then prunes."""
        self._find_vanished()
        with self._lock:
            waiting = [saved for saved in self._known if saved.name in self._copies]
        for saved in waiting:
            with self._lock:
                copy = self._copies.pop(
                    saved.name, None
                )  # so that `save` cannot give its memory away
            if copy is None:  # dropped since
                continue
            try:
                problem = self._put(saved.name, copy)
            except BaseException:
                self._forget_written({saved.name})
                raise
            with self._lock:
                self._is_failing = problem is not None
                if problem is None:
                    self._written.add(saved.name)
                    self._buffers.give_back(copy)
                else:
                    self._keep_newest(saved, copy)
            if problem is not None:
                log.warning(self._loudly(saved.name, problem))
                return
        self._prune()

    def _put(self, name: str, copy: HostCopy) -> str | None:
        """Writes a checkpoint and reads it back; in words, why it is not there."""
        path = self.folder / name
        try:
            copy.wait()
            on_disk.write(path, copy.checkpoint)
            manifest.verified(path, past_cache=True)
        except OSError as error:
            return error.strerror or str(error)
        except errors.DataError as error:
            directory.set_aside(path, "damaged")
            return f"read back, it is not what was written: {error}"
        self._note_latest(name)
        return None

    def _note_latest(self, name: str) -> None:
        try:
            directory.note_latest(self.folder, name)
        except OSError as error:  # the checkpoint itself is there
            log.warning(
                "%s does not name %s (%s)", self.folder / directory.LATEST, name, error.strerror
            )

    def _keep_newest(self, saved: Saved, copy: HostCopy) -> None:
        """Of the copy that could not be written and those taken meanwhile, the newest is tried again."""
        if self._copies:
            newest = max(self._copies, key=lambda name: step_names.place_of(name) or (-1, 1))
            self._forget(set(self._copies) - {newest})
            self._known = [each for each in self._known if each != saved]
            self._buffers.give_back(copy)
        else:
            self._copies[saved.name] = copy

    def _prune(self) -> None:
        """Removes what the strategy keeps neither of all checkpoints nor of those that are on the disk already."""
        with self._lock:
            kept = {each.name for each in self._kept(self._known)}
            kept |= {
                each.name
                for each in self._kept([each for each in self._known if each.name in self._written])
            }
            dropped = sorted(self._written - kept)
        for name in dropped:
            try:
                directory.remove(self.folder / name)
            except (OSError, errors.DataError) as error:
                log.warning(
                    "checkpoint %s is not kept any more, and could not be removed: %s", name, error
                )
                if isinstance(error, OSError):
                    continue  # tried again after the next write
            self._forget_written({name})

    def _find_vanished(self) -> None:
        """Notices checkpoints that somebody else took away."""
        vanished = {name for name in self._written if not (self.folder / name).is_dir()}
        if vanished:
            log.warning(
                "%s: checkpoints that were there are there no more: %s",
                self.folder,
                ", ".join(sorted(vanished)),
            )
            self._forget_written(vanished)

    def _forget_written(self, names: set[str]) -> None:
        with self._lock:
            self._written -= names
            self._known = [saved for saved in self._known if saved.name not in names]

    def _is_all_written(self) -> bool:
        with self._lock:
            waiting = [saved.name for saved in self._known if saved.name in self._copies]
        if waiting:
            log.error(
                "%s: not on the disk, and lost when this process ends: %s",
                self.folder,
                ", ".join(waiting),
            )
        return not waiting

    def _loudly(self, name: str, problem: str) -> str:
        whole = max(
            ((step_names.place_of(each) or (-1, 1), each) for each in self._written),
            default=(None, "none"),
        )[1]
        return (
            f"checkpoint {name} COULD NOT BE WRITTEN in {self.folder} ({problem}); the newest whole one there is {whole}. The run "
            "goes on, and writes its newest state as soon as it can: free space there, or make the folder writable"
        )

    def _is_ours(self, name: str) -> bool:
        """Whether a sound manifest says which files of it may be removed."""
        try:
            return manifest.read(self.folder / name).name == name
        except errors.DataError:
            return False
