"""Further validation sets from the command line: in all records of a run, and when it resumes."""

import json

from in_process import called
from train_processes import lines

from andiron.shell.training import train

RUN = ("data=csv", "data.path=day.csv", "data.target=kind", "model.hidden=[8]", "batch_size=8",
       "render=plain", "device=cpu")  # fmt: skip
NIGHT = "data.valid_sets={night: night.csv}"


def write_tables(here):
    for name, shift in (("day", 0), ("night", 1), ("fog", 3)):
        rows = [f"{(row * 7 + shift) % 10},{row % 3},{'ab'[row % 2]}" for row in range(60)]
        (here / f"{name}.csv").write_text("\n".join(["area,rooms,kind", *rows]) + "\n")


def trained(here, name, *arguments):
    ended = called(train.main, *arguments, "render=plain", cwd=here)
    assert ended.code == 0, ended.errors
    return here / name, ended.output


def test_a_set_is_in_every_record_and_decides(here):
    write_tables(here)
    run, output = trained(
        here, "run", *RUN, NIGHT, "hydra.run.dir=run", "num_epochs=3", "averages=ema",
        "averages.ema.decay=0.5", "valid_sets_every={night: 3}",
        "checkpoint.split=night",
        "checkpoint.metric=accuracy", "checkpoint.every=3", "early_stopping=patience",
        "early_stopping.patience.split=night", "early_stopping.patience.metric=accuracy",
        "early_stopping.patience.patience=20", "test_weights=best",
    )  # fmt: skip
    points = [line for line in lines(run) if line["split"] in ("night", "night-ema")]
    updates = [line["updates"] for line in points if line["split"] == "night"]
    assert updates == [3, 6, 9, 12, 15, 18] and len(points) == 12
    assert all("accuracy" in line for line in points)
    assert "night loss" in output and "60 night" in output
    rows = json.loads((run / "summary.json").read_text())["metrics"]
    assert {row["split"] for row in rows} >= {"night", "night-ema", "valid-ema"}
    assert (run / "tensorboard" / "night").is_dir()
    sizes = json.loads((run / "provenance.json").read_text())["data"]
    assert sizes["sizes"]["night"] == 60 and [*sizes["valid_sets"]] == ["night"]


def test_a_set_is_added_to_an_older_run_and_its_file_compared(here):
    write_tables(here)
    run, _ = trained(here, "run", *RUN, "hydra.run.dir=run", "num_epochs=1")
    trained(here, "run", "resume=run", "num_epochs=2", NIGHT)
    trained(here, "run", "resume=run", "num_epochs=3")
    assert [line["updates"] for line in lines(run) if line["split"] == "night"] == [12, 18]
    (here / "fog.csv").rename(here / "night.csv")
    ended = called(train.main, "resume=run", "num_epochs=4", "render=plain", cwd=here)
    assert ended.code == 1 and "SHA-256 of validation set night is" in ended.errors


def test_wrong_names_of_sets_are_refused(here):
    write_tables(here)
    for option, message in {
        "valid_sets_every={nigth: 3}": "valid_sets_every.nigth: no such validation set; did you "
        "mean 'night'?; the data have night",
        "checkpoint.split=nigth": "checkpoint.split=nigth: nothing is measured on it; did you "
        "mean 'night'?; available: train, valid, night",
    }.items():
        ended = called(train.main, *RUN, NIGHT, option, cwd=here)
        assert ended.code == 2 and message in ended.errors, ended.errors


def test_a_sweep_ranks_jobs_by_a_set(here):
    write_tables(here)
    ended = called(
        train.main, "-m", *RUN, NIGHT, "lr=1e-3,1e-1", "num_epochs=1", "sweep_name=s",
        "objective=night/accuracy", cwd=here,
    )  # fmt: skip
    assert ended.code == 0, ended.errors
    assert "night/accuracy" in ended.output
