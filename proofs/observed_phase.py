"""What a process is at, as the folder of its run shows it from outside."""

import time
from pathlib import Path

from andiron import files
from andiron.checkpoint import contents, store
from proofs import comparison, logged_values
from andiron.run import status
from andiron.run_folder import RunFolder

START, TRAINING, VALIDATION, WRITE, REMOVAL, END, WEIGHTS, AFTER = PHASES = (
    "start-up",  # until it logs
    "training",
    "validation",
    "the writing of a checkpoint",
    "the removal of a checkpoint",
    "the end",  # from the test set's line on
    "the writing of the final weights",
    "the time after the end",
)
TAIL_BYTES = 2**14  # more than the last line of metrics.jsonl has


class Seen:
    """One process and the folder of the run that it was started in, to be looked at again and again."""

    def __init__(self, run_dir: Path, pid: int):
        self._began = time.monotonic()
        self._logged_first: float | None = None
        self._run_dir, self._pid = run_dir, pid
        self._status = ""  # as status.json has it, once it is this process's
        self._lines = run_dir / logged_values.LINES
        self._size = self._bytes_logged()
        self._last_line = b""
        self._partials_before, self._weights_before = {*self._partials()}, self._weights_written()

    def look(self) -> None:
        """Looks once more: that it logs is seen only from one look to the next."""
        before, self._size = self._size, self._bytes_logged()
        told = status.read(RunFolder(self._run_dir))
        if told.get("pid") == self._pid:
            self._status = str(told.get("status"))
            if self._size > before:
                self._logged_first = self._logged_first or time.monotonic()
                self._last_line = self._tail()

    @property
    def running_for(self) -> float:
        """Seconds."""
        return time.monotonic() - self._began

    @property
    def has_logged(self) -> bool:
        """Whether a line of its own has been seen to come."""
        return self._logged_first is not None

    @property
    def logging_for(self) -> float:
        """Seconds since it logged first; 0 before."""
        return 0.0 if self._logged_first is None else time.monotonic() - self._logged_first

    @property
    def phase(self) -> str:
        """One of `PHASES`."""
        if not self._status:
            return START
        if self._status == "done":
            return AFTER
        partials = {
            path: name
            for path, name in self._partials().items()
            if path not in self._partials_before
        }
        if self._weights_written() != self._weights_before or any(
            name.startswith("model") for name in partials.values()
        ):
            return WEIGHTS
        for path, name in partials.items():
            if (
                contents.step_place(name) or name == store.LATEST
            ):  # of a checkpoint the manifest is the last to come and to go
                return REMOVAL if (path / contents.MANIFEST).exists() else WRITE
        if not self.has_logged:
            return START
        if self.is_measured:
            return END
        return (
            VALIDATION
            if b'"split": "train"' in self._last_line and b'"over": "epoch"' in self._last_line
            else TRAINING
        )

    @property
    def is_measured(self) -> bool:
        """Whether the run is trained and measured on the test set; some of it may not be on the disk."""
        return b'"split": "test"' in self._last_line

    def _tail(self) -> bytes:
        with self._lines.open("rb") as file:
            file.seek(max(0, self._size - TAIL_BYTES))
            return file.read().rstrip(b"\n").rpartition(b"\n")[2]

    def _bytes_logged(self) -> int:
        try:
            return self._lines.stat().st_size
        except FileNotFoundError:
            return 0

    def _weights_written(self) -> int | None:
        """When, by the file system's clock."""
        try:
            return (self._run_dir / comparison.MODEL).stat().st_mtime_ns
        except FileNotFoundError:
            return None

    def _partials(self) -> dict[Path, str]:
        found: dict[Path, str] = {}
        for below in (self._run_dir, self._run_dir / "checkpoints"):
            try:
                found |= files.partials(below)
            except FileNotFoundError:
                pass
        return found
