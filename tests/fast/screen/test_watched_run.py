"""A watched run whose process is gone is shown as killed; others with state, log and splits."""

import json
from datetime import UTC, datetime

from andiron.run_folder import RunFolder
from andiron.wings.runs import run_reader
from andiron.wings.screen.curves import Curves, MOST_SPLITS
from andiron.wings.screen.watch import WatchedRun

STARTED = datetime(2026, 1, 2, 12, 0, tzinfo=UTC)


def test_a_run_whose_process_is_gone_is_killed(tmp_path):
    folder = RunFolder(tmp_path)
    status = {"status": "running", "reason": None, "pid": 1, "started": STARTED.isoformat()}
    folder.status.write_text(json.dumps(status))
    for path in (folder.log, folder.metrics):
        path.write_text("")
    watched = WatchedRun(folder)

    for view in (watched.view(), watched.view()):
        assert (view.state, view.elapsed, view.left) == ("killed", None, None)
    (listed,) = run_reader.read([folder])
    assert listed.facts["status"] == "killed"

    folder.status.write_text(json.dumps(status | {"status": "done", "ended": "?"}))
    assert watched.view().state == "done"


def test_lines_of_the_log_have_only_the_time_before_the_message(tmp_path):
    lines = ["2026-01-02 12:00:00,123 INFO data", "2026-01-02 12:00:01,004 WARNING slow"]
    RunFolder(tmp_path).log.write_text("\n".join(lines))
    view = WatchedRun(RunFolder(tmp_path)).view()
    assert view.lines == ["12:00:00 data", "12:00:01 WARNING slow"]


def test_the_number_of_splits_is_bounded():
    curves = Curves()
    for number in range(3 * MOST_SPLITS):
        curves.add(f"split-{number}", number, 1, {"loss": 0.5}, is_whole=True)
    assert len(curves.latest) == len(curves.by_name["loss"]) == MOST_SPLITS


def test_the_time_left_weighs_windows_by_their_updates_and_leaves_out_the_first():
    curves = Curves()
    for updates, seconds in ((20, 9.0), (40, 0.5), (41, 4.0), (61, 0.5)):  # an epoch ends at 41
        curves.add("train", updates, 1, {"time/step": seconds}, is_whole=False)
    assert Curves().seconds_of_update == 0
    assert curves.seconds_of_update == (20 * 0.5 + 4.0 + 20 * 0.5) / 41


def test_a_run_that_trains_has_the_best_values_by_its_recorded_directions(tmp_path):
    folder = RunFolder(tmp_path)
    folder.log.write_text("")
    folder.status.write_text('{"status": "interrupted"}')
    watched = WatchedRun(folder)
    watched.view()  # before the first update, which records the directions
    status = {"status": "interrupted", "directions": {"mae": "lowest", "r2": "highest"}}
    folder.status.write_text(json.dumps(status))
    points = [
        {"split": "valid", "updates": 5 * epoch, "epoch": epoch, "over": "epoch"} | dict.fromkeys(
            ("loss", "mae", "r2", "beta"), value
        )
        for epoch, value in ((1, 2.0), (2, 1.0), (3, 3.0))
    ]
    folder.metrics.write_text("".join(f"{json.dumps(point)}\n" for point in points))
    best = watched.view().curves.best
    assert {name: (of.value, of.epoch) for (_, name), of in best.items()} == {
        "loss": (1.0, 2), "mae": (1.0, 2), "r2": (3.0, 3),
    }  # fmt: skip
