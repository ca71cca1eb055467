"""Every answer in JSON, and every file of logged values, is JSON to any parser, also with NaN."""

import json
import math

import pytest
from in_process import called

import andiron
from andiron import __main__
from andiron.run_folder import RunFolder
from andiron.shell.training import train
from andiron.wings.runs import command, logged_lines, run_reader
from runs_made import TEXT

ROWS = "x1,x2,label\n" + "".join(f"{row % 7},{row % 3},{'ab'[row % 2]}\n" for row in range(60))
ARGUMENTS = {  # of each command with --json, beside the run
    "evaluate": (),
    "predict": ("rows.csv", "--top", "2"),
    "generate": (),
    "export": ("--format", "safetensors", "--output", "out"),
    "samples": ("--update", "9", "--from-start"),
    "runs list": (),
    "runs show": (),
    "runs compare": ("--metric", "valid/loss"),
    "runs best": ("--metric", "valid/accuracy"),
    "runs diff": ("table",),
    "differ": ("table", "--samples"),
}


def strict(text):
    """The JSON values in the lines of a text, or in all of it; a constant such as NaN raises."""

    def refuse(name):
        raise AssertionError(f"{name} is not JSON")

    try:
        return [json.loads(text, parse_constant=refuse)]
    except json.JSONDecodeError:
        return [json.loads(line, parse_constant=refuse) for line in text.splitlines()]


@pytest.fixture(scope="module")
def diverged(tmp_path_factory):
    """A folder with a `table` run whose loss is NaN, and a `text` run for `generate`."""
    folder = tmp_path_factory.mktemp("diverged")
    (folder / "rows.csv").write_text(ROWS)
    (folder / "text.txt").write_text("to be or not to be\n" * 40)
    shared = "on_nonfinite=ignore", "num_epochs=2", "batch_size=8", "render=plain"
    table = ("data=csv", "data.path=rows.csv", "data.target=label", "model.hidden=[8]", "lr=1e25")
    for name, data in (("table", table), ("text", TEXT)):
        ended = called(train.main, *data, *shared, f"hydra.run.dir={name}", cwd=folder)
        assert (ended.code, ended.errors) == (0, "")
    return folder


def helped(*names):
    return called(__main__.main, *names, "--help").output


def test_every_command_has_json():
    names = [name for name in __main__.COMMANDS | __main__.others() if name != "verify-resume"]
    names += [f"runs {name}" for name in command.COMMANDS]
    assert [name for name in names if "--json" not in helped(*name.split())] == []


@pytest.mark.parametrize("name", ARGUMENTS)
def test_every_command_prints_strict_json_of_values_that_are_not_finite(name, diverged, tmp_path):
    run = "text" if name == "generate" else "table"
    others = [tmp_path if text == "out" else text for text in ARGUMENTS[name]]

    ended = called(__main__.main, *name.split(), run, *others, "--json", cwd=diverged)

    assert "Traceback" not in ended.errors
    assert (strict(ended.output) and ended.code == 0) or ended.errors.startswith("error: ")


def test_logged_values_and_the_summary_are_strict_json_and_read_back_as_nan(diverged):
    folder = RunFolder(diverged / "table")
    lines = strict(folder.metrics.read_text())
    [summary] = strict(folder.summary.read_text())

    assert None in [line.get("loss", 0) for line in lines]
    assert None in [row["last"] for row in summary["metrics"]]
    losses = logged_lines.as_table(folder.metrics)["loss"]
    assert math.isnan(losses[-1]) and math.isnan(andiron.load(folder.path).metrics["loss"][-1])
    [run] = run_reader.read([folder])
    assert not run.problems and math.isnan(run.metrics["valid/loss"].last)


def test_lines_of_earlier_versions_are_read(tmp_path):
    """They have NaN and Infinity."""
    path = tmp_path / "metrics.jsonl"
    head = '{"split": "train", "updates": 1, "epoch": 1, "over": "window", "loss": '
    path.write_text("".join(f"{head}{value}}}\n" for value in ("NaN", "Infinity", "null", "0.5")))

    losses = logged_lines.as_table(path)["loss"]

    assert [math.isnan(losses[0]), losses[1], math.isnan(losses[2])] == [True, math.inf, True]
    assert losses[3] == 0.5
