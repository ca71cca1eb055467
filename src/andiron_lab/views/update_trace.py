"""A trace of some updates by torch.profiler: a timeline, and the time of each operation."""

import logging
import os
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import torch
from torch.profiler import ProfilerActivity, profile, record_function

from andiron.disk import files, guarded_folders
from andiron.progress import Progress

MOST_ROWS = 50  # of the table of operations
QUIET = 99  # above all levels that Kineto, the profiler's library, prints at
log = logging.getLogger("andiron")


class UpdateTrace:
    """Traces the updates from `first` to `last`, counted from 1, with the loading of their batches.

    Writes a Chrome trace, `updates-<first>-<last>.json`, and a table of operations, the same name
    with `.txt`, to `folder`. An interrupted run writes the updates traced so far; a resumed run
    traces the rest. Outside of these updates it costs one comparison a batch.
    """

    def __init__(self, folder: Path, first: int, last: int, device: torch.device):
        self._folder = folder
        self._wanted = range(first, last + 1)
        self._device = device
        self._profiler: Any = None
        self._begun = self._current = 0
        self._range = ExitStack()  # the current update, by name in the trace
        self._progress = Progress(num_epochs=0)

    def over(self, batches: Iterator[Any], progress: Progress) -> Iterator[Any]:
        """The batches; tracing starts and stops before a batch is loaded."""
        self._progress = progress
        self._turn()
        for batch in batches:
            yield batch
            self._turn()
        self._current = 0
        self._range.close()

    def stop(self) -> None:
        """Stops tracing and writes the trace; a failure to write is a warning."""
        profiler, self._profiler = self._profiler, None
        if profiler is None:
            return
        self._range.close()
        profiler.stop()
        path = self._folder / f"updates-{self._begun}-{self._progress.updates}"
        try:
            self._write(profiler, path)
        except OSError as error:
            log.warning("the trace of updates cannot be written: %s", error)
        else:
            log.info("trace of updates %s.json, and a table of operations", path)

    def _turn(self) -> None:
        update = self._progress.updates + 1  # that the next batch is for
        if update == self._current:
            return
        if update not in self._wanted:
            self.stop()
            return
        if self._profiler is None:
            self._start(update)
        self._current = update
        self._range.close()
        self._range.enter_context(record_function(f"update {update}"))

    def _start(self, update: int) -> None:
        os.environ.setdefault("KINETO_LOG_LEVEL", str(QUIET))
        activities = [ProfilerActivity.CPU]
        if self._device.type == "cuda":
            activities.append(ProfilerActivity.CUDA)
        self._begun, self._profiler = update, profile(activities=activities)
        self._profiler.start()

    def _write(self, profiler: Any, path: Path) -> None:
        for suffix in (".txt", ".json"):
            guarded_folders.list_file(path.with_suffix(suffix))
        self._folder.mkdir(exist_ok=True)
        order = f"self_{'device' if self._device.type == 'cuda' else 'cpu'}_time_total"
        table = profiler.key_averages().table(sort_by=order, row_limit=MOST_ROWS)
        files.write(path.with_suffix(".txt"), table.encode())
        with tempfile.TemporaryDirectory() as scratch:
            trace = Path(scratch) / "trace.json"
            profiler.export_chrome_trace(str(trace))
            files.write(path.with_suffix(".json"), trace.read_bytes())
