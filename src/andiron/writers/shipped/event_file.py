"""TensorBoard event files: opens them for appending, and builds their records.

The records are TensorBoard's. Its `EventFileWriter` is not used: it queues records for a thread
and loses the queue when the process is killed. Its other writing code would import clients of
object stores, 0.15 s before the first update: only its messages are imported.
"""

import functools
import itertools
import os
import re
import socket
import struct
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import BinaryIO

import torch
from tensorboard.compat.proto.attr_value_pb2 import AttrValue
from tensorboard.compat.proto.event_pb2 import Event, SessionLog
from tensorboard.compat.proto.graph_pb2 import GraphDef
from tensorboard.compat.proto.node_def_pb2 import NodeDef
from tensorboard.compat.proto.summary_pb2 import HistogramProto, Summary, SummaryMetadata
from tensorboard.compat.proto.tensor_pb2 import TensorProto
from tensorboard.compat.proto.tensor_shape_pb2 import TensorShapeProto
from tensorboard.compat.proto.types_pb2 import DT_FLOAT, DT_STRING
from tensorboard.compat.proto.versions_pb2 import VersionDef
from tensorboard.plugins.hparams.plugin_data_pb2 import HParamsPluginData
from tensorboard.plugins.pr_curve import metadata as pr_curve
from torch import Tensor

from andiron.disk import files, png
from andiron.disk.append_only import AppendOnlyFile
from andiron.protocols import Decisions, Operation

PREFIX = "events.out.tfevents."
BUCKETS = 64  # of a histogram
GRAPH_VERSION = 22  # of TensorFlow's GraphDef, as torch.utils.tensorboard writes it
CASTAGNOLI = 0x82F63B78  # the polynomial of CRC-32C, its bits reversed
_serial = itertools.count()  # distinguishes files of one process, folder and second


def opened(
    folder: Path, *, after: int = 0, restart: int | None = None, required: bool = True
) -> AppendOnlyFile:
    """A new event file in `folder`; each record has left the process when `append` returns.

    There is no queue and no thread: a killed process loses nothing, and a log point costs one
    write. The file's name sorts after names up to the second `after`, because a server reads the
    files of a folder in order of their names and never returns to an earlier one. `restart` is
    passed to `restarted`. If the file is not `required`, records wait in memory
    while the disk fails.
    """
    if required:
        folder.mkdir(parents=True, exist_ok=True)
    second = max(int(time.time()), after + 1)
    name = f"{PREFIX}{second}.{socket.gethostname()}.{os.getpid()}.{next(_serial)}"
    header = _record(file_version="brain.Event:2")
    if restart is not None:
        header += restarted(restart)
    return AppendOnlyFile(folder / name, header=header, required=required)


def restarted(step: int) -> bytes:
    """Makes a server with `--load_fast=false` forget this step and later ones, of all files.

    Two starts of a session: that server ignores the first of a folder and never the second. The
    default one ignores both: what it has read stays until the tag has a value at that step again.
    """
    return 2 * _record(step=step, session_log=SessionLog(status=SessionLog.START))


def values(scalars: Mapping[str, float], tensors: Mapping[str, Tensor], updates: int) -> bytes:
    """A log point as one event; tensors without finite values have no histogram."""
    summaries = [Summary.Value(tag=tag, simple_value=value) for tag, value in scalars.items()]
    histograms = ((tag, histogram(tensor)) for tag, tensor in tensors.items())
    summaries += [Summary.Value(tag=tag, histo=histo) for tag, histo in histograms if histo]
    return _record(step=updates, summary=Summary(value=summaries))


def text(tag: str, markdown: str, updates: int = 0) -> bytes:
    """A page of the Text tab."""
    metadata = SummaryMetadata(plugin_data={"plugin_name": "text"})
    content = [markdown.encode()]
    tensor = TensorProto(dtype=DT_STRING, tensor_shape=_shape([1]), string_val=content)
    return _summary(updates, tag=f"{tag}/text_summary", metadata=metadata, tensor=tensor)


def image(tag: str, pixels: Tensor, updates: int) -> bytes:
    """An image of the Images tab: uint8 [channels, height, width], 1 or 3 channels."""
    channels, height, width = pixels.shape
    encoded = Summary.Image(
        height=height, width=width, colorspace=channels, encoded_image_string=png.of_pixels(pixels)
    )
    return _summary(updates, tag=tag, image=encoded)


def precision_recall(tag: str, decisions: Decisions, updates: int) -> bytes:
    """A curve of the PR Curves tab; the precision is 0 where no sample is positive."""
    counts = decisions.counts
    tp, fp, _, fn = counts
    ratios = torch.stack([tp / (tp + fp).clamp(min=1), tp / (tp + fn).clamp(min=1)])
    summary_metadata = pr_curve.create_summary_metadata(tag, "", num_thresholds=counts.shape[1])
    curve = torch.cat([counts, ratios]).float()
    content = curve.numpy().tobytes()
    tensor = TensorProto(dtype=DT_FLOAT, tensor_shape=_shape(curve.shape), tensor_content=content)
    return _summary(updates, tag=tag, metadata=summary_metadata, tensor=tensor)


def session(name: str, info: object) -> bytes:
    """`session_start_info` or `session_end_info`, for the HParams tab."""
    content = HParamsPluginData(**{name: info}).SerializeToString()
    summary_metadata = SummaryMetadata(plugin_data={"plugin_name": "hparams", "content": content})
    tensor = TensorProto(dtype=DT_FLOAT, tensor_shape=_shape([0]))
    return _summary(tag=f"_hparams_/{name}", metadata=summary_metadata, tensor=tensor)


def graph(operations: Sequence[Operation]) -> bytes:
    """The graph of the Graphs tab; modules are boxes, edges have shapes."""
    nodes = [
        NodeDef(name=node.name, op=node.kind, input=node.inputs, attr=_attributes(node))
        for node in operations
    ]
    definition = GraphDef(node=nodes, versions=VersionDef(producer=GRAPH_VERSION))
    return _record(graph_def=definition.SerializeToString())


def _attributes(operation: Operation) -> dict[str, AttrValue]:
    shapes = AttrValue.ListValue(shape=map(_shape, operation.shapes))
    attributes = {"_output_shapes": AttrValue(list=shapes)}
    if operation.weights:
        attributes["weights"] = AttrValue(s=operation.weights.encode())
    return attributes


def _shape(sizes: Iterable[int]) -> TensorShapeProto:
    return TensorShapeProto(dim=[TensorShapeProto.Dim(size=size) for size in sizes])


def last_second(paths: Iterable[Path]) -> int:
    """The latest second in the names of event files; 0 if there are none."""
    matches = (re.match(rf"{re.escape(PREFIX)}(\d+)", path.name) for path in paths)
    return max((int(match[1]) for match in matches if match), default=0)


def whole_records(path: Path, size: int) -> int:
    """The end of the last whole record among the first `size` bytes of an event file."""
    end = 0
    with files.opened(path) as file:
        for length in record_sizes(file):
            if end + length > size:
                break
            end += length
    return end


def record_sizes(file: BinaryIO) -> Iterator[int]:
    """The size of each record from its header, in bytes; the last may be incomplete.

    A record: length (8 bytes), checksum of the length (4), content, checksum of the content (4).
    """
    end = 0
    while len(head := file.read(12)) == 12:
        if head != _with_checksum(head[:8]):
            return
        length, = struct.unpack_from("<Q", head)
        yield 16 + length
        end += 16 + length
        file.seek(end)


def histogram(tensor: Tensor) -> HistogramProto | None:
    """Finite values in buckets of equal width from smallest to largest; None without finite values.

    A bucket includes its left edge but not its right one; the last includes both. Equal values
    make one bucket of width 0.
    """
    values = tensor.detach()
    values = values[values.isfinite()]
    if not values.numel():
        return None
    values = (values.cpu() if values.device.type == "mps" else values).double()  # mps: no float64
    low, high, total, squares = torch.stack(
        [values.min(), values.max(), values.sum(), values.square().sum()]
    ).tolist()
    limits, counts = [high], [values.numel()]
    if low != high:  # torch.histc would widen a range of width 0 to 2
        limits = torch.linspace(low, high, BUCKETS + 1, dtype=values.dtype)[1:].tolist()
        counts = torch.histc(values, BUCKETS, min=low, max=high).tolist()
    return HistogramProto(
        min=low,
        max=high,
        num=values.numel(),
        sum=total,
        sum_squares=squares,
        bucket_limit=limits,
        bucket=counts,
    )


def _summary(updates: int = 0, **value: object) -> bytes:
    return _record(step=updates, summary=Summary(value=[Summary.Value(**value)]))


def _record(**event: object) -> bytes:
    content = Event(wall_time=time.time(), **event).SerializeToString()
    return _with_checksum(struct.pack("<Q", len(content))) + _with_checksum(content)


def _with_checksum(content: bytes) -> bytes:
    """The content, then its CRC-32C (RFC 3720, appendix B.4), rotated as TensorFlow masks it."""
    table, crc = _remainders(), 0xFFFFFFFF
    for byte in content:
        crc = table[(crc ^ byte) & 0xFF] ^ crc >> 8
    crc ^= 0xFFFFFFFF
    masked = (crc >> 15 | crc << 17) + 0xA282EAD8
    return content + struct.pack("<I", masked & 0xFFFFFFFF)


@functools.cache
def _remainders() -> list[int]:
    """The remainder of each byte when divided by the polynomial."""
    remainders = [*range(256)]
    for _ in range(8):
        remainders = [rest >> 1 ^ (rest & 1) * CASTAGNOLI for rest in remainders]
    return remainders
