"""Checkpoints are whole or absent, copied when saved, pruned as decided, read back as saved."""

import threading
import time

import pytest
import safetensors.torch
import torch
from checkpoints_made import (
    ALL_FILES, FILES, LAST_TWO_AND_BEST, checkpoint, equal, names, rich, save, saved,
)  # fmt: skip
from waiting import until

from andiron import errors
from andiron.checkpoint import (
    Checkpoint, FileCheckpointer, KeepEvery, KeepLast, checkpointer, load, newest_whole,
)  # fmt: skip
from andiron.disk import files
from refusals import message_of


@pytest.fixture(autouse=True)
def every_write_at_once(monkeypatch):
    monkeypatch.setattr(checkpointer, "SECONDS_BETWEEN_WRITES", 0.0)


@pytest.fixture
def rarely(monkeypatch):
    """Only the first write is due during a test."""
    monkeypatch.setattr(checkpointer, "SECONDS_BETWEEN_WRITES", 3600.0)


@pytest.fixture
def written(monkeypatch):
    """The names of all folders that are ever written."""
    names, write_folder = [], files.write_folder

    def write_and_note(path, contents):
        write_folder(path, contents)
        names.append(path.name)

    monkeypatch.setattr(files, "write_folder", write_and_note)
    return names


def listed(folder):
    """Of the checkpoints that a checkpoint says are kept with it: name, updates, loss."""
    kept = load(folder).state["checkpoints"]
    return [
        (value["name"], value["updates"], value["values"].get("valid", {}).get("loss"))
        for value in kept
    ]


def test_a_checkpoint_is_four_files_whose_weights_safetensors_alone_reads(tmp_path):
    folder = tmp_path / "checkpoints"
    assert saved(folder, KeepLast(1), 20).close()
    assert names(folder) == {"step-20"} and names(folder / "step-20") == FILES
    model = safetensors.torch.load_file(folder / "step-20" / "model.safetensors")
    optimizer = safetensors.torch.load_file(folder / "step-20" / "optimizer.safetensors")
    assert set(model) == {"network.weight", "network.steps"}
    assert torch.equal(model["network.weight"], torch.full((3, 2), 20.0))
    assert torch.equal(optimizer["network.weight/exp_avg"], torch.full((3, 2), 2.5))


@pytest.mark.parametrize(("expected", "files"), [
    (rich(7), ALL_FILES), (Checkpoint({"weight": torch.ones(3)}, {}, {"updates": 7}), FILES),
], ids=["all files", "no state of the optimizer"])  # fmt: skip
def test_what_is_loaded_is_what_was_saved(tmp_path, expected, files):
    saver = FileCheckpointer(tmp_path, KeepLast(1))
    saver.save(7, expected, {})
    saver.close()
    assert names(tmp_path / "step-7") == files
    assert equal(load(tmp_path / "step-7"), expected)


def test_what_is_saved_are_the_values_at_that_moment(tmp_path, rarely):
    saver = FileCheckpointer(tmp_path, KeepLast(3))
    for updates in (10, 20, 30):  # one is written at once, the others wait
        trained = rich(updates)
        saver.save(updates, trained, {})
        for tensor in (
            *trained.model.values(), *trained.optimizer.values(), *trained.metrics.values(),
        ):  # fmt: skip
            tensor.zero_()
        trained.averages["ema"]["tied"].zero_()
        trained.state["history"]["valid"]["loss"][1]["best"] = 0.0
        trained.state["epoch"] = 99
    saver.close()
    for updates in (10, 20, 30):
        assert equal(load(tmp_path / f"step-{updates}"), rich(updates))


def test_the_last_two_and_the_best_stay_and_the_others_vanish(tmp_path):
    saver = FileCheckpointer(tmp_path, LAST_TWO_AND_BEST)
    on_disk = []
    for updates, loss in ((10, 0.5), (20, 0.3), (30, 0.9), (40, 0.8), (50, 0.2), (60, 0.4)):
        save(saver, updates, loss=loss)
        assert saver.wait()
        on_disk.append(names(tmp_path))
    saver.close()
    assert on_disk == [
        {"step-10"}, {"step-10", "step-20"}, {"step-20", "step-30"},
        {"step-20", "step-30", "step-40"}, {"step-40", "step-50"}, {"step-50", "step-60"},
    ]  # fmt: skip
    assert all(
        equal(load(tmp_path / f"step-{updates}"), checkpoint(updates)) for updates in (50, 60)
    )


def test_a_checkpoint_tells_which_are_kept_with_it_and_what_they_measured(tmp_path):
    saved(tmp_path, LAST_TWO_AND_BEST, (10, 0.1), (20, 0.3), (25, None), (30, 0.9)).close()
    assert listed(tmp_path / "step-10") == [("step-10", 10, 0.1)]
    assert listed(tmp_path / "step-30") == [
        ("step-10", 10, 0.1), ("step-25", 25, None), ("step-30", 30, 0.9),
    ]  # fmt: skip


def test_further_states_at_the_same_update_have_their_own_names(tmp_path):
    saver = FileCheckpointer(tmp_path, KeepLast(2))
    for epoch, updates in enumerate((10, 10, 10, 12), start=1):
        value = checkpoint(updates)
        saver.save(
            updates,
            Checkpoint(value.model, value.optimizer, {"updates": updates, "epoch": epoch}),
            {},
        )
        saver.wait()
        path, actual = newest_whole(tmp_path)
        assert actual.state["epoch"] == epoch
    saver.close()
    assert names(tmp_path) == {"step-10.3", "step-12"}


def test_the_newest_stays_until_there_is_a_newer_one_whatever_the_strategy(tmp_path):
    saver = FileCheckpointer(
        tmp_path, lambda saved: {one.name for one in saved if one.updates == 10}
    )
    for updates, expected in (10, {10}), (20, {10, 20}), (30, {10, 30}):
        save(saver, updates)
        saver.wait()
        assert names(tmp_path) == {f"step-{value}" for value in expected}
    saver.close()


@pytest.mark.parametrize("kept", [0.1, None, "step-1"])
def test_a_strategy_that_gives_no_names_is_refused(tmp_path, kept):
    saver = FileCheckpointer(tmp_path, lambda saved: kept)
    message = message_of(errors.MismatchError, save, saver, 1)
    assert message.startswith(f"checkpoint: function gives {kept!r}; a strategy gives the names")


def test_between_two_writes_a_second_passes_and_close_writes_what_is_kept(
    tmp_path, rarely, written
):
    saver = FileCheckpointer(tmp_path, LAST_TWO_AND_BEST)
    save(saver, 10, loss=0.5)
    until(lambda: names(tmp_path) == {"step-10"})
    for updates, loss in ((20, 0.4), (30, 0.1), (40, 0.9), (50, 0.8)):
        save(saver, updates, loss=loss)
    assert names(tmp_path) == {"step-10"}
    saver.close()
    assert names(tmp_path) == {"step-30", "step-40", "step-50"}
    # 20 was dropped before it was due
    assert written == ["step-10", "step-30", "step-40", "step-50"]


def test_what_had_to_wait_is_written_without_another_save(tmp_path, monkeypatch):
    monkeypatch.setattr(checkpointer, "SECONDS_BETWEEN_WRITES", 0.2)
    saver = FileCheckpointer(tmp_path, KeepLast(2))
    save(saver, 10)
    until(lambda: names(tmp_path) == {"step-10"})
    save(saver, 20)
    until(lambda: names(tmp_path) == {"step-10", "step-20"})
    saver.close()


def test_the_newest_on_the_disk_stays_while_what_replaces_it_waits(tmp_path, rarely):
    saver = FileCheckpointer(tmp_path, KeepLast(1))
    save(saver, 10)
    until(lambda: names(tmp_path) == {"step-10"})
    save(saver, 20)
    assert [saved.updates for saved in saver.saved] == [20]
    assert newest_whole(tmp_path)[0].name == "step-10"
    saver.close()
    assert names(tmp_path) == {"step-20"}


def test_a_save_waits_for_a_running_write_but_not_for_its_own(tmp_path, monkeypatch):
    write_folder, ended, may_go = files.write_folder, [], threading.Event()

    def held(path, contents):
        assert may_go.wait(60)
        write_folder(path, contents)
        ended.append(path.name)

    monkeypatch.setattr(files, "write_folder", held)
    saver = FileCheckpointer(tmp_path, KeepLast(5))
    save(saver, 10)
    assert ended == []
    time.sleep(0.05)
    threading.Timer(0.2, may_go.set).start()
    save(saver, 20)
    assert "step-10" in ended
    saver.close()
    assert ended == ["step-10", "step-20"]


def test_waiting_writes_what_is_kept_and_saving_continues(tmp_path, rarely):
    saver = FileCheckpointer(tmp_path, KeepLast(1))
    save(saver, 10)
    for updates in (20, 30):
        save(saver, updates)
        assert saver.wait()
        assert names(tmp_path) == {f"step-{updates}"}
    saver.close()


def test_an_old_checkpoint_goes_only_when_the_new_one_is_there(tmp_path, monkeypatch):
    at_removal, remove_folder = [], files.remove_folder

    def removed(path, which):
        at_removal.append(names(tmp_path))
        return remove_folder(path, which)

    monkeypatch.setattr(files, "remove_folder", removed)
    saved(tmp_path, KeepLast(1), 10, 20).close()
    assert at_removal == [{"step-10", "step-20"}]


def test_what_others_put_there_stays(tmp_path):
    saver = saved(tmp_path, KeepLast(1), 1)
    for name in ("step-5", "step-999", "mine"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "precious").write_text("not a run's")
    for updates in (10, 20, 30):
        save(saver, updates)
        saver.wait()
    saver.close()
    assert names(tmp_path) == {"step-5", "step-999", "mine", "step-30"}
    assert all(
        (tmp_path / name / "precious").read_text() == "not a run's"
        for name in ("step-5", "step-999", "mine")
    )


def test_a_folder_with_another_runs_checkpoints_is_refused_and_unchanged(tmp_path):
    assert saved(tmp_path, KeepLast(2), 10).close()
    second = FileCheckpointer(tmp_path, KeepLast(2))
    assert message_of(errors.RunFolderError, save, second, 10) == (
        f"{tmp_path} already holds checkpoints of a run, the newest step-10: resume that run, or "
        "choose another folder"
    )
    assert names(tmp_path) == {"step-10"}
    assert load(tmp_path / "step-10").state["updates"] == 10


def test_what_others_put_into_a_checkpoint_stays_when_it_is_pruned(tmp_path, caplog):
    saver = saved(tmp_path, KeepLast(1), 10)
    (tmp_path / "step-10" / "notes.txt").write_text("not a run's")
    save(saver, 20)
    saver.close()
    assert names(tmp_path) == {"step-10", "step-20"}
    assert names(tmp_path / "step-10") == {"notes.txt"}
    assert f"{tmp_path / 'step-10'}: removed, except for other files: notes.txt" in caplog.text
    assert newest_whole(tmp_path)[0].name == "step-20"


def test_a_checkpoint_whose_manifest_was_changed_is_not_removed(tmp_path, caplog):
    saver = saved(tmp_path, KeepLast(1), 10)
    (tmp_path / "step-10" / "manifest.json").write_text('{"files": {"../../precious": {}}}')
    save(saver, 20)
    saver.close()
    assert names(tmp_path / "step-10") == FILES
    assert "checkpoint step-10 is no longer kept but was not removed" in caplog.text


@pytest.mark.parametrize(("value", "error", "words"), [
    (checkpoint(20), ValueError, "updates=10: the state is that of update 20; pass that"),
    (Checkpoint({}, {}, {"updates": 10}, {"../ema": {}}), ValueError,
     "average '../ema': is part of a file name"),
    (Checkpoint({}, {}, {"updates": 10, "device": torch.device("cpu")}), TypeError,
     "Object of type device is not JSON serializable"),
], ids=["another update", "no name of a file", "not writable"])  # fmt: skip
def test_a_state_that_is_refused_leaves_nothing(tmp_path, value, error, words):
    saver = FileCheckpointer(tmp_path, KeepLast(1))
    assert words in message_of(error, saver.save, 10, value, {})
    assert saver.close() and names(tmp_path) == set() and saver.saved == []


def test_closing_ends_the_thread(tmp_path):
    saver = FileCheckpointer(tmp_path, KeepLast(1))
    assert saver.close()
    assert names(tmp_path) == set()
    assert "closed; create another" in message_of(RuntimeError, save, saver, 10)


# going on


def resumed(folder, strategy):
    """Another process's checkpointer, gone on from the newest."""
    saver = FileCheckpointer(folder, strategy)
    saver.adopt(*newest_whole(folder))
    return saver


def test_a_run_that_went_on_keeps_what_one_never_stopped_keeps(tmp_path):
    losses = ((10, 0.5), (20, 0.1), (30, 0.9), (30, None), (40, 0.8), (50, 0.2), (60, 0.05))
    straight = FileCheckpointer(tmp_path / "straight", LAST_TWO_AND_BEST)
    for updates, loss in losses:
        save(straight, updates, loss=loss)
        straight.wait()
        stopped = (FileCheckpointer if updates == 10 else resumed)(
            tmp_path / "stopped", LAST_TWO_AND_BEST
        )
        save(stopped, updates, loss=loss)
        assert stopped.close()
        assert names(tmp_path / "stopped") == names(tmp_path / "straight")
        (path, actual), (expected_path, expected) = (
            newest_whole(tmp_path / "stopped"),
            newest_whole(tmp_path / "straight"),
        )
        assert path.name == expected_path.name and actual.state == expected.state
    straight.close()


def test_what_only_the_strategy_of_before_kept_stays(tmp_path, caplog):
    caplog.set_level("INFO", logger="andiron")
    saved(tmp_path, KeepEvery(10), 10, 20, 30, 40).close()
    again = resumed(tmp_path, KeepLast(1))
    assert (
        "checkpoints that the current options would delete are kept: step-10, step-20, step-30"
        in caplog.messages
    )
    save(again, 50)
    again.close()
    assert names(tmp_path) == {"step-10", "step-20", "step-30", "step-50"}


def test_what_is_listed_but_not_on_the_disk_is_not_adopted(tmp_path):
    saved(tmp_path, LAST_TWO_AND_BEST, (10, 0.1), (20, 0.3), (30, 0.2)).close()
    files.remove_folder(tmp_path / "step-10", FILES)
    again = resumed(tmp_path, LAST_TWO_AND_BEST)
    kept = [(one.updates, one.values["valid"]["loss"]) for one in again.saved]
    assert kept == [(20, 0.3), (30, 0.2)]
    again.close()


def test_a_kill_before_pruning_leaves_nothing_for_ever(tmp_path, monkeypatch):
    with monkeypatch.context() as killed:
        killed.setattr(FileCheckpointer, "_prune", lambda self: None)
        saved(tmp_path, KeepLast(1), 10, 20, 30).close()
    assert names(tmp_path) == {"step-10", "step-20", "step-30"}
    again = resumed(tmp_path, KeepLast(1))
    save(again, 40)
    again.close()
    assert names(tmp_path) == {"step-40"}


def test_going_on_from_an_older_one_sets_the_newer_aside(tmp_path, caplog):
    saved(tmp_path, KeepLast(3), 10, 20, 30).close()
    again = FileCheckpointer(tmp_path, KeepLast(3))
    again.adopt(tmp_path / "step-10", load(tmp_path / "step-10"))
    assert (
        "checkpoint step-30 is newer than step-10, from which the run resumes; it was renamed to "
        "step-30.unused" in caplog.text
    )
    save(again, 20)
    again.close()
    assert names(tmp_path) == {"step-10", "step-20", "step-20.unused", "step-30.unused"}
    assert newest_whole(tmp_path)[0].name == "step-20"


def test_what_a_killed_process_left_is_removed_but_nothing_of_others(tmp_path):
    saved(tmp_path, KeepLast(1), 10).close()
    for name in (
        ".step-20.01234567.partial", ".step-10.2.89abcdef.partial", ".mine.01234567.partial",
        ".step-30.partial",
    ):  # fmt: skip
        (tmp_path / name).mkdir()
        (tmp_path / name / "model.safetensors").write_bytes(b"half")
    (tmp_path / ".step-10.2.89abcdef.partial" / "notes").write_text("not a run's")
    (tmp_path / ".step-20.ffffffff.partial").write_bytes(b"a file, so no checkpoint of ours")
    (tmp_path / "latest.json").write_text('{"name": "step-10"}')  # of an earlier version
    resumed(tmp_path, KeepLast(1)).close()
    assert names(tmp_path) == {
        "step-10", ".step-10.2.89abcdef.partial", ".mine.01234567.partial", ".step-30.partial",
        ".step-20.ffffffff.partial",
    }  # fmt: skip
    assert names(tmp_path / ".step-10.2.89abcdef.partial") == {"notes"}
    assert names(tmp_path / ".mine.01234567.partial") == {"model.safetensors"}


@pytest.mark.parametrize(
    "kept", [{}, [{"name": "step-10"}], [{"name": "../mine", "values": {}}], [7]]
)
def test_an_invalid_list_of_kept_checkpoints_is_refused(tmp_path, kept):
    saver = saved(tmp_path, KeepLast(1), 10)
    saver.close()
    record = load(tmp_path / "step-10")
    if kept == {}:
        # a checkpoint written without a checkpointer: it stands alone
        record.state.pop("checkpoints")
        saver.adopt(tmp_path / "step-10", record)
        assert [saved.name for saved in saver.saved] == ["step-10"]
        return
    record.state["checkpoints"] = kept
    with pytest.raises(errors.DataError, match="among those kept with it; use another checkpoint"):
        saver.adopt(tmp_path / "step-10", record)


def test_only_a_checkpoint_in_the_folder_is_adopted(tmp_path):
    saver = FileCheckpointer(tmp_path / "here", KeepLast(1))
    for path in ("there/step-10", "here/mine"):
        message = message_of(ValueError, saver.adopt, tmp_path / path, checkpoint(10))
        assert "not a checkpoint in" in message
