"""Renderers: one line per epoch in a file; a redrawn line and permanent lines on a terminal."""

import io
import sys
import time

from rich.console import Console
from waiting import until

from andiron import render
from andiron.progress import Progress
from andiron.render import Plain, plain, summary_table
from andiron.render.text import summary_lines
from andiron.wings.screen.live import Live

SUMMARY = {
    "run_dir": "outputs/a/b", "model": "MLP", "num_parameters": 4810, "updates": 42, "epochs": 2,
    "seconds": 75.0,
    "metrics": [{"split": "valid", "metric": "loss", "best": 0.125, "epoch_of_best": 1,
                 "last": 0.25, "last_epoch": 2}],
    "param_groups": {"hidden": {"optimizer": "torch.optim.Muon",
                                "options": {"weight_decay": 0.1, "nesterov": True,
                                            "maximize": False},
                                "lr": 0.02, "clip": 1.0, "num_tensors": 1, "num_parameters": 1234,
                                "parameters": {"network.1.weight": [617, 2]}},
                     "base": {"optimizer": "torch.optim.Adam",
                              "options": {"betas": [0.9, 0.999], "fused": True}, "lr": 1e-3,
                              "num_tensors": 8, "num_parameters": 77,
                              "parameters": {f"network.{i}.bias": [i] for i in range(2, 10)}},
                     "body": {"optimizer": None, "options": {}, "lr": None, "num_tensors": 1,
                              "num_parameters": 1, "parameters": {"network.10.scale": []}}},
    "last_lr": {"hidden": 0.015, "base": 1e-3},
}  # fmt: skip


def progress(**state):
    where = Progress(num_epochs=2, num_batches=21, num_items=1295, **state)
    where.latest = {"train": {"loss": 0.5}}
    return where


def test_a_script_prints_plain_lines():
    assert isinstance(render.for_python(), Plain)


def test_plain_prints_exactly_one_line_an_epoch(capsys):
    shown = Plain()
    shown.start(progress())
    shown.epoch_ended(progress(epoch=1, updates=21), 0.1)
    shown.epoch_ended(progress(epoch=2, updates=42), 0.1)
    shown.stop()
    begun = [line[:24] for line in capsys.readouterr().out.splitlines()]
    assert begun == ["epoch 1/2  update    21 ", "epoch 2/2  update    42 "]


def test_plain_prints_where_a_long_epoch_is(capsys, monkeypatch):
    monkeypatch.setattr(plain, "FIRST_SECONDS", 1e-3)
    monkeypatch.setattr(plain, "MOST_SECONDS", 1e-3)
    shown, where = Plain(), progress(num_updates=42)
    lines = []

    def printed(text):
        lines.extend(capsys.readouterr().out.splitlines())
        return any(line.startswith(text) for line in lines)

    shown.start(where)
    until(lambda: printed("epoch 1/2  update 0/42  train loss 0.5000"))  # the first update
    for updates in range(1, 5000):  # while updates are made
        where.updates = updates
        time.sleep(1e-3)
        if printed(f"epoch 1/2  update {updates}/42  train loss 0.5000"):
            break
    shown.stop()
    assert lines[-1].startswith(f"epoch 1/2  update {updates}/42")


def test_plain_cuts_no_value(capsys):
    measured = progress(epoch=1, updates=21)
    measured.latest = {"train": {f"metric{number}": 0.5 for number in range(20)}}
    Plain().epoch_ended(measured, 0.1)
    output = capsys.readouterr().out
    assert "metric19 0.5000" in output and "…" not in output


def test_the_summary_has_best_its_epoch_last_parameters_time_and_place():
    file = io.StringIO()
    summary_table.show(SUMMARY, Console(file=file, width=100))
    lines = file.getvalue().splitlines()
    assert any("MLP, 4,810 parameters, 42 updates" in line for line in lines)
    assert any(
        line.split("│")[1:-1] == [" valid ", " loss   ", " 0.1250 ", "             1 ", " 0.2500 "]
        for line in lines
    )
    assert [line.strip() for line in lines[-2:]] == [
        "trained in 1m15s; everything about the run is in", "outputs/a/b",
    ]  # fmt: skip


def test_the_summary_shows_optimizer_options_lr_and_members_of_each_group():
    file = io.StringIO()
    summary_table.show(SUMMARY, Console(file=file, width=100))
    rows = [
        [cell.strip() for cell in line.split("│")[1:-1]]
        for line in file.getvalue().splitlines()
        if line.count("│") == 6
    ]
    assert rows[1:] == [  # after the row of the metric
        ["hidden", "Muon", "0.015", "1,234", "617x2 1.weight"],
        ["", "weight_decay 0.1", "", "", ""],
        ["", "nesterov True", "", "", ""],
        ["", "clip 1.0", "", "", ""],
        ["base", "Adam", "0.001", "77", "2 2.bias"],
        ["", "betas 0.9, 0.999", "", "", "3 3.bias"],
        *[
            ["", "", "", "", text]
            for text in ("4 4.bias", "5 5.bias", "... 3 more ...", "9 9.bias")
        ],
        ["body", "none", "frozen", "1", "scalar 10.scale"],
    ]


def test_the_summary_fits_80_columns_and_loses_no_number():
    file = io.StringIO()
    long = {f"blocks.{n}.attention.queries_keys_values.weight": [384, 128] for n in range(9)}
    group = {**SUMMARY["param_groups"]["hidden"], "parameters": long}
    worst = {"class": "8", "samples": 35, "recall": 0.8, "taken_for": {"2": 5, "3": 2}}
    summary = {
        **SUMMARY,
        "weights": {"test": "best, of epoch 1", "test-ema": "average ema"},
        "worst_classes": [worst], "param_groups": {"no_decay": group},
        "last_lr": {"no_decay": 2.74e-06},
    }  # fmt: skip
    summary_table.show(summary, Console(file=file, width=80))
    lines = file.getvalue().splitlines()
    assert max(map(len, lines)) <= 80
    assert "tested weights: best, of epoch 1; test-ema weights: average ema" in lines
    rows = [[cell.strip() for cell in line.split("│")[1:-1]] for line in lines]
    assert ["8", "35", "0.8000", "2 (5), 3 (2)"] in rows
    (first,) = (row for row in rows if row[:1] == ["no_decay"])
    assert first[1:4] == ["Muon", "2.74e-06", "1,234"]
    assert first[4].startswith("384x128 0.attention")


def test_a_terminal_shows_all_of_a_summary():
    file = io.StringIO()
    worst = {"class": "8", "samples": 35, "recall": 0.8, "taken_for": {"2": 5, "3": 2}}
    summary = {
        **SUMMARY, "weights": {"test": "last"}, "worst_classes": [worst],
        "changes": {"lr": "0.1 until update 6"},
    }  # fmt: skip
    summary_table.show(summary, Console(file=file, width=100))
    content = summary_lines(summary)
    cells = [cell for row in content.metrics + content.classes for cell in row]
    shown = [content.title, *cells, *content.lines, *content.place.splitlines()]
    assert len(content.lines) == 2
    assert [text for text in shown if text not in file.getvalue()] == []


def test_the_summary_lists_a_metric_that_has_only_parts():
    row = SUMMARY["metrics"][0]
    names = "loss", "recall", "recall/cat", "rouge/rouge1_fmeasure", "rouge/rougeL_fmeasure"
    file = io.StringIO()
    rows = [row | {"metric": name, "best": 26123.6354} for name in names]
    summary_table.show(SUMMARY | {"metrics": rows}, Console(file=file, width=60))
    lines = [line.split("│") for line in file.getvalue().splitlines()]
    listed = "".join(cells[2].strip() for cells in lines if len(cells) == 7)  # names are folded
    assert listed.startswith("".join(name for name in names if name != "recall/cat"))
    assert file.getvalue().count("26123.6354") == 4  # numbers are not


def test_a_file_gets_the_plain_one_and_a_terminal_the_live_one(monkeypatch):
    for is_terminal, kind in ((False, Plain), (True, Live)):
        monkeypatch.setattr(sys, "stdout", io.StringIO())
        monkeypatch.setattr(
            sys.stdout, "isatty", lambda is_terminal=is_terminal: is_terminal, raising=False
        )
        assert type(render.auto()) is kind


def test_the_live_line_is_drawn_from_the_progress_as_it_moves():
    file = io.StringIO()
    where = progress(epoch=1, batch=3, updates=3)
    live = Live(Console(file=file, force_terminal=True, width=140))
    live.start(where)
    until(lambda: "update 3" in file.getvalue())
    where.batch, where.updates = 7, 7
    until(lambda: "update 7" in file.getvalue())
    live.stop()
    assert "epoch 1/2" in file.getvalue() and "train loss 0.5000" in file.getvalue()
    assert "samples/s" in file.getvalue() and " left" in file.getvalue()
