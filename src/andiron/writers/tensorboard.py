"""TensorBoard event files, written record by record from the calling thread."""

import io
import itertools
import os
import socket
import time
from collections.abc import Mapping
from pathlib import Path

import torch
from tensorboard.compat.proto.event_pb2 import Event
from tensorboard.compat.proto.summary_pb2 import HistogramProto, Summary, SummaryMetadata
from tensorboard.compat.proto.tensor_pb2 import TensorProto
from tensorboard.compat.proto.tensor_shape_pb2 import TensorShapeProto
from tensorboard.compat.proto.types_pb2 import DT_STRING
from tensorboard.plugins.hparams import api_pb2, metadata, plugin_data_pb2
from tensorboard.summary.writer.record_writer import RecordWriter
from torch import Tensor

from andiron.protocols import Point

PluginData = SummaryMetadata.PluginData
_serial = itertools.count()  # two files of one process in one folder and second must not share a name
BUCKETS = 64


class EventFile:
    """One event file in `folder`: each record is written and flushed before the call returns.

    There is no queue and no thread, so a killed process has lost nothing, and a log point costs one write.
    """

    def __init__(self, folder: Path):
        folder.mkdir(parents=True, exist_ok=True)
        name = f"events.out.tfevents.{int(time.time())}.{socket.gethostname()}.{os.getpid()}.{next(_serial)}"
        self._records = RecordWriter((folder / name).open("wb"))
        self._write(Event(file_version="brain.Event:2"))

    def measured(self, scalars: Mapping[str, float], histograms: Mapping[str, Tensor], *, updates: int) -> None:
        """All of one log point in one event; a tensor without any finite value has no histogram there."""
        values = [Summary.Value(tag=tag, simple_value=value) for tag, value in scalars.items()]
        for tag, tensor in histograms.items():
            histo = histogram(tensor)
            if histo is not None:
                values.append(Summary.Value(tag=tag, histo=histo))
        self._write(Event(step=updates, summary=Summary(value=values)))

    def text(self, tag: str, markdown: str, *, updates: int = 0) -> None:
        """A page of the Text tab."""
        tensor = TensorProto(
            dtype=DT_STRING, string_val=[markdown.encode()], tensor_shape=TensorShapeProto(dim=[TensorShapeProto.Dim(size=1)])
        )
        described = SummaryMetadata(plugin_data=PluginData(plugin_name="text"))
        value = Summary.Value(tag=f"{tag}/text_summary", metadata=described, tensor=tensor)
        self._write(Event(step=updates, summary=Summary(value=[value])))

    def image(self, tag: str, pixels: Tensor, *, updates: int) -> None:
        """A picture of the Images tab, uint8 [channels, height, width] with one channel or three."""
        from PIL import Image  # tensorboard brings it; only who has images to show waits for it

        channels, height, width = pixels.shape
        array = pixels.permute(1, 2, 0).cpu().numpy()
        buffer = io.BytesIO()
        Image.fromarray(array[:, :, 0] if channels == 1 else array).save(buffer, format="PNG")
        image = Summary.Image(height=height, width=width, colorspace=channels, encoded_image_string=buffer.getvalue())
        self._write(Event(step=updates, summary=Summary(value=[Summary.Value(tag=tag, image=image)])))

    def session(self, tag: str, data: plugin_data_pb2.HParamsPluginData) -> None:
        """A message to the HParams tab."""
        described = metadata.create_summary_metadata(data)
        value = Summary.Value(tag=tag, metadata=described, tensor=metadata.NULL_TENSOR)
        self._write(Event(summary=Summary(value=[value])))

    def close(self) -> None:
        """Closes the file."""
        self._records.close()

    def _write(self, event: Event) -> None:
        event.wall_time = time.time()
        self._records.write(event.SerializeToString())
        self._records.flush()


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
        self._root = EventFile(folder)
        self._splits: dict[str, EventFile] = {}

    def write(self, point: Point) -> None:
        """The point's values, unless it is a training epoch's mean, whose windows are here, or from the test set."""
        if point.split.startswith("test") or (point.split == "train" and point.whole_epoch):
            return
        if point.split not in self._splits:
            self._splits[point.split] = EventFile(self._folder / point.split)
        file = self._splits[point.split]
        if point.values:
            file.measured({**point.values, "epoch": point.epoch}, point.histograms, updates=point.updates)
        for tag, markdown in point.texts.items():
            file.text(tag, markdown, updates=point.updates)
        for tag, pixels in point.images.items():
            file.image(tag, pixels, updates=point.updates)

    def start_session(self, hyperparameters: Mapping[str, bool | int | float | str], texts: Mapping[str, str]) -> None:
        """Opens the run's row in the HParams tab and writes its pages in the Text tab."""
        start = plugin_data_pb2.SessionStartInfo(start_time_secs=time.time())
        for name, value in hyperparameters.items():
            if isinstance(value, int | float) and not isinstance(value, bool):
                start.hparams[name].number_value = value
            else:  # a bool as a word: as a number it would be shown as 1.0
                start.hparams[name].string_value = str(value)
        self._root.session(metadata.SESSION_START_INFO_TAG, plugin_data_pb2.HParamsPluginData(session_start_info=start))
        for tag, markdown in texts.items():
            self._root.text(tag, markdown)

    def end_session(self, *, succeeded: bool) -> None:
        """Closes the run's row in the HParams tab."""
        status = api_pb2.STATUS_SUCCESS if succeeded else api_pb2.STATUS_FAILURE
        end = plugin_data_pb2.SessionEndInfo(status=status, end_time_secs=time.time())
        self._root.session(metadata.SESSION_END_INFO_TAG, plugin_data_pb2.HParamsPluginData(session_end_info=end))

    def close(self) -> None:
        """Closes every file."""
        for file in (self._root, *self._splits.values()):
            file.close()


def histogram(tensor: Tensor) -> HistogramProto | None:
    """The finite values in buckets of equal width from the smallest to the largest; None if there are none.

    A bucket has its left edge and not its right one, the last has both. Values that are all equal are in one of no width.
    """
    tensor = tensor.detach()
    is_finite = tensor.isfinite()
    finite = tensor.flatten() if is_finite.all() else tensor[is_finite]
    if not finite.numel():
        return None
    values = (finite.cpu() if finite.device.type == "mps" else finite).double()  # mps has no float64
    low, high, total, squares = torch.stack([values.min(), values.max(), values.sum(), values.square().sum()]).tolist()
    statistics = {"min": low, "max": high, "num": values.numel(), "sum": total, "sum_squares": squares}
    if low == high:  # torch would widen the range to 2
        return HistogramProto(bucket_limit=[high], bucket=[values.numel()], **statistics)
    limits = torch.linspace(low, high, BUCKETS + 1, dtype=values.dtype)[1:]
    counts = torch.histc(values, BUCKETS, min=low, max=high)
    return HistogramProto(bucket_limit=limits.tolist(), bucket=counts.tolist(), **statistics)
