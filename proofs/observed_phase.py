"""The phase of a training process, as the folder of its run shows it from outside."""

import time
from contextlib import suppress
from pathlib import Path

from andiron.checkpoint import contents
from andiron.disk import files
from andiron.run_folder import RunFolder
from andiron.shell.run import status

START, TRAINING, VALIDATION, WRITE, REMOVAL, END, WEIGHTS, AFTER = PHASES = (
    "start-up",  # until it logs
    "training",
    "validation",
    "writing a checkpoint",
    "removing a checkpoint",
    "the end",  # from the line of the test set on
    "writing the final weights",
    "the time after the end",
)
TAIL_BYTES = 2**14  # more than the last line of metrics.jsonl has


class ObservedProcess:
    """A process and the folder of its run, observed again and again with `look`."""

    def __init__(self, run_dir: Path, pid: int):
        self._began = time.monotonic()
        self._first_logged: float | None = None
        self._folder, self._pid = RunFolder(run_dir), pid
        self._status = ""  # in status.json, once it is this process's
        self._size = self._bytes_logged()
        self._last_line = b""
        self._partials_before, self._weights_before = {*self._partials()}, self._weights_written()

    def look(self) -> None:
        """Observes once more; that the process logs shows only between two looks."""
        before, self._size = self._size, self._bytes_logged()
        content = status.read(self._folder)
        if content.get("pid") == self._pid:
            self._status = str(content.get("status"))
            if self._size > before:
                self._first_logged = self._first_logged or time.monotonic()
                self._last_line = self._tail()

    @property
    def seconds_running(self) -> float:
        """Seconds since it was first observed."""
        return time.monotonic() - self._began

    @property
    def has_logged(self) -> bool:
        """Whether it was seen to log a line."""
        return self._first_logged is not None

    @property
    def seconds_logging(self) -> float:
        """Seconds since its first line; 0 before."""
        return 0.0 if self._first_logged is None else time.monotonic() - self._first_logged

    @property
    def phase(self) -> str:
        """One of `PHASES`."""
        if not self._status:
            return START
        if self._status == "done":
            return AFTER
        return self._writing() or self._logging()

    @property
    def is_measured(self) -> bool:
        """Whether the test set is measured; not all of it may be on the disk."""
        return b'"split": "test"' in self._last_line

    def _writing(self) -> str | None:
        """The phase that new partial files show, if there are some."""
        partials = {
            path: name
            for path, name in self._partials().items()
            if path not in self._partials_before
        }
        has_new_weights = self._weights_written() != self._weights_before
        if has_new_weights or any(name.startswith("model") for name in partials.values()):
            return WEIGHTS
        for path, name in partials.items():
            if contents.step_place(name):
                # the manifest of a checkpoint is written last and removed last
                return REMOVAL if (path / contents.MANIFEST).exists() else WRITE
        return None

    def _logging(self) -> str:
        """The phase that the last logged line shows."""
        if not self.has_logged:
            return START
        if self.is_measured:
            return END
        is_epoch_end = b'"over": "epoch"' in self._last_line
        return VALIDATION if is_epoch_end and b'"split": "train"' in self._last_line else TRAINING

    def _tail(self) -> bytes:
        with self._folder.metrics.open("rb") as file:
            file.seek(max(0, self._size - TAIL_BYTES))
            return file.read().rstrip(b"\n").rpartition(b"\n")[2]

    def _bytes_logged(self) -> int:
        try:
            return self._folder.metrics.stat().st_size
        except FileNotFoundError:
            return 0

    def _weights_written(self) -> int | None:
        """When the final weights were written, by the clock of the file system."""
        try:
            return self._folder.model.stat().st_mtime_ns
        except FileNotFoundError:
            return None

    def _partials(self) -> dict[Path, str]:
        partials: dict[Path, str] = {}
        for below in (self._folder.path, self._folder.checkpoints):
            with suppress(FileNotFoundError):
                partials |= files.partials(below)
        return partials
