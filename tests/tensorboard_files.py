"""Event files of TensorBoard as tests write and read them."""

from tensorboard.backend.event_processing import event_accumulator
from tensorboard.backend.event_processing.event_file_loader import RawEventFileLoader
from tensorboard.compat.proto.event_pb2 import Event

from andiron.protocols import Point
from andiron.writers import TensorBoardWriter

FILES = "events.out.tfevents.*"


def log_points(writer, first, last, *, every=3, factor=1.0):
    """A point of training at every update in between, of validation after every few."""
    for updates in range(first, last + 1):
        writer.write(Point("train", updates, 1, {"loss": factor * updates / 8}))
        if updates % every == 0:
            writer.write(Point("valid", updates, 1, {"loss": factor * updates}, whole_epoch=True))


def loss(folder):
    """Steps and losses, as a fresh TensorBoard reads them."""
    read = event_accumulator.EventAccumulator(str(folder), size_guidance={"scalars": 0}).Reload()
    return [(event.step, event.value) for event in read.Scalars("loss")]


def events(file):
    return [Event.FromString(record) for record in RawEventFileLoader(str(file)).Load()]


def all_steps(folder):
    """Every step that was measured and is in the files still, in the order of reading."""
    return [
        event.step
        for path in sorted(folder.glob(FILES))
        for event in events(path)
        if event.summary.value
    ]


def resumed(folder, position, updates, last):
    writer = TensorBoardWriter(folder)
    writer.rewind(position, updates)
    log_points(writer, updates + 1, last, factor=2.0)
    return writer
