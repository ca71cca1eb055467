"""The record of a run in its folder, written at its start, at each resume and at its end.

A run of the command and a run from Python train in the same session. The order of writing: the
manifest and the status (`claim`), the record, after the first update the status without
`untrained`, at the end the results and the last status.
"""

import json
import logging
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from andiron.data import Splits
from andiron.data.splitting import described
from andiron.data.splitting.described import Described
from andiron.disk import files
from andiron.plain import readable
from andiron.plain.markdown import fenced
from andiron.plain.plain_values import Named
from andiron.protocols import Sessions
from andiron.run_folder import RunFolder
from andiron.serialization.safetensors_codec import save_tensors
from andiron.shell.config import schema
from andiron.shell.config.leaves import Changes, by_dotted_name
from andiron.shell.run import provenance, resume_policy, run_record, status
from andiron.shell.run.code_origin import Gathered, Gathering, Patches
from andiron.writers import Writers

DECISIVE = re.compile(  # parts of the code and the machine that can change results
    r"(git|projects\..+)\.(revision|uncommitted)|modules\..+|packages\..+|python"
    r"|hardware\.(threads|device|device_name|cuda)"
)
MOST_NAMED = 20  # changes in a warning; `rerun` and `runs diff` list all
Hyperparameter = bool | int | float | str
Files = Mapping[Path, bytes]
Summary = dict[str, Any]
Show = Callable[[Summary], None]
Weights = Mapping[str, Mapping[str, Tensor]]  # by name: `model`, and each average
log = logging.getLogger("andiron")


@dataclass(frozen=True)
class Record:
    """The facts of a run for its record; `plain` are its options, as in config.json.

    `others` are files that are written with it. A run that resumes after `updates` has `changes`.
    """

    plain: Named
    splits: Splits | Described
    device: torch.device
    groups: Named
    processes: int
    code: Gathering | None = None  # if it is gathered beside
    started: Named = field(default_factory=dict)  # the weights of `start_from`
    others: Files = field(default_factory=dict)
    updates: int | None = None
    changes: Changes = field(default_factory=dict)

    def origin(self) -> Gathered:
        """The content of provenance.json as of now, and patches by file name; waits for git."""
        code, patches = (self.code or Gathering())()
        facts = self.plain["seed"], self.splits, self.device, self.processes
        return provenance.of_run(code, *facts) | dict(self.started), patches

    def write(self, folder: RunFolder, session: Sessions) -> None:
        """Writes provenance, data facts and parameter owners, as files and to `session`."""
        origin, patches = self.origin()
        contents = {
            folder.config: self.plain,
            folder.provenance: origin,
            folder.data: described.as_plain(self.splits),
            folder.param_groups: self.groups,
        }
        pages = {path.stem: contents[path] for path in contents if path != folder.data}
        texts = {name: fenced(json.dumps(page, indent=2), "json") for name, page in pages.items()}
        files_of = self._files(folder, contents, patches)
        if folder.config.exists():  # a command has written it with its claim
            del files_of[folder.config]
        run_record.write(folder, files_of)
        session.start_session(hyperparameters(self.plain), texts)

    def of_resume(self, folder: RunFolder) -> Files:
        """The files of the run with this resume: its changes, command, code and machine.

        Write them after the next update: until then the options have applied to nothing.
        """
        before = provenance.read(folder)
        resumes = before["resumes"]
        origin, patches = self.origin()
        others = {
            name: value
            for name, value in origin.items()
            if name != "seed" and value != before.get(name)
        }
        at = datetime.now(UTC).isoformat(timespec="seconds")
        entry = {"updates": self.updates, "at": at, "changes": dict(self.changes), **others}
        self._warn_of_differences(origin, {**before, **(resumes[-1] if resumes else {})})
        contents = {
            folder.config: self.plain,
            folder.provenance: {**before, "resumes": [*resumes, entry]},
            **({folder.param_groups: self.groups} if self.changes else {}),
        }
        return self._files(folder, contents, patches)

    def _files(
        self, folder: RunFolder, contents: Mapping[Path, object], patches: Patches
    ) -> dict[Path, bytes]:
        as_json = {path: files.as_indented_json(content) for path, content in contents.items()}
        named = {folder.path / name: patch for name, patch in patches.items()}
        return {**self.others, **as_json, **named}

    def _warn_of_differences(self, origin: Named, last: Named) -> None:
        """Warns of processes, code, versions and machine other than in the `last` session."""
        earlier = last.get("processes", self.processes)
        if earlier != self.processes and self.plain.get("slices") is None:
            log.warning(
                "%d processes trained this run so far, and %d do now: random draws, such as "
                "dropout masks, change with the number; with slices=8 they would not",
                earlier,
                self.processes,
            )
        changed = [
            f"{name.partition('.')[2] or name} {was} -> {is_now}"
            for name, (was, is_now) in provenance.differences(last, origin).items()
            if DECISIVE.fullmatch(name)
        ]
        if changed:
            log.warning(
                "the environment changed since this run last started; "
                "bit-identical results are not guaranteed: %s",
                readable.joined(changed, MOST_NAMED),
            )


def hyperparameters(plain: Named) -> dict[str, Hyperparameter]:
    """The flat hyperparameters of a run: numbers, and each node's class and arguments.

    A node's class has the name of the node. A schedule's copies of `lr` are left out.
    """
    return {
        name: value if isinstance(value, Hyperparameter) else json.dumps(value)
        for name, value in by_dotted_name(schema.hyperparameters(plain)).items()
        if value is not None and value != {} and value == value  # NaN differs from itself
    }


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
                write = status.write_errors_explained(folder)(run_record.write)
                report.record = partial(write, folder, record.of_resume(folder))
    with writers.session():
        yield
        report()


def write_results(folder: RunFolder, summary: Summary, show: Show, weights: Weights) -> None:
    """Writes summary.json, with the folder and the options that changed; then the weights.

    Raises: RunFolderError if a file cannot be written.
    """
    content = {"run_dir": str(folder.path), **summary}
    resumes = provenance.read(folder)["resumes"] if folder.provenance.exists() else []
    if changes := resume_policy.texts(resumes):
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
