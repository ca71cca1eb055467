"""A run in TensorBoard: what is shown where, and how a resumed run goes on there."""

import logging
import os
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tensorboard.plugins.hparams import api_pb2, metadata, plugin_data_pb2

from andiron.protocols import Point
from andiron.writers import event_file

log = logging.getLogger("andiron")


class TensorBoardWriter:
    """A run in TensorBoard: hyperparameters and texts at the root, what was measured below it, a folder a split.

    The splits use the same tags, which puts their curves on one chart. Hyperparameters are written as the start
    and the end of a session and never as an experiment: TensorBoard takes one run's experiment as the columns for
    all, and the keys of the others vanish. Training values are means over the window since the last log point,
    validation values over the epoch. Test values (`test`, and `test-<average>` of averaged weights) are not shown: the
    HParams tab is where runs are chosen.
    """

    def __init__(self, folder: Path):
        self._folder = folder
        earlier = [*folder.glob(f"{event_file.PREFIX}*"), *folder.glob(f"*/{event_file.PREFIX}*")]
        self._earlier = {path: path.stat().st_size for path in earlier if path.is_file()}
        self._after = event_file.last_second(earlier)
        self._restart: int | None = None
        self._root = event_file.EventFile(folder, after=self._after)
        self._splits: dict[str, event_file.EventFile] = {}

    def write(self, point: Point) -> None:
        """The point's values, unless it is a training epoch's mean, whose windows are here, or from the test set."""
        if point.split.startswith("test") or (point.split == "train" and point.whole_epoch):
            return
        if point.split not in self._splits:
            self._splits[point.split] = event_file.EventFile(
                self._folder / point.split, after=self._after, restart=self._restart, required=False
            )
        file = self._splits[point.split]
        if point.values:
            file.measured(
                {**point.values, "epoch": point.epoch}, point.histograms, updates=point.updates
            )
        for tag, markdown in point.texts.items():
            file.text(tag, markdown, updates=point.updates)
        for tag, pixels in point.images.items():
            file.image(tag, pixels, updates=point.updates)

    def start_session(
        self, hyperparameters: Mapping[str, bool | int | float | str], texts: Mapping[str, str]
    ) -> None:
        """Opens the run's row in the HParams tab and writes its pages in the Text tab."""
        start = plugin_data_pb2.SessionStartInfo(start_time_secs=time.time())
        for name, value in hyperparameters.items():
            if isinstance(value, int | float) and not isinstance(value, bool):
                start.hparams[name].number_value = value
            else:  # a bool as a word: as a number it would be shown as 1.0
                start.hparams[name].string_value = str(value)
        self._root.session(
            metadata.SESSION_START_INFO_TAG,
            plugin_data_pb2.HParamsPluginData(session_start_info=start),
        )
        for tag, markdown in texts.items():
            self._root.text(tag, markdown)

    def end_session(self, *, succeeded: bool) -> None:
        """Closes the run's row in the HParams tab."""
        status = api_pb2.STATUS_SUCCESS if succeeded else api_pb2.STATUS_FAILURE
        end = plugin_data_pb2.SessionEndInfo(status=status, end_time_secs=time.time())
        self._root.session(
            metadata.SESSION_END_INFO_TAG, plugin_data_pb2.HParamsPluginData(session_end_info=end)
        )

    def position(self) -> dict[str, Any]:
        """The size of each of the run's event files, of earlier processes too, by its path below the folder; for `rewind`."""
        sizes = self._earlier | {file.path: file.end for file in self._files()}
        return {
            "files": {
                path.relative_to(self._folder).as_posix(): size for path, size in sizes.items()
            }
        }

    def rewind(self, position: Mapping[str, Any], updates: int) -> None:
        """Cuts what earlier processes wrote to what it was after `updates`, before this one writes anything.

        Files that were not there then are removed, or emptied if they are the last of their folder. A server that has read
        more forgets it. An empty position cuts nothing but half records: TensorBoard then hides later steps by itself.
        """
        sizes = position.get("files")
        last = {path.parent: path for path in sorted(self._earlier)}
        earlier, self._earlier = self._earlier, {}
        for path, size in earlier.items():
            name = path.relative_to(self._folder).as_posix()
            if sizes is not None and name not in sizes and path != last[path.parent]:
                path.unlink()
                continue
            # the last is where a server stands; one without the fast loader never goes on from a file that is gone
            kept = size if sizes is None else min(size, sizes.get(name, 0))
            self._earlier[path] = event_file.whole_records(path, kept)
            os.truncate(path, self._earlier[path])
        missing = sum(
            max(0, size - self._earlier.get(self._folder / name, 0))
            for name, size in (sizes or {}).items()
        )
        if missing:
            log.warning("%s: %d bytes that were logged are not there", self._folder, missing)
        self._restart = updates + 1
        for file in self._files():
            file.restart(self._restart)

    def close(self) -> None:
        """Closes every file."""
        for file in self._files():
            file.close()

    def _files(self) -> list[event_file.EventFile]:
        return [self._root, *self._splits.values()]
