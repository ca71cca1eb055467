"""A run that cannot be lost: processes that are killed, signalled, or signalled twice, and the
run that is finished after them.
"""

import os
import re
import signal
import subprocess
import sys
import time
from contextlib import contextmanager

import pytest

import archive_store
from andiron.checkpoint import LocalStore
from andiron_lab.ask import bit_comparison
from proofs import kill_test, observed_phase
from proofs.kill_test import Hit, Trial
from train_processes import ROOT, Training, lines, status, trained, updates_saved

pytestmark = pytest.mark.usefixtures("preloaded_processes")

SCRIPT = ROOT / "scripts" / "kill_test.py"
LONG = (
    "model.hidden=[32]", "batch_size=20", "num_epochs=4", "checkpoint.every=1", "log_every=5",
    "device=cpu", "render=plain",
)  # fmt: skip
PACED = (*LONG, "+observers={pace: {_target_: pace.Pace}}")
PACE = """
import pathlib, time

class Pace:
    def after_update(self, learner, step):
        if pathlib.Path("slow").exists():
            time.sleep(0.01)
"""
SHORT = (
    "data=partial", "model.hidden=[32]", "batch_size=20", "num_epochs=2", "log_every=1",
    "device=cpu", "render=plain",
)  # fmt: skip
HELD = (*SHORT, "checkpoint.every=1", "model._target_=parts.Held")
PARTS = """
import time
from pathlib import Path

import torch
from torch import nn


class Held(nn.Module):
    def __init__(self, input_shape, num_classes, hidden, dropout):
        super().__init__()
        self.body = nn.Sequential(nn.Flatten(), nn.Linear(64, num_classes))
        self.register_buffer("steps", torch.zeros((), dtype=torch.int64))

    def forward(self, inputs):
        while self.training and self.steps == 3 and Path("hold").exists():
            Path("held").touch()
            time.sleep(0.01)
        self.steps += self.training
        return self.body(inputs)


class Forgetful(nn.Module):
    def __init__(self, input_shape, num_classes, hidden, dropout):
        super().__init__()
        self.body = nn.Sequential(nn.Flatten(), nn.Linear(64, num_classes))
        self.register_buffer("steps", torch.zeros(()), persistent=False)

    def forward(self, inputs):
        if self.training:
            self.steps += 1
            time.sleep(0.01)  # an update takes as long on every machine, nearly
        return self.body(inputs) / (1 + self.steps)
"""


@pytest.fixture(scope="module")
def straight(made_once):
    """The run of `LONG`, made straight."""
    return made_once("long", lambda cwd: trained(cwd, *LONG, "hydra.run.dir=run")) / "run"


@pytest.fixture
def slow(tmp_path):
    """While this file is there, a run of `PACED` takes seconds, so that signals meet it."""
    (tmp_path / "pace.py").write_text(PACE)
    (tmp_path / "slow").touch()
    return tmp_path / "slow"


@pytest.fixture
def parts(tmp_path):
    """The current directory of the processes, with a module `parts` of one's own."""
    (tmp_path / "parts.py").write_text(PARTS)
    return tmp_path


def is_in_training(run_dir):
    return len(lines(run_dir)) > 5


@pytest.mark.slow
@pytest.mark.usefixtures("fresh_processes")
def test_runs_killed_at_random_moments_end_with_the_same_bits(tmp_path):
    trial = Trial(
        ["num_epochs=20"], runs=1, kills=4, seed=11, at=("any", "training", "write", "weights")
    )
    outcomes = kill_test.show(trial, tmp_path)

    assert [outcome.problems for outcome in outcomes] == [[]]
    hits = [hit for outcome in outcomes for hit in outcome.hits]
    assert any(hit.phase not in (observed_phase.START, observed_phase.AFTER) for hit in hits)
    assert [path.name for path in tmp_path.iterdir()] == ["straight"]
    assert kill_test.summary(outcomes).endswith("\n1 of 1 runs end bit-identical")


@pytest.mark.slow
def test_runs_killed_while_a_checkpoint_is_written_end_with_the_same_bits(tmp_path):
    outcomes = kill_test.show(
        Trial(["num_epochs=12"], runs=1, kills=3, seed=5, at=["write"]), tmp_path
    )

    assert [outcome.problems for outcome in outcomes] == [[]]
    hits = [hit for outcome in outcomes for hit in outcome.hits]
    assert Hit("SIGKILL", observed_phase.WRITE) in hits


@pytest.mark.slow
def test_state_that_a_run_loses_is_reported_and_its_folder_kept(parts):
    command = [
        sys.executable, SCRIPT, *SHORT, "num_epochs=30", "model._target_=parts.Forgetful", "--runs",
        "1", "--seed", "1", "--at", "training", "--keep", "runs",
    ]  # fmt: skip
    environment = {**os.environ, "PYTHONPATH": str(parts)}
    done = subprocess.run(
        command, cwd=parts, env=environment, capture_output=True, text=True, timeout=400
    )

    assert (done.returncode, done.stderr) == (1, "")
    said = done.stdout.splitlines()
    assert said[0] == "moments are drawn with --seed 1" and said[1].startswith("straight: ")
    where = r"(train|valid), epoch \d+, of the (window|epoch), update \d+"  # the first after a kill
    assert re.match(rf"run 1: SIG(KILL|TERM) in .*: metrics\.jsonl: {where}: loss is ", said[2])
    assert said[-2:] == [
        "0 of 1 runs end bit-identical", f"those that do not are in {parts / 'runs'}",
    ]  # fmt: skip
    assert sorted(path.name for path in (parts / "runs").iterdir()) == ["run-1", "straight"]


@pytest.mark.slow
@pytest.mark.parametrize(("name", "restart", "code"), [
    ("SIGINT", "by_hand", 130), ("SIGUSR1", "by_hand", 138), ("SIGTERM", "requeued", 75),
])  # fmt: skip
def test_a_run_stopped_by_a_signal_resumes_exactly(tmp_path, straight, slow, name, restart, code):
    run_dir = tmp_path / "run"
    again = [*PACED, "hydra.run.dir=run", f"restart={restart}"]
    with Training(tmp_path, *again) as process:
        process.until(lambda: is_in_training(run_dir))
        process.process.send_signal(getattr(signal, name))
        assert process.end() == code
        assert process.errors.splitlines()[1:] == [
            f"{name}: the current update will be finished and saved; Ctrl-C again ends the run "
            "at once",
            f"interrupted; resume={run_dir} resumes the run from its newest checkpoint",
        ]
    assert [status(run_dir)[key] for key in ("status", "reason")] == ["interrupted", name]
    assert updates_saved(run_dir)[-1] >= lines(run_dir)[-1]["updates"]
    assert not (run_dir / "model.safetensors").exists()

    slow.unlink()
    trained(tmp_path, *(again if restart == "requeued" else ["resume=run", "trust=[pace]"]))
    assert status(run_dir)["status"] == "done"
    assert bit_comparison.compare(straight, run_dir) == []


@pytest.mark.slow
def test_any_number_of_sigterms_finishes_the_update_and_saves_it(parts):
    with held(parts) as process:
        process.process.send_signal(signal.SIGTERM)
        process.until(lambda: "SIGTERM" in process.errors)
        for _ in range(2):
            process.process.send_signal(signal.SIGTERM)
            time.sleep(0.2)
        assert not process.has_ended
        (parts / "hold").unlink()
        assert process.end() == 143

    assert updates_saved(parts / "run")[-1] == 4


@pytest.mark.slow
def test_a_second_ctrl_c_ends_the_run_at_once_and_it_resumes_exactly(parts):
    run_dir = parts / "run"
    trained(parts, *HELD, "hydra.run.dir=straight")
    with held(parts) as process:
        process.process.send_signal(signal.SIGINT)
        process.until(
            lambda: "Ctrl-C again ends the run at once" in process.errors and updates_saved(run_dir)
        )
        process.process.send_signal(signal.SIGINT)
        assert process.process.wait(timeout=60) == 130  # the update under way never ends

    result = status(run_dir)
    assert [result[key] for key in ("status", "reason")] == [
        "interrupted", "SIGINT for the second time: ended at once",
    ]  # fmt: skip
    assert 0 <= updates_saved(run_dir)[-1] <= 3
    (parts / "hold").unlink()
    trained(parts, "resume=run", "trust=[parts]")
    assert bit_comparison.compare(parts / "straight", run_dir) == []


@pytest.mark.slow
def test_a_signal_to_the_group_spares_workers_until_the_update_is_saved(tmp_path, straight, slow):
    run_dir = tmp_path / "run"
    with Training(tmp_path, *PACED, "num_workers=2", "hydra.run.dir=run") as process:
        process.until(lambda: is_in_training(run_dir))
        group = process.process.pid
        workers = children(group)
        os.killpg(group, signal.SIGTERM)
        assert process.end() == 143, process.errors
        assert "worker" not in process.errors
    assert len(workers) >= 2 and not any(is_running(pid) for pid in workers)
    assert [status(run_dir)[key] for key in ("status", "reason")] == ["interrupted", "SIGTERM"]
    assert updates_saved(run_dir)[-1] >= lines(run_dir)[-1]["updates"]

    slow.unlink()
    trained(tmp_path, "resume=run", "num_workers=0", "trust=[pace]")
    assert bit_comparison.compare(straight, run_dir) == []


@pytest.mark.slow
@pytest.mark.parametrize("name", ["SIGTERM", "SIGKILL"])
def test_a_run_ended_before_its_first_update_restarts_by_the_same_command(tmp_path, name):
    run_dir, again = tmp_path / "run", [*SHORT, "hydra.run.dir=run", "restart=requeued"]
    trained(tmp_path, *SHORT, "hydra.run.dir=straight")
    with Training(tmp_path, *again) as process:
        process.until(lambda: status(run_dir) and (run_dir / "config.json").exists())
        process.process.send_signal(getattr(signal, name))
        assert process.end() == (75 if name == "SIGTERM" else -signal.SIGKILL)
    # signalled to stop, it leaves nothing; if it was trained by then, what is whole
    result = status(run_dir).get("status")
    assert result in ((None, "interrupted") if name == "SIGTERM" else ("running",))
    assert not lines(run_dir)

    trained(tmp_path, *again)
    assert bit_comparison.compare(tmp_path / "straight", run_dir) == []


@pytest.mark.slow
def test_a_run_that_is_done_is_left_alone_by_the_same_command(tmp_path):
    again = [*SHORT, "hydra.run.dir=run", "restart=requeued"]
    trained(tmp_path, *again)
    before = contents(tmp_path / "run")

    said = trained(tmp_path, *again)
    assert said == (
        f"{tmp_path / 'run'} is done, all 2 epochs: nothing is left to do; num_epochs=... trains "
        "it for longer\n"
    )
    assert contents(tmp_path / "run") == before


@pytest.mark.slow
@pytest.mark.usefixtures("slow")
def test_of_two_processes_that_take_up_a_run_at_once_one_is_refused(tmp_path, straight):
    run_dir, again = tmp_path / "run", [*PACED, "hydra.run.dir=run", "restart=requeued"]
    with Training(tmp_path, *again) as process:
        process.until(lambda: is_in_training(run_dir))
        process.process.kill()
        process.process.wait()

    with Training(tmp_path, *again) as one, Training(tmp_path, *again) as other:
        codes = [one.end(), other.end()]
        (refused,) = [
            process.errors for process, code in zip((one, other), codes, strict=True) if code
        ]
    assert sorted(codes) == [0, 1]
    assert refused == (
        "error: another process trains the run in this folder: it has "
        f"{run_dir / 'experiment.log'} locked; end it first, or choose another hydra.run.dir\n"
    )
    assert bit_comparison.compare(straight, run_dir) == []


@contextmanager
def held(cwd):
    """A process in the midst of its fourth update, where it stays until `hold` is removed."""
    (cwd / "hold").touch()
    with Training(cwd, *HELD, "hydra.run.dir=run") as process:
        process.until((cwd / "held").exists)
        yield process


def children(pid):
    """The processes that a process started."""
    result = subprocess.run(["pgrep", "-P", str(pid)], capture_output=True, text=True)
    return [int(line) for line in result.stdout.split()]


def is_running(pid):
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def contents(run_dir):
    """Every file in a folder."""
    return {path: path.read_bytes() for path in run_dir.rglob("*") if path.is_file()}


@pytest.mark.slow
@pytest.mark.parametrize("again", ["resume=run", "restart=requeued"])
def test_a_killed_run_resumes_from_a_store_of_the_users_own(tmp_path, straight, slow, again):
    (tmp_path / "archives.py").write_text(archive_store.SOURCE)
    command = (*PACED, archive_store.OPTION, "hydra.run.dir=run", "restart=requeued")
    archives = tmp_path / "kept" / "run"
    with Training(tmp_path, *command) as process:
        process.until(lambda: len([*archives.glob("*.tar")]) > 1)
        process.process.kill()
        process.process.wait()
    run_dir = tmp_path / "run"
    assert status(run_dir)["status"] == "running" and not (run_dir / "checkpoints").exists()

    slow.unlink()
    trained(tmp_path, *(command if "restart" in again else (again, "trust=[archives,pace]")))
    assert status(run_dir)["status"] == "done"
    exec(archive_store.SOURCE, module := {})

    def store(checkpoints):
        is_local = checkpoints.parent == straight
        archives = module["Archives"]
        return LocalStore(checkpoints) if is_local else archives(checkpoints, tmp_path / "kept")

    assert bit_comparison.compare(straight, run_dir, store) == []
