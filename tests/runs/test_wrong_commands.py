"""Command lines that are wrong: an error in one line that names what is wrong, and nothing lost."""

import json

import pytest
from conftest import status
from in_process import called

from andiron import __version__
from andiron.shell.config import arguments as command_arguments
from andiron.shell.training import train
from proofs import wrong_commands


@pytest.fixture
def files(here, finished_digits, monkeypatch):
    wrong_commands.prepare(here, finished_digits)
    monkeypatch.syspath_prepend(str(here))


@pytest.mark.parametrize("line", wrong_commands.UNTRAINABLE)
def test_an_untrainable_configuration_is_refused_by_name(line, command, here, files):
    if "race" in line:
        pytest.importorskip("andiron_lab")
    run = () if "-m" in line else ("hydra.run.dir=run",)

    said = command(*run, *wrong_commands.words_of(line))

    words = wrong_commands.UNTRAINABLE[line]
    assert any(words in problem for problem in said.problems), said.errors
    assert (said.code, (here / "run").exists()) == (2, False)


# its values are read at a log point
AFTER_UPDATES = "+metrics.mine={_target_:own.MetricIsText}"


@pytest.mark.parametrize("line", wrong_commands.FAILING)
def test_a_part_that_does_not_fit_the_first_batch_is_named(line, command, here, files):
    said = command("hydra.run.dir=run", *wrong_commands.words_of(line))

    assert wrong_commands.FAILING[line] in said.errors and "Traceback" not in said.errors
    left = status(here / "run")["status"] if (here / "run").exists() else None
    assert (said.code, left) == (1, "failed" if line == AFTER_UPDATES else None)


def test_an_error_of_the_users_own_code_is_not_rewritten(command, here, files):
    with pytest.raises(ZeroDivisionError, match="of the user"):
        command("hydra.run.dir=run", "+metrics.mine={_target_:own.MetricRaises}")


def test_a_run_is_restored_if_its_replacement_fails_at_the_first_batch(command, here):
    assert command("hydra.run.dir=run", "num_epochs=1").code == 0
    before = {path: path.read_bytes() for path in (here / "run").rglob("*") if path.is_file()}

    said = command("hydra.run.dir=run", "overwrite=true", "loss=huber")

    after = {path: path.read_bytes() for path in (here / "run").rglob("*") if path.is_file()}
    assert said.code == 1 and "HuberLoss cannot compare" in said.errors
    assert (after, sorted(path.name for path in here.iterdir())) == (before, ["run"])


def test_flags_stand_anywhere_among_the_overrides(command, here):
    overrides = ["num_epochs=1", "seed=1,2", "hydra.sweep.dir=jobs", "hydra/launcher=basic"]
    placed = [[*overrides[:place], "-m", *overrides[place:]] for place in range(4)]
    assert [*map(command_arguments.in_order, placed)] == 4 * [[*overrides, "-m"]]

    assert command(*placed[1]).code == 0
    configs = [json.loads((here / "jobs" / job / "config.json").read_text()) for job in "01"]
    assert [config["seed"] for config in configs] == [1, 2]


@pytest.mark.parametrize("arguments", [["--version"], ["lr=1", "-m", "--version"], ["--vers"]])
def test_the_version_is_andirons(arguments, command, here):
    assert command(*arguments).output == f"andiron {__version__}\n"


def test_a_step_that_never_comes_is_reported(command, here):
    said = command("hydra.run.dir=run", "num_epochs=1", "scheduler=step")

    assert "scheduler.step_size=1000: the first step comes after all 21 updates" in said.output


def test_the_table_names_the_epoch_whose_weights_were_tested(command, here):
    called(
        train.main, "hydra.run.dir=run", "num_epochs=9", "lr=0.3", "early_stopping=patience",
        "early_stopping.patience.patience=1", cwd=here,
    )  # fmt: skip

    rows = json.loads((here / "run" / "summary.json").read_text())["metrics"]
    of_loss = {row["split"]: row for row in rows if row["metric"] == "loss"}
    assert of_loss["valid"]["epoch_of_best"] < of_loss["valid"]["last_epoch"]
    assert of_loss["test"]["epoch_of_best"] == of_loss["valid"]["epoch_of_best"]


def test_a_groups_lr_applies_beside_another_rate_of_the_schedule(command, here):
    group = "{match:{tag:last},lr:0.1}"
    ended = command("hydra.run.dir=run", "num_epochs=1", "scheduler=cosine",
                    "scheduler.initial_lr=0.02", f"+param_groups.head={group}")  # fmt: skip

    line = "lr=0.001 is used by no part of scheduler, which has rates of its own: Cosine("
    assert line in ended.output
    groups = json.loads((here / "run" / "param_groups.json").read_text())
    assert [groups[name]["lr"] for name in ("head", "base")] == [pytest.approx(0.1), 0.02]
    assert groups["base"]["schedule"].startswith("Cosine(initial_lr=0.02, ")


def test_an_accumulation_longer_than_an_epoch_is_warned_of(command):
    line = "grads_accumulation=22: an update takes the batches of one epoch at most, here 21"
    assert line in command("grads_accumulation=22").output
    assert line[:18] not in command("grads_accumulation=21").output
