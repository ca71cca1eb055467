"""The session of a run in its claimed folder: recorded, begun by its first update, given results.

A run of the command and a run from Python train in the same session. The order of writing: the
manifest and the status (`claim`), the record, after the first update the status without
`untrained`, at the end the results and the last status.
"""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from typing import Any

from torch import Tensor

from andiron.run_folder import RunFolder
from andiron.serialization.safetensors_codec import save_tensors
from andiron.shell.run import applied_changes, provenance, run_record, status
from andiron.shell.run.metadata import Files, Record
from andiron.writers import Writers

Summary = dict[str, Any]
Show = Callable[[Summary], None]
Weights = Mapping[str, Mapping[str, Tensor]]  # by name: `model`, and each average


@contextmanager
def training(
    folder: RunFolder, report: status.Report, writers: Writers, record: Record | None
) -> Iterator[None]:
    """Trains a run whose folder is claimed; call `report.updated` after the first update.

    A new run is recorded before the body, a resumed one after its first update. None: the process
    records nothing.
    Raises: RunFolderError if the record cannot be written.
    """
    if record is not None:
        with status.write_errors_explained(folder):
            if record.updates is None:
                record.write(folder, writers)
            else:
                report.record = partial(_write, folder, record.of_resume(folder))
    with writers.session():
        try:
            yield
        except BaseException:
            report.has_logged = writers.has_written
            raise
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


def _write(folder: RunFolder, contents: Files) -> None:
    with status.write_errors_explained(folder):
        run_record.write(folder, contents)
