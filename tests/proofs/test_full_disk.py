"""A disk that is full, for real: whole runs on a small file system of their own, and in folders
that vanish or refuse.
"""

import shutil
import subprocess

import pytest

from andiron_lab.ask import bit_comparison
from small_disks import fill, mounted
from train_processes import Training, lines, status, trained, updates_saved

RUN = (
    "model.hidden=[64]", "batch_size=20", "num_epochs=6", "log_every=10",
    "checkpoint.every=1", "checkpoint.last=3", "device=cpu", "render=plain",
)  # fmt: skip
LAST_UPDATE = 65 * 6
LAST_WORDS = (
    " could not be written (No space left on device); free space there, or make it writable: "
    "resume={} then continues from the newest checkpoint\n"
)
pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("preloaded_processes")]


@pytest.fixture(scope="module")
def straight(made_once):
    """The run of `RUN`, made where there is room."""
    return made_once("roomy", lambda cwd: trained(cwd, *RUN, "hydra.run.dir=run")) / "run"


@pytest.fixture
def disk(tmp_path):
    with mounted(tmp_path / "disk", mebibytes=4) as folder:
        yield folder


GATES = """
import pathlib, time

class Gates:
    def after_update(self, learner, step):
        gate = pathlib.Path(f"gate-{step.updates}")
        while step.updates in (100, 200, 300) and not gate.exists():
            time.sleep(0.01)
"""
GATED = (*RUN, "+observers={gates: {_target_: gates.Gates}}")


@pytest.fixture
def opened(tmp_path):
    """Opens gates: a run of `GATED` waits at each until then, however slow the machine is."""
    (tmp_path / "gates.py").write_text(GATES)

    def let_through(*updates):
        for number in updates:
            (tmp_path / f"gate-{number}").touch()

    return let_through


def resume_of(run_dir):
    return f"resume={run_dir}", "trust=[gates]"


def is_in_training(run_dir):
    return len(lines(run_dir)) > 5


def said_of_a_full_disk(process):
    """Both of what is logged, and of a checkpoint."""
    return (
        "cannot be written (No space left on device)" in process.output
        and "COULD NOT BE WRITTEN" in process.output
    )


def test_a_disk_that_is_full_for_a_while_costs_nothing(disk, tmp_path, straight, opened):
    run_dir = disk / "run"
    with Training(tmp_path, *GATED, f"hydra.run.dir={run_dir}") as process:
        process.until(lambda: is_in_training(run_dir))
        filler = fill(disk)
        opened(100)
        process.until(lambda: said_of_a_full_disk(process))
        saved = updates_saved(run_dir)
        filler.unlink()
        opened(200)
        process.until(lambda: f"{run_dir / 'metrics.jsonl'} is written again" in process.output)
        assert status(run_dir)["status"] == "running"
        opened(300)
        assert process.end() == 0

    assert saved and saved[-1] < updates_saved(run_dir)[-1] == LAST_UPDATE
    assert status(run_dir)["status"] == "done"
    assert bit_comparison.compare(straight, run_dir) == []
    said = (run_dir / "experiment.log").read_text()
    assert "No space left on device" in said and said.count("epoch 6/6") == 1


def test_a_full_disk_ends_the_run_with_advice_and_loses_no_whole_file(
    disk, tmp_path, straight, opened
):
    run_dir = disk / "run"
    with Training(tmp_path, *GATED, f"hydra.run.dir={run_dir}") as process:
        process.until(lambda: is_in_training(run_dir))
        before = updates_saved(run_dir)
        fill(disk)
        opened(100)
        process.until(lambda: said_of_a_full_disk(process))
        filler = fill(disk)  # what half a checkpoint took is free again
        opened(200, 300)
        assert process.end() == 1
        said, last_words = process.output, process.errors
    assert "free space there, or make the folder writable" in said
    assert last_words.startswith(f"error: {run_dir}") and last_words.endswith(
        LAST_WORDS.format(run_dir)
    )
    assert before[-1] <= updates_saved(run_dir)[-1] < LAST_UPDATE
    assert not (run_dir / "model.safetensors").exists() and not list(run_dir.rglob("*.partial"))
    assert status(run_dir)["status"] in ("running", "failed")  # the truth may have found no room

    filler.unlink()
    trained(tmp_path, *resume_of(run_dir))
    assert status(run_dir)["status"] == "done"
    assert bit_comparison.compare(straight, run_dir) == []


def test_a_disk_that_is_full_from_the_start_is_reported_at_once(disk, tmp_path):
    fill(disk)
    with Training(tmp_path, *RUN, f"hydra.run.dir={disk / 'run'}") as process:
        assert process.end() == 1
        assert process.errors.startswith(f"error: {disk / 'run'}")
        assert "(No space left on device)" in process.errors and "hydra.run.dir=" in process.errors
    assert updates_saved(disk / "run") == []


def test_a_resume_on_a_full_disk_reports_it_and_later_continues_exactly(
    disk, tmp_path, straight, opened
):
    run_dir = disk / "run"
    with Training(tmp_path, *GATED, f"hydra.run.dir={run_dir}") as process:
        process.until(lambda: is_in_training(run_dir) and len(updates_saved(run_dir)) > 1)
        process.process.kill()
        process.process.wait()
    opened(100, 200, 300)
    filler, saved = fill(disk), updates_saved(run_dir)
    with Training(tmp_path, *resume_of(run_dir)) as process:
        assert process.end() == 1
        said = process.errors
    assert said.startswith(f"error: {run_dir}") and said.endswith(LAST_WORDS.format(run_dir))
    assert updates_saved(run_dir)[-1] >= saved[-1]

    filler.unlink()
    trained(tmp_path, *resume_of(run_dir))
    assert bit_comparison.compare(straight, run_dir) == []


def test_a_run_whose_folder_is_removed_says_so_and_ends_with_its_weights(
    tmp_path, straight, opened
):
    run_dir = tmp_path / "run"
    with Training(tmp_path, *GATED, "hydra.run.dir=run") as process:
        process.until(lambda: is_in_training(run_dir))
        run_dir.rename(tmp_path / "gone")  # at once, whatever is written there meanwhile
        shutil.rmtree(tmp_path / "gone")
        opened(100, 200, 300)
        assert process.end() == 0
        said = process.output
    assert (
        f"{run_dir / 'metrics.jsonl'} was removed, with all that was in it; what comes goes to a "
        "new file" in said
    )
    assert (run_dir / "model.safetensors").read_bytes() == (
        straight / "model.safetensors"
    ).read_bytes()
    assert status(run_dir)["status"] == "done"
    numbers = [line["updates"] for line in lines(run_dir)]
    assert numbers == sorted(numbers) and 0 < len(numbers) < len(lines(straight))
    assert updates_saved(run_dir)[-1] == LAST_UPDATE


@pytest.fixture
def immutable():
    """Makes folders that not even root may write to; they can be written to again afterwards."""
    made = []

    def make(folder):
        done = subprocess.run(["chattr", "+i", str(folder)], capture_output=True, text=True)
        if done.returncode:
            pytest.skip(f"no folder can be made immutable here: {done.stderr.strip()}")
        made.append(folder)

    if shutil.which("chattr") is None:
        pytest.skip("needs chattr")
    yield make
    for folder in made:
        subprocess.run(["chattr", "-i", str(folder)], check=True)


def test_a_run_that_cannot_write_checkpoints_reports_it_and_keeps_old_ones(
    tmp_path, straight, immutable, opened
):
    run_dir = tmp_path / "run"
    with Training(tmp_path, *GATED, "hydra.run.dir=run") as process:
        process.until(lambda: is_in_training(run_dir))
        immutable(run_dir / "checkpoints")
        opened(100)
        process.until(lambda: "COULD NOT BE WRITTEN" in process.output)
        saved = updates_saved(run_dir)
        opened(200, 300)
        assert process.end() == 1
        said, last_words = process.output, process.errors
    shelf = run_dir / "checkpoints"
    assert (
        f"COULD NOT BE WRITTEN in {shelf} (Operation not permitted); the newest intact one there "
        "is step-" in said
    )
    assert saved and updates_saved(run_dir) == saved
    assert last_words.startswith(f"error: {shelf}: the newest checkpoint could not be written; ")
    assert (
        "not written, and lost when this process ends: step-"
        in (run_dir / "experiment.log").read_text()
    )
    assert (run_dir / "model.safetensors").read_bytes() == (
        straight / "model.safetensors"
    ).read_bytes()
    assert lines_compared(run_dir) == lines_compared(straight)


def lines_compared(run_dir):
    """The lines of metrics.jsonl without the machine's usage."""
    machine = ("time/", "system/")
    return [
        {name: value for name, value in line.items() if not name.startswith(machine)}
        for line in lines(run_dir)
    ]
