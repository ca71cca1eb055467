"""`strategy=fsdp` under SIGKILL: torchrun starts its processes again, and no bit differs.

24 kills, as ANDIRON_KILLS=24 asks for, take ten minutes of two cores.
"""

import os
import random
import secrets
import signal
import time
from contextlib import suppress

import pytest

from proofs.rank_kills import Run

KILLS = int(os.environ.get("ANDIRON_KILLS", "2"))
KILLS_OF_A_RUN = 6
SECONDS_AT_MOST = 600.0  # until a checkpoint is written, or a run is done
FSDP = "strategy=fsdp"
pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("preloaded_processes")]


@pytest.fixture(scope="module")
def options(tmp_path_factory):
    """Options of every run: dropout, averaged weights, clipping, two blocks, validations."""
    text = tmp_path_factory.mktemp("text") / "text.txt"
    text.write_text("".join(random.Random(0).choices("abcdefghijklmnopqrstuvw", k=4000)))
    return (
        "data=text", f"data.path={text}", "data.context_length=16", "model=gpt", "model.layers=2",
        "model.dim=16", "model.heads=2", "model.dropout=0.2", "task.sample_length=8",
        "optimizer=adamw", "averages=ema", "clip=0.1", "slices=4", "batch_size=24", "num_epochs=10",
        "num_updates=24", "validate_every=8", "log_every=1", "checkpoint.every=2", "device=cpu",
        "render=plain", "restart=requeued", "peer_timeout=60",
    )  # fmt: skip


@pytest.fixture(scope="module")
def straight(options, tmp_path_factory):
    """The run of one process that nobody disturbs."""
    run = Run(tmp_path_factory.mktemp("straight") / "run", secrets.token_hex(8), options)
    assert run.started().wait(SECONDS_AT_MOST) == 0, said(run)
    return run.folder


def said(run):
    """The output of a run's processes."""
    return run.folder.with_suffix(".txt").read_text()


def newest(run):
    """The updates of the newest checkpoint that has its name; 0 for none."""
    names = run.folder.glob("checkpoints/step-*")
    return max((int(name.name.partition("-")[2]) for name in names), default=0)


def reached(condition, process):
    """Whether the condition comes to hold before the process of torchrun ends."""
    deadline = time.monotonic() + SECONDS_AT_MOST
    while not condition():
        if process.poll() is not None or time.monotonic() > deadline:
            return False
        time.sleep(0.0003)
    return True


def kill(run, process, chance, is_in_writing):
    """Kills one rank or all of them, once they have written a checkpoint; says whom and when.

    None if the run ended first. Rank 0 writes.
    """
    before = newest(run)
    if not reached(lambda: newest(run) > before, process):
        return None
    ranks = run.ranks()
    one = 0 if is_in_writing else chance.choice([*ranks])
    victims = [*ranks] if chance.random() < 0.3 else [one]
    if is_in_writing and not reached(lambda: being_written(run), process):
        return None
    time.sleep(chance.uniform(0, 0.002 if is_in_writing else 0.5))
    for rank in victims:
        with suppress(ProcessLookupError):
            os.kill(ranks[rank], signal.SIGKILL)
    left = [path.name for path in being_written(run)]
    return f"{victims} after step {newest(run)}{' with ' * bool(left)}{', '.join(left)}"


def being_written(run):
    """The checkpoints without their names."""
    return [*run.folder.glob("checkpoints/.step-*.partial")]


def test_killed_ranks_are_started_again_and_change_no_bit(options, straight, tmp_path):
    chance, number, most = random.Random(54), 0, KILLS // 2
    for size in (2, 4):
        kills = []
        while len(kills) < most:
            number += 1
            run = Run(tmp_path / f"run-{number}", secrets.token_hex(8), (*options, FSDP), size)
            process = run.started(f"--max-restarts={KILLS_OF_A_RUN}")
            for _ in range(min(KILLS_OF_A_RUN, most - len(kills))):
                if killed := kill(run, process, chance, len(kills) % 2 == 1):
                    kills.append(killed)
                    print(f"{size} ranks, run {number}: {killed}", flush=True)
            assert process.wait(SECONDS_AT_MOST) == 0, said(run)
            assert run.differences(straight) == [], kills


PACE = """
import os, time

class Pace:
    def after_update(self, learner, step):
        time.sleep(float(os.environ["SECONDS_OF_AN_UPDATE"]))
"""


def test_a_run_of_parts_is_continued_by_other_numbers_and_by_copies(
    options, straight, tmp_path, monkeypatch
):
    folder = tmp_path / "run"
    (tmp_path / "pace.py").write_text(PACE)  # else a run may end before its signal arrives
    monkeypatch.setenv("PYTHONPATH", str(tmp_path), prepend=os.pathsep)
    options = (*options, "+observers={pace: {_target_: pace.Pace}}")
    phases = ((4, FSDP), (2, "strategy=ddp"), (2, FSDP), (1, "strategy=auto"))
    for number, (size, strategy) in enumerate(phases, start=1):
        run = Run(folder, secrets.token_hex(8), (*options, strategy), size)
        before, several = newest(run), ["--max-restarts=0"] if size > 1 else []
        is_last = number == len(phases)
        monkeypatch.setenv("SECONDS_OF_AN_UPDATE", "0" if is_last else "0.3")
        process = run.started(*several)
        if not is_last and reached(lambda run=run, at=before: newest(run) > at + 1, process):
            os.kill(process.pid, signal.SIGTERM)
        process.wait(SECONDS_AT_MOST)
        print(f"{size} {strategy}: {before} to {newest(run)}", flush=True)
        assert (newest(run) == 24) == is_last, said(run)
    assert run.differences(straight) == [], said(run)
