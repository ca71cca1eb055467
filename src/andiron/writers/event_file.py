"""One event file of TensorBoard, written record by record from the calling thread."""

import io
import itertools
import os
import re
import socket
import struct
import time
from collections.abc import Iterable, Mapping
from pathlib import Path

import torch
from tensorboard.compat.proto.event_pb2 import Event, SessionLog
from tensorboard.compat.proto.summary_pb2 import HistogramProto, Summary, SummaryMetadata
from tensorboard.compat.proto.tensor_pb2 import TensorProto
from tensorboard.compat.proto.tensor_shape_pb2 import TensorShapeProto
from tensorboard.compat.proto.types_pb2 import DT_STRING
from tensorboard.compat.tensorflow_stub.pywrap_tensorflow import masked_crc32c
from tensorboard.plugins.hparams import metadata, plugin_data_pb2
from tensorboard.summary.writer.record_writer import RecordWriter
from torch import Tensor

from andiron import append_only

PREFIX = "events.out.tfevents."
PluginData = SummaryMetadata.PluginData
_serial = (
    itertools.count()
)  # two files of one process in one folder and second must not share a name
BUCKETS = 64


class EventFile:
    """A new event file in `folder`: each record has left the process before the call returns.

    There is no queue and no thread, so a killed process has lost nothing, and a log point costs one write. The file's name
    comes after those made in or before the second `after`: a server reads a folder's files in the order of their names and
    never goes back. With `restart`, it forgets what it has read of that step and later ones. Unless the file is `required`,
    an error of the disk makes it wait in memory.
    """

    def __init__(
        self, folder: Path, *, after: int = 0, restart: int | None = None, required: bool = True
    ):
        if required:
            folder.mkdir(parents=True, exist_ok=True)
        second = max(int(time.time()), after + 1)
        name = f"{PREFIX}{second}.{socket.gethostname()}.{os.getpid()}.{next(_serial)}"
        header = _record(Event(file_version="brain.Event:2"))
        if restart is not None:
            header += _restart(restart)
        self._file = append_only.AppendOnlyFile(folder / name, header=header, required=required)

    @property
    def path(self) -> Path:
        """Where the file is."""
        return self._file.path

    @property
    def end(self) -> int:
        """Its size with all that was written."""
        return self._file.end

    def restart(self, step: int) -> None:
        """Makes a server forget what it has read of this step and later ones, in this file and those before it."""
        self._file.append(_restart(step))

    def measured(
        self, scalars: Mapping[str, float], histograms: Mapping[str, Tensor], *, updates: int
    ) -> None:
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
            dtype=DT_STRING,
            string_val=[markdown.encode()],
            tensor_shape=TensorShapeProto(dim=[TensorShapeProto.Dim(size=1)]),
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
        image = Summary.Image(
            height=height, width=width, colorspace=channels, encoded_image_string=buffer.getvalue()
        )
        self._write(
            Event(step=updates, summary=Summary(value=[Summary.Value(tag=tag, image=image)]))
        )

    def session(self, tag: str, data: plugin_data_pb2.HParamsPluginData) -> None:
        """A message to the HParams tab."""
        described = metadata.create_summary_metadata(data)
        value = Summary.Value(tag=tag, metadata=described, tensor=metadata.NULL_TENSOR)
        self._write(Event(summary=Summary(value=[value])))

    def close(self) -> None:
        """Closes the file."""
        self._file.close()

    def _write(self, event: Event) -> None:
        self._file.append(_record(event))


def last_second(paths: Iterable[Path]) -> int:
    """The last second in the names of some event files, 0 if there are none."""
    found = (re.match(rf"{re.escape(PREFIX)}(\d+)", path.name) for path in paths)
    return max((int(match[1]) for match in found if match), default=0)


def whole_records(path: Path, size: int) -> int:
    """Where the last whole record among the first `size` bytes of an event file ends.

    A record is its length in 8 bytes, a checksum of that in 4, its content, and a checksum of that in 4.
    """
    end = 0
    with path.open("rb") as file:
        while len(head := file.read(12)) == 12:
            length, checksum = struct.unpack("<QI", head)
            if checksum != masked_crc32c(head[:8]) or end + 16 + length > size:
                break
            end += 16 + length
            file.seek(end)
    return end


def _record(event: Event) -> bytes:
    event.wall_time = time.time()
    buffer = io.BytesIO()
    RecordWriter(buffer).write(event.SerializeToString())
    return buffer.getvalue()


def _restart(step: int) -> bytes:
    """Twice the start of a session: the first that a server sees in a folder is no restart to it, the second always is."""
    return 2 * _record(Event(step=step, session_log=SessionLog(status=SessionLog.START)))


def histogram(tensor: Tensor) -> HistogramProto | None:
    """The finite values in buckets of equal width from the smallest to the largest; None if there are none.

    A bucket has its left edge and not its right one, the last has both. Values that are all equal are in one of no width.
    """
    tensor = tensor.detach()
    is_finite = tensor.isfinite()
    finite = tensor.flatten() if is_finite.all() else tensor[is_finite]
    if not finite.numel():
        return None
    values = (
        finite.cpu() if finite.device.type == "mps" else finite
    ).double()  # mps has no float64
    low, high, total, squares = torch.stack(
        [values.min(), values.max(), values.sum(), values.square().sum()]
    ).tolist()
    statistics = {
        "min": low,
        "max": high,
        "num": values.numel(),
        "sum": total,
        "sum_squares": squares,
    }
    if low == high:  # torch would widen the range to 2
        return HistogramProto(bucket_limit=[high], bucket=[values.numel()], **statistics)
    limits = torch.linspace(low, high, BUCKETS + 1, dtype=values.dtype)[1:]
    counts = torch.histc(values, BUCKETS, min=low, max=high)
    return HistogramProto(bucket_limit=limits.tolist(), bucket=counts.tolist(), **statistics)
