"""The session of a run in its claimed folder: recorded, begun by its first update, given results.

A run of the command and a run from Python train in the same session. The order of writing: the
manifest and the status (`claim`), the record, after the first update the status without
`untrained`, at the end the results and the last status.
"""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from torch import Tensor

from andiron.protocols import Point
from andiron.run_folder import RunFolder
from andiron.serialization.safetensors_codec import save_tensors
from andiron.shell.config.leaves import Changes
from andiron.shell.run import applied_changes, metadata, provenance, run_record, status
from andiron.shell.run.code_origin import Gathering
from andiron.shell.run.metadata import Facts, Files
from andiron.writers import Writers

Summary = dict[str, Any]
Show = Callable[[Summary], None]
Weights = Mapping[str, Mapping[str, Tensor]]  # by name: `model`, and each average


@dataclass(frozen=True)
class Record:
    """The record of a run that starts, or resumes after `updates` with other options.

    `others` are files that are written with it. Where `awaits_code` is false, training does not
    wait for git: the provenance of a new run is written at the first log point that has it.
    """

    facts: Facts
    others: Files = field(default_factory=dict)
    updates: int | None = None  # of a resumed run
    changes: Changes = field(default_factory=dict)
    awaits_code: bool = True


@contextmanager
def training(
    folder: RunFolder, report: status.Report, writers: Writers, record: Record | None
) -> Iterator[None]:
    """Trains a run whose folder is claimed; call `report.updated` after the first update.

    A new run is recorded before the body, a resumed one after its first update. None: the process
    records nothing.
    Raises: RunFolderError if the record cannot be written.
    """
    late = None
    if record is not None:
        with status.write_errors_explained(folder):
            late = _record(folder, report, writers, record)
    with writers.session():
        try:
            yield
        except BaseException:
            report.has_logged = writers.has_written
            if late is not None and not report.is_untrained:
                with suppress(OSError):  # the error of the run stays
                    late.record()
            raise
        if late is not None:
            with status.write_errors_explained(folder):
                late.record()
        report()


def write_results(folder: RunFolder, summary: Summary, show: Show, weights: Weights) -> None:
    """Writes summary.json, with the folder and the options that changed; then the weights.

    Raises: RunFolderError if a file cannot be written.
    """
    content = {"run_dir": str(folder.path), **summary}
    if changes := applied_changes.texts(provenance.resumes(folder)):
        content["changes"] = changes
    content["worst_classes"] = content.pop("worst_classes")  # the last
    with status.write_errors_explained(folder):
        run_record.write_json(folder, {folder.summary: content})
    show(content)
    paths = {folder.weights(name): tensors for name, tensors in weights.items()}
    with status.write_errors_explained(folder):
        run_record.announce(folder, *paths)
        for path, tensors in paths.items():
            save_tensors(path, tensors)
        run_record.add(folder, *paths)


def _record(
    folder: RunFolder, report: status.Report, writers: Writers, record: Record
) -> "LateCode | None":
    """Records a new run now, and a resumed one after its first update."""
    facts = record.facts
    if record.updates is not None:
        resumed = metadata.resumed(folder, facts, record.updates, record.changes)
        report.record = partial(_write, folder, {**record.others, **resumed})
        return None
    origin, is_late = facts.origin(), not record.awaits_code
    metadata.record_start(folder, facts, writers, record.others, None if is_late else origin())
    if facts.code is None or not is_late:
        return None
    late = LateCode(facts.code, lambda: metadata.record_code(folder, origin(), writers))
    writers.add(metadata.PROVENANCE, late)
    return late


def _write(folder: RunFolder, contents: Files) -> None:
    with status.write_errors_explained(folder):
        run_record.write(folder, contents)


class LateCode:
    """A writer that records where the code comes from, at the first log point after git answered.
    """

    sends_data = False

    def __init__(self, code: Gathering, record: Callable[[], None]):
        self._code = code
        self._record: Callable[[], None] | None = record

    def record(self) -> None:
        """Records the code unless it is recorded; waits for git."""
        if self._record is not None:
            self._record()
            self._record = None

    def write(self, point: Point) -> None:
        """Records the code if git has answered."""
        if self._code.is_done:
            self.record()

    def close(self) -> None:
        """Does nothing: the session has recorded the code, or the run has left nothing."""
