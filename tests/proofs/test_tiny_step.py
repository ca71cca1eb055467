"""The price of everything around a tiny step, beside a bare loop with torch's DataLoader.

Calls are counted: their number is nearly the same in every run and on every machine, so that a
small regression shows. Time is measured too, for what one call costs. It is CPU time of one thread,
so that waiting for a core that others hold does not count, but a neighbour who fills the caches
slows the many small calls of Python more than the few large ones of a DataLoader: the same code
took 0.70 and 0.88 of the bare loop on two machines. The sides take turns, and what counts is the
median of the ratios of the rounds. More rounds are added, a few times, and none is ever dropped:
noise averages out, while a real regression moves the median, so that trying again cannot hide it.
"""

import json
import statistics
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
MOST_CALLS = 0.66  # of the bare loop's; 0.657 with Python 3.11
ROUNDS, TRIES = 3, 4
# in a process of its own, as the tests check the types of every call
SCRIPT = """
import cProfile, json, pstats, sys, time
sys.path[:0] = [{benchmarks!r}, {source!r}]
import torch
torch.set_num_threads(1)
import overhead, rounds
def chosen(epochs):
    _, sides = overhead.digits(epochs)
    return {{name: sides[name] for name in ("bare DataLoader loop", "Andiron, everything on")}}
{measure}
"""
CALLS = """
def calls(side):
    profile = cProfile.Profile()
    profile.runcall(side)
    return pstats.Stats(profile).total_calls
for side in chosen(1).values():
    side()  # imports
print(json.dumps({name: calls(side) for name, side in chosen(50).items()}))
"""
SECONDS = f"""
time.perf_counter = time.process_time  # which the benchmarks' stopwatch reads
print(json.dumps(rounds.interleaved(chosen(50), {ROUNDS})))
"""


def measured(measure: str) -> list:
    """The numbers of the bare loop and of Andiron that the script prints."""
    script = SCRIPT.format(
        benchmarks=str(ROOT / "benchmarks"), source=str(ROOT / "src"), measure=measure
    )
    command = [sys.executable, "-c", script]
    done = subprocess.run(command, capture_output=True, text=True, timeout=3600)
    assert done.returncode == 0, done.stderr
    return [*json.loads(done.stdout.splitlines()[-1]).values()]


def test_a_tiny_step_makes_fewer_calls_than_a_bare_dataloader_loop():
    bare, ours = measured(CALLS)
    assert ours / bare < MOST_CALLS, f"{ours:,} calls, of the bare loop {bare:,}"


def test_a_tiny_step_takes_less_time_than_a_bare_dataloader_loop():
    ratios: list[float] = []
    for _ in range(TRIES):
        bare, ours = measured(SECONDS)
        ratios += [mine / theirs for mine, theirs in zip(ours, bare, strict=True)]
        if statistics.median(ratios) < 1:
            return
    result = ", ".join(f"{ratio:.2f}" for ratio in ratios)
    raise AssertionError(f"median {statistics.median(ratios):.2f}, not below 1: {result}")
