"""Reads run folders from untrusted sources: each is a run, despite damaged files."""

import json
import os
import socket

import pytest

from andiron import errors
from andiron.plain.plain_values import strict_json
from andiron.run_folder import RunFolder
from andiron.shell.run import run_record, status as run_status
from andiron.shell.run import named_folder
from andiron.wings.runs import logged_lines, run_list, seed_groups
from andiron.wings.runs.run_reader import RunReader, read

CONFIG = {"lr": 0.1, "seed": 1, "model": {"_target_": "andiron.models.MLP", "hidden": [8]}}
ROW = {"split": "valid", "metric": "loss", "best": 0.25, "epoch_of_best": 1, "last": 0.5,
       "last_epoch": 2}  # fmt: skip
STATUS = {"status": "done", "started": "2026-11-22T07:00:00+00:00",
          "ended": "2026-11-22T07:00:09+00:00"}  # fmt: skip


def made(path, *, config=CONFIG, status=STATUS, summary=None, lines=()):
    path.mkdir(parents=True)
    summary = {"epochs": 2, "seconds": 3.5, "metrics": [ROW]} if summary is None else summary
    for name, content in (("config", config), ("status", status), ("summary", summary)):
        (path / f"{name}.json").write_text(json.dumps(content))
    (path / "metrics.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    run_record.begin(RunFolder(path))
    return RunFolder(path)


def line(split, epoch, **values):
    return {"split": split, "updates": 5 * epoch, "epoch": epoch, "over": "epoch", **values}


def test_runs_are_found_at_any_depth_and_not_through_links(tmp_path):
    for name in ("b/2026/x", "a", "a/inside", "a/checkpoints/step-1", ".hidden/run", "c/.git/run"):
        made(tmp_path / name)
    (tmp_path / "b" / "link").symlink_to(tmp_path / "a")
    (tmp_path / "b" / "loop").symlink_to(tmp_path)
    (tmp_path / "c" / "config.json").write_text("{}")  # of another program

    result = named_folder.run_folders([tmp_path, tmp_path / "a"])
    assert [value.path.relative_to(tmp_path).as_posix() for value in result] == [
        "a", "a/inside", "b/2026/x",
    ]  # fmt: skip
    with pytest.raises(errors.RunFolderError, match="no such folder"):
        named_folder.run_folders([tmp_path / "nowhere"])


def test_a_finished_run_is_its_summary(tmp_path):
    (run,) = read([made(tmp_path / "run")])

    assert run.problems == ()
    assert run.facts["status"] == "done" and run.facts["seconds"] == 3.5
    assert run.options == {"lr": 0.1, "seed": 1, "model": "MLP", "model.hidden": [8]}
    assert vars(run.metrics["valid/loss"]) == {
        "best": 0.25, "epoch_of_best": 1, "last": 0.5, "last_epoch": 2,
    }  # fmt: skip


def test_a_path_in_the_own_folder_is_no_difference_between_runs(tmp_path):
    paths = [tmp_path / "logs/train/multiruns/2026/3", tmp_path / "logs/train/multiruns/2026/30"]
    for path in paths:
        inner = {"output_dir": str(path), "cache": f"{path}/cache", "of": f"{paths[0]}0/cache"}
        made(path, config={"seed": len(path.name), "paths": inner})
    one, other = read(map(RunFolder, paths))
    assert one.options == {"seed": 1, "paths.of": f"{paths[1]}/cache"}
    assert other.options == {"seed": 2}


def test_runs_of_a_templates_sweep_are_found_below_the_working_folder(tmp_path, monkeypatch):
    made(tmp_path / "logs/train/multiruns/2026/0")
    monkeypatch.chdir(tmp_path)
    assert named_folder.newest() == tmp_path / "logs/train/multiruns/2026/0"


def test_an_unfinished_run_has_logged_values_and_directions_of_other_runs(tmp_path):
    log = [line("valid", 1, loss=0.5, f1=0.1), line("valid", 2, loss=0.75, f1=0.2)]
    window = {**line("train", 2, loss=9.0), "over": "window"}
    folder = made(
        tmp_path / "run", status={**STATUS, "status": "interrupted"}, lines=[*log, window]
    )
    with folder.metrics.open("a") as file:
        file.write('{"split": "valid", "over": "epoch", "loss":')  # half written

    run, _ = read([folder, made(tmp_path / "other")])  # whose loss got worse after its best
    assert run.problems == () and run.facts["status"] == "interrupted"
    assert (run.facts["epochs"], run.facts["seconds"]) == (2, 9.0)
    loss, f1 = run.metrics["valid/loss"], run.metrics["valid/f1"]
    assert (loss.best, loss.epoch_of_best, loss.last) == (0.5, 1, 0.75)
    assert (f1.best, f1.last) == (None, 0.2)  # no direction of f1 is recorded


def test_a_best_value_that_is_not_finite_is_replaced_by_one_that_is(tmp_path):
    log = [line("valid", epoch, loss=loss) for epoch, loss in enumerate((None, 0.5, 0.25, None), 1)]
    (run,) = read([made(tmp_path / "run", status={**STATUS, "status": "paused"}, lines=log)])

    loss = run.metrics["valid/loss"]
    assert (loss.best, loss.epoch_of_best, str(loss.last)) == (0.25, 3, "nan")


@pytest.mark.parametrize("error", [errors.NonFiniteError("loss is nan"), ValueError("other")])
def test_a_run_that_failed_as_not_finite_has_diverged(tmp_path, error):
    folder = made(tmp_path / "run")
    with pytest.raises(type(error)), run_status.reported(folder, run_status.Report()):
        raise error
    assert json.loads(folder.status.read_text())["status"] == "failed"
    expected = "diverged" if isinstance(error, errors.NonFiniteError) else "failed"
    assert read([folder])[0].facts["status"] == expected


def test_a_run_whose_process_is_gone_was_killed(tmp_path):
    folder = made(tmp_path / "run", status={**STATUS, "status": "running"})
    folder.log.write_text("")
    assert read([folder])[0].facts["status"] == "killed"


DAMAGE = {
    "missing": lambda path: None, "empty": lambda path: path.write_text(""),
    "half": lambda path: path.write_text('{"lr": 0.'),
    "a list": lambda path: path.write_text("[1]"),
    "no text": lambda path: path.write_bytes(b"\xff\xfe"),
    "deep": lambda path: path.write_text("[" * 100_000 + "]" * 100_000),
    "deep objects": lambda path: path.write_text('{"a":' * 900 + "1" + "}" * 900),
    "huge": lambda path: path.write_text('{"lr": ' + "9" * 100_000 + "}"),
    "many": lambda path: path.write_text("[" + "[]," * 300_000 + "1]"),
    "large": lambda path: os.truncate(_touched(path), 10**11), "a pipe": os.mkfifo,
    "a device": lambda path: path.symlink_to("/dev/zero"),
    "a link": lambda path: path.symlink_to(_touched(path.with_name("other"))),
    "a folder": lambda path: path.mkdir(), "a socket": lambda path: _socket(path),
    "a loop": lambda path: path.symlink_to(path.name),
}  # fmt: skip


def _touched(path):
    path.touch()
    return path


def _socket(path):
    os.chdir(path.parent)
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(path.name)


@pytest.mark.parametrize("damage", DAMAGE)
@pytest.mark.parametrize("file", ["config", "status", "summary"])
def test_a_damaged_run_is_a_row_that_says_so(file, damage, here):
    folder = made(here / "run")
    (here / "run" / "manifest.json").write_text("{}")  # beside config.json: the sign of a run
    path = here / "run" / f"{file}.json"
    path.unlink()
    DAMAGE[damage](path)

    (actual,) = named_folder.run_folders([here]) or [folder]
    (run,) = read([actual])
    assert run.problems and run.problems[0].startswith(f"{file}.json: ")
    assert run.facts["status"] == "damaged"
    shown = run_list.as_table([run], "valid/loss")
    assert "damaged" in shown and len(shown.splitlines()) == 2
    assert json.loads(strict_json(run_list.plain(run)))["problems"] == list(run.problems)


def test_what_a_stranger_wrote_is_shown_without_control_characters(tmp_path):
    escape = "\x1b]0;owned\x07\x1b[2J"
    summary = {"metrics": [{**ROW, "metric": escape}], "epochs": 10**5000, "seconds": float("nan")}
    folder = made(
        tmp_path / f"run{escape}",
        config={"lr": escape, escape: {"_target_": escape}, "n": float("inf")},
        status={"status": escape, "started": escape, "reason": 3},
        summary=json.loads("{}"),
    )
    other = made(tmp_path / "other", summary=summary | {"epochs": 1e999})
    runs = read([folder, other])

    shown = [
        run_list.as_table(runs, "valid/loss"),
        run_list.as_table(runs, "valid/loss", ["lr", "started", "seconds", "reason"]),
        strict_json([*map(run_list.plain, runs)]),
        seed_groups.as_table(seed_groups.compared(runs, "valid/loss", None)),
    ]
    assert not any(ord(value) < 32 and value != "\n" for text in shown for value in text)


@pytest.mark.parametrize(("resumes", "actual"), [
    ([{"changes": {"lr": [1, 2]}}, {}, {"changes": {"lr": [2, 3], "seed": [1, 4]}}], [3, 4]),
    ([{"changes": {"lr": 1}}, {"changes": {"lr": [1, 2, 3]}}, {"changes": [1]}, 7], []),
    ({"changes": {"lr": [1, 2]}}, []),
    (None, []),
])  # fmt: skip
def test_what_was_changed_when_a_run_was_resumed_is_known(resumes, actual, tmp_path):
    if isinstance(resumes, list):
        resumes = [
            {"updates": 7 * number, **entry} if isinstance(entry, dict) else entry
            for number, entry in enumerate(resumes, start=1)
        ]
    (tmp_path / "provenance.json").write_text(json.dumps({"resumes": resumes}))

    assert [*RunReader(RunFolder(tmp_path)).changes().values()] == actual


def test_runs_that_differ_in_seed_and_name_only_are_one_group(tmp_path):
    runs = read(
        made(
            tmp_path / f"{seed}-{lr}",
            config={**CONFIG, "seed": seed, "name": f"run{seed}", "lr": lr},
            summary={"metrics": [{**ROW, "best": lr * seed}]},
        ) for lr in (0.1, 0.2) for seed in (1, 2, 3)
    )  # fmt: skip
    rows = seed_groups.compared(runs, "valid/loss", None)

    assert [list(row.runs) for row in rows] == [runs[:3], runs[3:]]
    assert [row.options for row in rows] == [{"lr": 0.1}, {"lr": 0.2}]
    assert str(rows[0].metrics["valid/loss"]) == "0.2000 ± 0.1000"
    best = seed_groups.compared(runs, "valid/loss", "highest")
    assert [row.options for row in best] == [{"lr": 0.2}, {"lr": 0.1}]


LINE = '{{"split": "train", "updates": {0}, "epoch": 1, "over": "window"{1}}}\n'


def test_a_table_too_large_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(logged_lines, "MOST_CELLS", 200)
    path = tmp_path / "metrics.jsonl"
    many = "".join(f', "metric-{column}": 0.5' for column in range(50))
    lines = [LINE.format(number, "") for number in range(20)]
    path.write_text("".join([*lines, LINE.format(20, many)]))

    with pytest.raises(errors.DataError, match="has 54 columns in 21 lines, more than a table"):
        logged_lines.as_table(path)
