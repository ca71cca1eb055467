"""Writes a run for TensorBoard; a resumed run continues its files.

`TensorBoardWriter(run_dir / "tensorboard")` writes one event for each log point; look at it with
`tensorboard --logdir <run_dir>`.
"""

import logging
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Annotated

from pydantic import Field
from tensorboard.plugins.hparams import api_pb2, plugin_data_pb2

from andiron import errors
from andiron.disk import append_only, guarded_folders
from andiron.disk.append_only import AppendOnlyFile
from andiron.plain import wings
from andiron.writers.fanout import AcceptedNames
from andiron.protocols import Embeddings, Hyperparameters, Operation, Pages, Point, Position
from andiron.writers.shipped import event_file
from andiron.writers.shipped.event_file import PREFIX

HPARAMS = "hparams"  # the folder with a run's row of the HParams tab
MOST_EMBEDDED = 10_000  # TensorBoard takes no more for t-SNE, and browsers no larger sprite
log = logging.getLogger("andiron")


class TensorBoardWriter:
    """A run in TensorBoard: texts in `folder`, a folder for each split, and `hparams`.

    The splits use the same tags, so their curves share a chart. Training values are means over the
    window since the last log point, validation values over the epoch. `hparams` has the run's row
    of the HParams tab: the hyperparameters, and every split's values of whole epochs, as
    `valid/loss`. It is a folder of its own, since TensorBoard takes every scalar below a row's
    folder as a metric. Hyperparameters are written as the start and end of a session, never as an
    experiment: TensorBoard would take one run's experiment as the columns of all runs and drop the
    other runs' keys. Test values (`test`, and `test-<average>` of averaged weights) are only there.
    `graph` shows the model's operations in the Graphs tab. `embeddings` is the number of validation
    samples whose embeddings by the trained model are shown in the Projector tab.
    """

    sends_data = False

    def __init__(
        self,
        folder: Path,
        *,
        graph: bool = True,
        embeddings: Annotated[int, Field(ge=1, le=MOST_EMBEDDED)] | None = None,
    ):
        self._folder = folder
        self._tag = AcceptedNames("TensorBoard", r"[\ud800-\udfff]|\Aepoch\Z")  # UTF-8
        self._has_graph = graph
        self._num_embedded = embeddings
        paths = self._event_files()
        self._earlier: dict[str, int] | None = None  # sizes, of the run's other processes
        self._after = event_file.last_second(paths)
        self._restart: int | None = None
        self._root = event_file.opened(folder, after=self._after)
        self._files = {"": self._root}  # by split

    def write(self, point: Point) -> None:
        """Writes the point: values of a whole epoch to the HParams tab, curves to their charts.

        Means of training epochs have no curve, since their windows do; the test set has none.
        """
        split, updates = point.split, point.updates
        if point.whole_epoch and point.values:
            named = {self._tag[f"{split}/{name}"]: value for name, value in point.values.items()}
            self._file(HPARAMS).append(event_file.values(named, {}, updates))
        if split.startswith("test") or (split == "train" and point.whole_epoch):
            return
        file = self._file(split)
        if point.values:
            scalars = {self._tag[tag]: value for tag, value in point.values.items()}
            histograms = {self._tag[tag]: tensor for tag, tensor in point.histograms.items()}
            scalars["epoch"] = point.epoch
            file.append(event_file.values(scalars, histograms, updates))
        for tag, markdown in point.texts.items():
            file.append(event_file.text(self._tag[tag], markdown, updates))
        for tag, pixels in point.images.items():
            file.append(event_file.image(self._tag[tag], pixels, updates))
        for tag, decisions in point.decisions.items():
            file.append(event_file.precision_recall(self._tag[tag], decisions, updates))

    def start_session(self, hyperparameters: Hyperparameters, texts: Pages) -> None:
        """Opens the run's row in the HParams tab and writes its pages in the Text tab."""
        start = plugin_data_pb2.SessionStartInfo(start_time_secs=time.time())
        for name, value in hyperparameters.items():
            if isinstance(value, int | float) and not isinstance(value, bool):
                start.hparams[name].number_value = value
            else:  # bool as text: as a number it would be shown as 1.0
                start.hparams[name].string_value = str(value)
        self._file(HPARAMS).append(event_file.session("session_start_info", start))
        for tag, markdown in texts.items():
            self._root.append(event_file.text(tag, markdown))

    def show_graph(self, traced: Callable[[], Sequence[Operation]]) -> None:
        """Writes the model's graph for the Graphs tab."""
        if self._has_graph:
            self._root.append(event_file.graph(traced()))

    def show_embeddings(self, computed: Callable[[int], Embeddings]) -> None:
        """Writes files for the Projector tab, next to the validation values."""
        if self._num_embedded is not None:
            what = "writers.tensorboard.embeddings"
            lab = wings.required("views.projector", what, errors.ConfigError)
            lab.write(self._folder / "valid", computed(self._num_embedded))

    def end_session(self, *, succeeded: bool) -> None:
        """Closes the run's row in the HParams tab."""
        status = api_pb2.STATUS_SUCCESS if succeeded else api_pb2.STATUS_FAILURE
        end = plugin_data_pb2.SessionEndInfo(status=status, end_time_secs=time.time())
        self._file(HPARAMS).append(event_file.session("session_end_info", end))

    def position(self) -> Position:
        """The size of each event file of the run, by its path below the folder; for `rewind`."""
        opened = {self._name(file.path): file.end for file in self._files.values()}
        if self._earlier is None:
            self._earlier = self._sizes(set())
        return {"files": self._earlier | opened}

    def rewind(self, position: Position, updates: int) -> None:
        """Truncates the files of earlier processes to a position, before this process writes.

        Later files of the run are removed, or emptied if last in their folder; event files of
        others stay as they are. For values that a running server has read: `event_file.restarted`.
        """
        sizes = position["files"]
        earlier, self._earlier = self._sizes(set(sizes)), {}
        last = {Path(name).parent: name for name in sorted(earlier)}.values()
        for name, size in earlier.items():
            path = self._folder / name
            if name not in sizes and name not in last:
                path.unlink()
                continue
            # a server without the fast loader never continues after a deleted last file
            guarded_folders.list_file(path, is_own=True)
            self._earlier[name] = event_file.whole_records(path, min(size, sizes.get(name, 0)))
            append_only.cut(path, self._earlier[name])
        missing = sum(max(0, size - self._earlier.get(name, 0)) for name, size in sizes.items())
        if missing:
            log.warning("%s: %d logged bytes are missing", self._folder, missing)
        self._restart = updates + 1
        for file in self._files.values():
            file.append(event_file.restarted(self._restart))

    def close(self) -> str | None:
        """Closes every file; returns a text about lost values, or None."""
        lost = [file.close() for file in self._files.values()]
        return "; ".join(filter(None, lost)) or None

    def _file(self, split: str) -> AppendOnlyFile:
        """The event file of a split, opened when it is first written."""
        if split not in self._files:
            self._files[split] = event_file.opened(
                self._folder / split, after=self._after, restart=self._restart, required=False
            )
        return self._files[split]

    def _event_files(self) -> list[Path]:
        return [*self._folder.glob(f"{PREFIX}*"), *self._folder.glob(f"*/{PREFIX}*")]

    def _sizes(self, names: set[str]) -> dict[str, int]:
        """The sizes of the event files that earlier processes of the run wrote, `names` included.
        """
        opened = {file.path for file in self._files.values()}
        return {
            name: path.stat().st_size
            for path in self._event_files()
            if (name := self._name(path)) in names or guarded_folders.is_listed(path)
            if path not in opened and path.is_file()
        }

    def _name(self, path: Path) -> str:
        return path.relative_to(self._folder).as_posix()
