"""Two runs side by side: a single bit, a line or a step that is not the same is found, and the
earliest first.
"""

import json
import math
import os
import shutil
import struct

import pytest
import safetensors.torch
import torch
from tensorboard.compat.tensorflow_stub.pywrap_tensorflow import masked_crc32c

from andiron import errors
from andiron.protocols import Point
from andiron.run_folder import RunFolder
from andiron_lab.ask import bit_comparison, logged_values
from andiron_lab.ask.bit_comparison import Counts, Difference
from andiron.writers import JsonLinesWriter, TensorBoardWriter
from refusals import message_of

POINTS = [
    Point("train", 3, 1, {"loss": 0.5, "lr/base": 0.125, "time/step": 0.25}),
    Point("train", 3, 1, {"loss": 0.5}, whole_epoch=True),
    Point("valid", 3, 1, {"loss": 0.75, "accuracy": 0.625}, whole_epoch=True),
    Point("train", 6, 2, {"loss": 0.1, "lr/base": 0.125, "system/memory_gib": 1.5}),
    Point("valid", 6, 2, {"loss": -0.0, "accuracy": math.nan}, whole_epoch=True),
    Point("test", 6, 2, {"loss": 1.0}, whole_epoch=True),
]
STATE = {
    "updates": 6, "schedules": [{"lr": 0.125, "best": None}],
    "metric_log": {"seconds": 1.5, "writers": [{"bytes": 700}], "window": []},
    "checkpoints": [{"name": "step-6"}], "observers": {"message": {"sent": 2}},
}  # fmt: skip
SUMMARY = {
    "run_dir": "/somewhere", "updates": 6, "seconds": 1.5,
    "metrics": [{"split": "valid", "best": 0.625}],
    "observers": {"message": {"calls": 2, "seconds": 0.0}},
}  # fmt: skip


def weights():
    return {
        "weight": torch.tensor([[0.5, -1.0, 2.0], [0.0, math.nan, 4.0]]),
        "half": torch.tensor([1.0, 2.0], dtype=torch.bfloat16),
        "count": torch.tensor(3),
        "mask": torch.tensor([True, False]),
        "empty": torch.zeros(0, 3),
    }


def write_tensors(path, tensors):
    path.write_bytes(safetensors.torch.save(tensors))


def change_tensors(path, change):
    tensors = safetensors.torch.load(path.read_bytes())
    change(tensors)
    write_tensors(path, tensors)


def change_json(path, change):
    plain = json.loads(path.read_text())
    change(plain)
    path.write_text(json.dumps(plain))


def log(folder, points):
    for writer in (
        JsonLinesWriter(folder / "metrics.jsonl"),
        TensorBoardWriter(folder / "tensorboard"),
    ):
        for point in points:
            writer.write(point)
        writer.close()


@pytest.fixture
def straight(tmp_path):
    """A finished run, written by hand."""
    folder = tmp_path / "straight"
    for number in (3, 6):
        checkpoint = folder / "checkpoints" / f"step-{number}"
        checkpoint.mkdir(parents=True)
        write_tensors(checkpoint / "model.safetensors", weights())
        write_tensors(
            checkpoint / "optimizer.safetensors", {"momentum": torch.tensor([0.25, 0.5]) * number}
        )
        (checkpoint / "state.json").write_text(json.dumps(STATE | {"updates": number}))
    write_tensors(folder / "model.safetensors", weights())
    write_tensors(folder / "model-ema.safetensors", {"weight": torch.tensor([0.75])})
    (folder / "summary.json").write_text(json.dumps(SUMMARY))
    log(folder, POINTS)
    return folder


@pytest.fixture
def other(straight, tmp_path):
    return shutil.copytree(straight, tmp_path / "other")


def rewrite_lines(folder, change):
    path = folder / "metrics.jsonl"
    lines = path.read_text().splitlines()
    path.write_text("".join(f"{line}\n" for line in change(lines)))


def test_a_run_equals_its_copy_and_every_compared_value_is_counted(straight, other):
    assert bit_comparison.compare(straight, other) == []
    # 5 of the model twice, the optimizer's, the average's; lines less what is the machine's;
    # scalars: those of train's
    # windows and of valid, and the epoch with each; test and whole training epochs are not shown
    counts = Counts(tensors=12, values=10, scalars=12)
    assert bit_comparison.counts(straight) == counts
    assert str(counts) == "12 tensors, 10 logged values, 12 TensorBoard scalars"


@pytest.mark.parametrize("name", ["checkpoints/step-6/model.safetensors", "model.safetensors"])
def test_one_bit_of_one_tensor_is_found_and_where(straight, other, name):
    def flip(tensors):
        tensors["weight"].view(torch.int32)[1, 0] ^= 1

    change_tensors(other / name, flip)

    where = name.replace("checkpoints/step-6/", "newest checkpoint: ")
    what = "weight[3], the first of 1 elements of 6 that differ,"
    difference = Difference(where, what, "0.0 (0x00000000)", "1.401298464324817e-45 (0x00000001)")
    assert bit_comparison.compare(straight, other) == [difference]
    words = f"{where}: {what} is 1.401298464324817e-45 (0x00000001), not 0.0 (0x00000000)"
    assert str(difference) == words


def test_two_nans_of_other_bits_and_two_zeros_of_other_signs_differ(straight, other):
    def change(tensors):
        tensors["weight"].view(torch.int32)[1, 1] = 0x7FC00001
        tensors["weight"][1, 0] = -0.0

    change_tensors(other / "model.safetensors", change)

    (difference,) = bit_comparison.compare(straight, other)
    assert (difference.expected, difference.found) == ("0.0 (0x00000000)", "-0.0 (0x80000000)")
    assert difference.what == "weight[3], the first of 2 elements of 6 that differ,"


@pytest.mark.parametrize(("name", "value", "actual"), [
    ("half", torch.tensor([1.0, 2.0]), ("bfloat16 [2]", "float32 [2]")),
    ("empty", torch.zeros(3, 0), ("float32 [0, 3]", "float32 [3, 0]")),
    ("mask", torch.tensor([1, 0], dtype=torch.uint8), ("bool [2]", "uint8 [2]")),
])  # fmt: skip
def test_tensors_of_equal_values_differ_by_type_and_shape(straight, other, name, value, actual):
    change_tensors(other / "model.safetensors", lambda tensors: tensors.update({name: value}))

    (difference,) = bit_comparison.compare(straight, other)
    assert difference == Difference("model.safetensors", name, *actual)


def test_a_tensor_or_a_file_that_only_one_run_has_is_a_difference(straight, other):
    change_tensors(other / "model.safetensors", lambda tensors: tensors.pop("count"))
    (other / "model-ema.safetensors").rename(other / "model-swa.safetensors")

    assert bit_comparison.compare(straight, other) == [
        Difference("model-ema.safetensors", "the file", "there", "missing"),
        Difference("model.safetensors", "count", "int64 []", "missing"),
        Difference("model-swa.safetensors", "the file", "missing", "there"),
    ]


def replaced(old, new):
    return lambda lines: [line.replace(old, new) for line in lines]


EPOCHS = [f"metrics.jsonl: valid, epoch {number}, of the epoch" for number in (1, 2)]
SIDES = ("valid, epoch 2, of the epoch, update 6", "test, epoch 2, of the epoch, update 6")


@pytest.mark.parametrize(("change", "expected"), [
    (replaced("0.1,", "0.10000000000000002,"),
     [("metrics.jsonl: train, epoch 2, of the window", "loss", "0.1", "0.10000000000000002", 6)]),
    (replaced("-0.0", "0.0"), [(EPOCHS[1], "loss", "-0.0", "0.0", 6)]),  # and nan is nan
    (lambda lines: [*lines[:2], *lines[3:5], lines[4], lines[5]],
     [(EPOCHS[0], "what was logged", "there once", "missing", 3),
      (EPOCHS[1], "what was logged", "there once", "there 2 times", 6)]),
    (lambda lines: [*lines[:4], lines[5], lines[4]],
     [("metrics.jsonl", "the line in this place", *SIDES, 6)]),
    (replaced('"accuracy": 0.625', '"precision": 0.625'),
     [(EPOCHS[0], "accuracy", "0.625", "missing", 3),
      (EPOCHS[0], "precision", "missing", "0.625", 3)]),
])  # fmt: skip
def test_a_difference_of_logged_lines_is_found(straight, other, change, expected):
    rewrite_lines(other, change)
    assert bit_comparison.compare(straight, other) == [Difference(*entry) for entry in expected]


def test_time_and_the_machine_are_left_out_in_lines_and_curves(straight, tmp_path):
    other = shutil.copytree(
        straight, tmp_path / "other", ignore=shutil.ignore_patterns("metrics.jsonl", "tensorboard")
    )
    slower = {"time/step": 99.0, "system/memory_gib": 99.0}
    points = [
        Point(p.split, p.updates, p.epoch, {**p.values, **slower}, p.whole_epoch) for p in POINTS
    ]
    log(other, points)

    assert bit_comparison.compare(straight, other) == []


@pytest.fixture
def logs_again(straight, tmp_path):
    """A copy of the straight run with other points in TensorBoard."""

    def make(points):
        other = shutil.copytree(
            straight, tmp_path / "other", ignore=shutil.ignore_patterns("tensorboard")
        )
        writer = TensorBoardWriter(other / "tensorboard")
        for point in points:
            writer.write(point)
        writer.close()
        return other

    return make


def test_one_scalar_of_tensorboard_is_found(straight, logs_again):
    changed = Point("valid", 3, 1, {"loss": 0.7500001, "accuracy": 0.625}, whole_epoch=True)
    other = logs_again([*POINTS[:2], changed, *POINTS[3:]])

    # as float32 has it
    expected = Difference("tensorboard/valid: loss", "value", "0.75", "0.7500001192092896", 3)
    assert bit_comparison.compare(straight, other) == [expected]


def test_a_step_that_tensorboard_shows_twice_or_not_at_all_is_a_difference(straight, logs_again):
    other = logs_again([*POINTS[:4], POINTS[2]])

    result = {(d.where, d.updates): d.found for d in bit_comparison.compare(straight, other)}
    assert result == {
        ("tensorboard/valid: loss", 3): "there 2 times",
        ("tensorboard/valid: accuracy", 3): "there 2 times",
        ("tensorboard/valid: epoch", 3): "there 2 times", ("tensorboard/valid: loss", 6): "missing",
        ("tensorboard/valid: accuracy", 6): "missing", ("tensorboard/valid: epoch", 6): "missing",
    }  # fmt: skip


def test_a_split_that_only_one_run_shows_is_found(straight, other):
    shutil.copytree(other / "tensorboard" / "valid", other / "tensorboard" / "valid-ema")

    differences = bit_comparison.compare(straight, other)
    assert {difference.where for difference in differences} == {
        f"tensorboard/valid-ema: {tag}" for tag in ("loss", "accuracy", "epoch")
    }
    assert len(differences) == 6 and {difference.expected for difference in differences} == {
        "missing"
    }


def test_the_first_difference_is_the_earliest(straight, logs_again):
    changed = Point("train", 3, 1, {"loss": 0.25, "lr/base": 0.125})
    other = logs_again([changed, *POINTS[1:]])
    rewrite_lines(other, lambda lines: [*lines[:3], lines[3].replace("0.1,", "0.2,"), *lines[4:]])
    change_tensors(other / "model.safetensors", lambda tensors: tensors["count"].add_(1))
    change_json(other / "summary.json", lambda plain: plain.update(updates=7))

    assert [(d.where, d.updates) for d in bit_comparison.compare(straight, other)] == [
        ("tensorboard/train: loss", 3),
        ("metrics.jsonl: train, epoch 2, of the window", 6),
        ("model.safetensors", None),
        ("summary.json", None),
    ]


def test_only_values_that_depend_on_time_or_place_are_not_compared(straight, other):
    state = other / "checkpoints" / "step-6" / "state.json"
    change_json(state, lambda plain: plain.update(checkpoints=[]))
    log = {"seconds": 9.0, "writers": [{"bytes": 1}, None]}
    change_json(state, lambda plain: plain["metric_log"].update(log))
    observers = {"message": {"calls": 1, "seconds": 0.002}}  # of one process
    summary = {"seconds": 9.0, "run_dir": "/elsewhere", "observers": observers}
    change_json(other / "summary.json", lambda plain: plain.update(summary))
    assert bit_comparison.compare(straight, other) == []

    change_json(state, lambda plain: plain["observers"]["message"].update(sent=3))
    change_json(state, lambda plain: plain["schedules"][0].update(best=0.5))
    change_json(state, lambda plain: plain["metric_log"].update(window=[0]))
    change_json(other / "summary.json", lambda plain: plain["metrics"][0].update(best=1))
    assert bit_comparison.compare(straight, other) == [
        Difference("newest checkpoint: state.json", "schedules.0.best", "None", "0.5"),
        Difference("newest checkpoint: state.json", "metric_log.window", "[]", "missing"),
        Difference("newest checkpoint: state.json", "observers.message.sent", "2", "3"),
        Difference("newest checkpoint: state.json", "metric_log.window.0", "missing", "0"),
        Difference("summary.json", "metrics.0.best", "0.625", "1"),
    ]


def test_the_newest_checkpoint_is_the_last_by_number_and_no_damaged_one(straight, other):
    for number in ("10", "10.2", "9.damaged"):
        shutil.copytree(other / "checkpoints" / "step-3", other / "checkpoints" / f"step-{number}")
    change_tensors(
        other / "checkpoints" / "step-10.2" / "optimizer.safetensors",
        lambda tensors: tensors["momentum"].mul_(2),
    )
    change_json(
        other / "checkpoints" / "step-10.2" / "state.json", lambda plain: plain.update(updates=6)
    )

    assert bit_comparison.compare(straight, other) == []


def test_a_run_without_an_end_is_refused_on_either_side(straight, other, tmp_path):
    (other / "model.safetensors").unlink()
    compare, words = bit_comparison.compare, "other: there is no model.safetensors in it; name "
    for pair in ((straight, other), (other, straight)):
        message = message_of(errors.RunFolderError, compare, *pair)
        assert words in message and "that is finished" in message
    message = message_of(errors.RunFolderError, bit_comparison.counts, tmp_path / "nowhere")
    assert "nowhere: there is no such folder" in message


@pytest.mark.parametrize(
    "line",
    ['{"split": "train", "upda', '["train"]', '{"split": "train", "epoch": 1, "over": "epoch"}'],
)
def test_an_invalid_line_is_named(straight, line):
    rewrite_lines(straight, lambda lines: [lines[0], line])

    with pytest.raises(
        errors.DataError, match=r"metrics.jsonl, line 2: damaged \(.*; was it cut off or edited\?"
    ):
        logged_values.lines(RunFolder(straight))


@pytest.mark.parametrize(
    ("name", "make", "words"),
    [
        ("events.out.tfevents.9.pipe", os.mkfifo, "not a file"),
        ("mine.tfevents", os.mkfifo, "not a file"),
        ("events.out.tfevents.9.link", lambda path: path.symlink_to("/dev/zero"), "not a file"),
        ("events.out.tfevents.9.sparse", lambda path: sparse(path), "bytes, more than the"),
        ("events.out.tfevents.9.bomb", lambda path: path.write_bytes(large_record()), "a record"),
    ],
    ids=["a pipe", "a pipe of another name", "a device", "a sparse file", "a large record"],
)
def test_an_event_file_that_no_run_wrote_is_refused(tmp_path, name, make, words):
    folder = RunFolder(tmp_path)
    (folder.tensorboard / "train").mkdir(parents=True)
    make(folder.tensorboard / "train" / name)
    with pytest.raises(errors.DataError, match=f"{name}: cannot be read .*{words}.*; restore it"):
        logged_values.curves(folder)


def sparse(path):
    path.touch()
    os.truncate(path, 10**11)


def large_record():
    """The head of a record of 4 GiB, as TensorBoard's reader would make room for."""
    length = struct.pack("<Q", 2**32)
    return length + struct.pack("<I", masked_crc32c(length)) + b"little"
