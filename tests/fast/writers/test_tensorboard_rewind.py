"""A resumed run in TensorBoard's files: every step once, whatever the run before had written
beyond.
"""

import json
import os
import shutil
import struct
import time

import pytest
from tensorboard.backend.event_processing import event_accumulator, plugin_event_accumulator
from tensorboard.compat.proto.event_pb2 import SessionLog
from tensorboard.plugins.hparams import api_pb2, metadata
from tensorboard.util import tensor_util
from tensorboard_files import FILES, all_steps, events, log_points, loss, resumed

from andiron.disk import guarded_folders
from andiron.protocols import Point
from andiron.writers import TensorBoardWriter
from andiron.writers.shipped import event_file

SHOWN = ["", "hparams", "train", "valid"]  # a folder each, below that of the run


@pytest.fixture(autouse=True)
def _of_a_run(tmp_path):
    """The files that a run writes there are on its list."""
    with guarded_folders.guarded(tmp_path):
        yield


def event_files(folder):
    return {path.relative_to(folder).as_posix(): path for path in folder.rglob(FILES)}


def stopped(folder, at, last, **options):
    """The position at an update of a run that went on to a later one, as a checkpoint would keep
    it.
    """
    writer = TensorBoardWriter(folder)
    writer.start_session({"lr": 0.5}, {"config": "page"})
    log_points(writer, 1, at, **options)
    position = json.loads(json.dumps(writer.position()))
    log_points(writer, at + 1, last, **options)
    writer.end_session(succeeded=False)
    writer.close()
    return position


def test_going_back_and_on_has_every_step_once(tmp_path):
    position = stopped(tmp_path, 7, 13)
    resumed(tmp_path, position, 7, 20).close()
    assert all_steps(tmp_path / "train") == list(range(1, 21))
    assert all_steps(tmp_path / "valid") == [3, 6, 9, 12, 15, 18]
    assert all_steps(tmp_path / "hparams") == [0, 3, 6, 9, 12, 15, 18]  # 0: the session's start
    assert all_steps(tmp_path) == [0]  # a page
    assert loss(tmp_path / "train") == [(n, n / 8) for n in range(1, 8)] + [
        (n, n / 4) for n in range(8, 21)
    ]
    assert loss(tmp_path / "valid") == [(3, 3), (6, 6), (9, 18), (12, 24), (15, 30), (18, 36)]


def test_going_back_behind_an_earlier_resume_has_every_step_once(tmp_path):
    first = stopped(tmp_path, 7, 13)
    writer = resumed(tmp_path, first, 7, 9)
    second = json.loads(json.dumps(writer.position()))
    log_points(writer, 10, 16, factor=2.0)
    writer.close()
    for position, updates in ((second, 9), (second, 9), (first, 7), (first, 7)):
        resumed(tmp_path, position, updates, 20).close()
        assert all_steps(tmp_path / "train") == list(range(1, 21))
        assert all_steps(tmp_path / "valid") == [3, 6, 9, 12, 15, 18]


def test_a_position_has_the_files_of_earlier_processes(tmp_path):
    position = stopped(tmp_path, 7, 13)
    assert sorted({name.rpartition("/")[0] for name in position["files"]}) == SHOWN
    writer = resumed(tmp_path, position, 7, 9)
    assert writer.position()["files"] == {
        name: path.stat().st_size for name, path in event_files(tmp_path).items()
    }
    assert position["files"].items() <= writer.position()["files"].items()
    assert len(writer.position()["files"]) == 8
    writer.close()


def test_later_files_are_removed_except_the_last_of_a_folder(tmp_path):
    nothing = {"files": {}, "charts": True}  # the second is of earlier versions
    log_points(writer := TensorBoardWriter(tmp_path), 1, 3)
    writer.close()
    log_points(writer := TensorBoardWriter(tmp_path), 4, 6)
    writer.close()
    names = ["train/notes.txt", "deep/er/events.out.tfevents.1.x", "events.out.tfevents.9.x",
             "mine/events.out.tfevents.1.x", "train/events.out.tfevents.1.x"]  # fmt: skip
    others = [tmp_path / name for name in names]
    for other in others:
        other.parent.mkdir(parents=True, exist_ok=True)
        other.write_text("somebody's")
    writer = TensorBoardWriter(tmp_path)
    (own,) = [path for path in tmp_path.glob(FILES) if path.stat().st_mtime_ns == max(
        result.stat().st_mtime_ns for result in tmp_path.glob(FILES))]  # fmt: skip
    writer.rewind(nothing, 0)
    writer.close()
    for folder in (tmp_path, tmp_path / "train", tmp_path / "valid"):
        (left,) = [path for path in folder.glob(FILES) if path != own and path not in others]
        assert left.stat().st_size == 0
    assert [event.step for event in events(own)] == [0, 1, 1]
    assert [other.read_text() for other in others] == ["somebody's"] * 5


def test_every_file_opened_afterwards_begins_with_the_start_of_a_session(tmp_path):
    position = stopped(tmp_path, 7, 13)
    before = set(event_files(tmp_path))
    resumed(tmp_path, position, 7, 9).close()
    opened = set(event_files(tmp_path)) - before
    assert sorted({name.rpartition("/")[0] for name in opened}) == SHOWN
    for name in opened:
        version, *starts = events(tmp_path / name)[:3]
        assert version.file_version == "brain.Event:2"
        assert [(event.session_log.status, event.step) for event in starts] == [
            (SessionLog.START, 8)
        ] * 2


@pytest.mark.parametrize(
    "module", [event_accumulator, plugin_event_accumulator], ids=lambda module: module.__name__
)
def test_what_was_read_before_is_forgotten(tmp_path, module):
    position = stopped(tmp_path, 7, 13)
    sizes = {"tensors": 0, "scalars": 0}
    read = {
        split: module.EventAccumulator(str(tmp_path / split), size_guidance=sizes).Reload()
        for split in ("train", "valid")
    }
    resumed(tmp_path, position, 7, 20).close()
    for split, steps in {"train": list(range(1, 21)), "valid": [3, 6, 9, 12, 15, 18]}.items():
        result = read[split].Reload()
        shown = result.Scalars("loss") if module is event_accumulator else result.Tensors("loss")
        assert [event.step for event in shown] == steps


def test_a_step_that_is_not_logged_again_is_forgotten_too(tmp_path):
    position = stopped(tmp_path, 7, 13)
    read = plugin_event_accumulator.EventAccumulator(str(tmp_path / "valid")).Reload()
    writer = TensorBoardWriter(tmp_path)
    writer.rewind(position, 7)
    writer.write(Point("valid", 14, 1, {"loss": 1.0}, whole_epoch=True))
    writer.close()
    assert [event.step for event in read.Reload().Tensors("loss")] == [3, 6, 14]


def test_a_resumed_run_has_one_session_with_the_final_status(tmp_path):
    position = stopped(tmp_path, 7, 13)
    writer = resumed(tmp_path, position, 7, 20)
    writer.end_session(succeeded=True)
    writer.close()
    values = [
        value for folder in (tmp_path, tmp_path / "hparams") for path in sorted(
            folder.glob(FILES)
        ) for event in events(path) for value in event.summary.value if value.tag != "valid/loss"
    ]  # fmt: skip
    page, start, end = (value.tag for value in values)
    starts, ends = metadata.SESSION_START_INFO_TAG, metadata.SESSION_END_INFO_TAG
    assert (page, start, end) == ("config/text_summary", starts, ends)
    end = metadata.parse_session_end_info_plugin_data(values[-1].metadata.plugin_data.content)
    assert end.status == api_pb2.STATUS_SUCCESS
    assert tensor_util.make_ndarray(values[0].tensor).item() == b"page"


def test_a_writer_that_is_not_sent_back_disturbs_nothing(tmp_path):
    stopped(tmp_path, 7, 13)
    before = {name: path.read_bytes() for name, path in event_files(tmp_path).items()}
    log_points(writer := TensorBoardWriter(tmp_path), 14, 20)
    writer.close()
    after = {name: path.read_bytes() for name, path in event_files(tmp_path).items()}
    assert before.items() < after.items()
    assert all_steps(tmp_path / "train") == list(range(1, 21))


@pytest.mark.parametrize(
    "name", ["events.out.tfevents.{now}.host.9.0", "events.out.tfevents.{later}.host.1.0.more"]
)
def test_a_new_file_comes_last_whatever_the_clock_says(tmp_path, name):
    earlier = name.format(now=int(time.time()), later=int(time.time()) + 5000)
    (tmp_path / "train").mkdir()
    (tmp_path / "train" / earlier).write_bytes(b"")
    log_points(writer := TensorBoardWriter(tmp_path), 1, 1)
    writer.close()
    assert sorted(path.name for path in (tmp_path / "train").iterdir())[0] == earlier
    assert len(list((tmp_path / "train").iterdir())) == 2


def test_the_end_of_the_last_whole_record_is_found_for_every_cut(tmp_path):
    log_points(writer := TensorBoardWriter(tmp_path), 1, 3)
    writer.close()
    (path,) = (tmp_path / "train").glob(FILES)
    content, ends = path.read_bytes(), [0]
    while ends[-1] < len(content):
        ends.append(ends[-1] + 16 + struct.unpack_from("<Q", content, ends[-1])[0])
    assert len(ends) == 5 and ends[-1] == len(content)
    for cut in range(len(content) + 1):
        path.write_bytes(content[:cut])
        expected = max(end for end in ends if end <= cut)
        assert event_file.whole_records(path, cut) == expected
        path.write_bytes(content)
        assert event_file.whole_records(path, cut) == expected
    path.write_bytes(content + bytes(4096))  # as a file system may leave it after a power failure
    assert event_file.whole_records(path, len(content) + 4096) == len(content)


def test_a_half_record_is_cut_off(tmp_path):
    position = stopped(tmp_path, 7, 7)
    (path,) = (tmp_path / "train").glob(FILES)
    whole = path.stat().st_size
    with path.open("ab") as file:
        file.write(struct.pack("<Q", 80) + b"half")
    resumed(tmp_path, position, 7, 9).close()
    assert path.stat().st_size == whole
    assert all_steps(tmp_path / "train") == list(range(1, 10))


def test_bytes_that_are_not_there_any_more_are_warned_of(tmp_path, caplog):
    position = stopped(tmp_path, 7, 13)
    (train,) = (tmp_path / "train").glob(FILES)
    (valid,) = (tmp_path / "valid").glob(FILES)
    lost = position["files"][f"train/{train.name}"]
    valid.write_bytes(valid.read_bytes()[: position["files"][f"valid/{valid.name}"] - 7])
    train.unlink()
    assert all_steps(tmp_path / "valid") == [3]
    resumed(tmp_path, position, 7, 9).close()
    cut = position["files"][f"valid/{valid.name}"] - valid.stat().st_size
    assert 7 < cut < 200
    assert caplog.messages == [f"{tmp_path}: {lost + cut} logged bytes are missing"]
    assert all_steps(tmp_path / "train") == [8, 9]


def test_a_vanished_folder_is_made_again_and_positions_can_still_be_taken(tmp_path, caplog):
    log_points(writer := TensorBoardWriter(tmp_path / "run"), 1, 3)
    shutil.rmtree(tmp_path / "run")
    assert len(writer.position()["files"]) == 4
    log_points(writer, 4, 6)
    writer.close()
    assert loss(tmp_path / "run" / "train") == [(n, n / 8) for n in range(4, 7)]
    (file,) = (tmp_path / "run" / "train").glob(FILES)
    assert events(file)[0].file_version == "brain.Event:2"
    said = [record.getMessage() for record in caplog.records if record.name == "andiron"]
    assert len(said) == 3
    assert all("was removed, with all that was in it" in message for message in said)


def test_a_writer_at_a_place_that_cannot_be_written_is_an_error(tmp_path):
    (tmp_path / "run").write_text("in the way")
    with pytest.raises(OSError) as refused:
        TensorBoardWriter(tmp_path / "run")
    assert refused.value.filename == os.fspath(tmp_path / "run")
