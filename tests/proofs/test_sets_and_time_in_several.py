"""Further validation sets and `max_time` in two processes of torchrun."""

import json
import re

import pytest
from in_process import called
from train_processes import in_two, lines, status, trained, updates_saved

from andiron_lab.ask import bit_comparison
from andiron.wings.runs import command as runs

pytestmark = pytest.mark.usefixtures("preloaded_processes")

SETS = (
    "data=csv", "data.path=day.csv", "data.target=kind", "model.hidden=[8]", "batch_size=9",
    "data.valid_sets={night: night.csv, fog: fog.csv}", "valid_sets_every={night: 3}",
    "averages=ema", "averages.ema.decay=0.5",
    "checkpoint.split=night", "checkpoint.metric=loss", "checkpoint.every=3",
    "test_weights=best", "early_stopping=patience", "early_stopping.patience.split=night",
    "early_stopping.patience.metric=loss", "early_stopping.patience.patience=2", "lr=0.3",
    "num_epochs=40", "slices=2", "device=cpu", "render=plain",
)  # fmt: skip
NIGHT_LOSS = ["night", "loss"]


def write_tables(here):
    for name, rows, shift in (("day", 75, 0), ("night", 43, 2), ("fog", 31, 5)):
        texts = [
            f"{(row * 7 + shift) % 10},{row * row % 13},{'ab'[row * row % 13 < 6]}"
            for row in range(rows)
        ]
        (here / f"{name}.csv").write_text("\n".join(["area,rooms,kind", *texts]) + "\n")


def test_sets_measure_choose_and_stop_as_in_one_process(tmp_path):
    write_tables(tmp_path)
    alone, two = tmp_path / "alone", tmp_path / "two"
    trained(tmp_path, *SETS, "hydra.run.dir=alone")
    assert in_two(tmp_path, *SETS, "hydra.run.dir=two")[0] == 0

    logged, expected = (
        {
            (line["split"], line["updates"], name): value
            for line in lines(run)
            for name, value in line.items()
            if line["split"].partition("-")[0] in ("night", "fog") and isinstance(value, float)
        }
        for run in (two, alone)
    )
    assert logged == expected and len(logged) > 20
    assert {split for split, *_ in logged} == {"night", "night-ema", "fog", "fog-ema"}
    assert {name for split, _, name in logged if split == "fog"} == {"accuracy", "loss"}
    assert bit_comparison.compare(alone, two) == []

    summaries = [json.loads((run / "summary.json").read_text()) for run in (alone, two)]
    assert summaries[0]["updates"] == summaries[1]["updates"] < 40 * 7  # stopped by the rule
    assert "stopped early" in (two / "experiment.log").read_text()
    losses = {at: value for (*of, at, name), value in logged.items() if [*of, name] == NIGHT_LOSS}
    best, saved = min(losses, key=losses.get), updates_saved(two)
    assert saved == updates_saved(alone) and best in saved[:-2]  # kept only because it is the best
    assert summaries[1]["weights"]["test"].startswith("best, of epoch")


def test_both_processes_end_after_the_same_update_when_the_time_is_over(tmp_path):
    run = tmp_path / "run"
    length = ("max_time=2s", "num_epochs=1000000", "validate_every=1000000epochs", "log_every=1")
    ended = in_two(tmp_path, *length, "slices=2", "render=plain", "hydra.run.dir=run")
    assert ended == (0, "")
    assert (status(run)["status"], status(run)["reason"]) == ("done", "max_time=2s is over")
    logs = [(run / name).read_text() for name in ("experiment.log", "ranks/1.log")]
    (first,), (second,) = (
        re.findall(r"ends after update (\d+): max_time=2s is over", log) for log in logs
    )
    assert first == second
    updates = int(first)
    assert updates == json.loads((run / "summary.json").read_text())["updates"]
    assert updates == updates_saved(run)[-1] == max(line["updates"] for line in lines(run))
    measured = {line["split"] for line in lines(run) if line["updates"] == updates}
    assert measured == {"train", "valid", "test"}
    shown = called(runs.main, "show", run).output
    assert "max_time=2s is over" in shown.splitlines()
