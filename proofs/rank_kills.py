"""Kills a rank at random moments of a run that torchrun starts again, or kills torchrun itself.

    python -m proofs.rank_kills --kills 50 --launchers 20

A run whose ranks were killed ends with the bits of one process that nobody disturbed. When torchrun
is killed, its ranks end, and the same command completes the run, with the same bits.
"""

import argparse
import os
import random
import secrets
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from andiron_lab.ask import bit_comparison
from proofs.sweep_kills import MARK, processes

ROOT = Path(__file__).resolve().parents[1]
RUN = (
    "slices=2", "num_epochs=6", "model.hidden=[32]", "model.dropout=0.2", "batch_size=20",
    "averages=ema", "log_every=1", "checkpoint.every=5", "device=cpu", "render=plain",
    "restart=requeued", "peer_timeout=60",
)  # fmt: skip
SIZE = 2  # processes of a run
KILLS_OF_A_RUN = 5
SECONDS_AT_MOST = 600.0  # of a run, until it is done or its processes are gone


@dataclass(frozen=True)
class Run:
    """A run in a folder, and the mark in the environment of its processes."""

    folder: Path
    mark: str
    options: Sequence[str] = RUN
    size: int = SIZE

    def started(self, *launcher: str) -> subprocess.Popen[bytes]:
        """The process of torchrun with these options, or of one that trains alone."""
        several = [f"--nproc-per-node={self.size}", *launcher] if launcher else []
        torchrun = ["-m", "torch.distributed.run", "--standalone", *several] if several else []
        command = [sys.executable, *torchrun, ROOT / "train.py", *self.options]
        with self.folder.with_suffix(".txt").open("ab") as output:
            return subprocess.Popen(
                [*command, f"hydra.run.dir={self.folder}"],
                stdout=output,
                stderr=output,
                stdin=subprocess.DEVNULL,
                env={**os.environ, MARK: self.mark, "OMP_NUM_THREADS": "1"},
                start_new_session=True,
            )

    def ranks(self) -> dict[int, int]:
        """The process of each rank that runs now."""
        return ranks(processes(self.mark))

    def differences(self, straight: Path) -> list[str]:
        """Differences from the undisturbed run."""
        return [str(value) for value in bit_comparison.compare(straight, self.folder)]


def ranks(candidates: Iterable[int]) -> dict[int, int]:
    """The processes that torchrun has started, by their rank."""
    by_rank = {}
    for process in candidates:
        with suppress(OSError):  # it has just ended
            variables = Path(f"/proc/{process}/environ").read_bytes().split(b"\0")
            pairs = dict(pair.split(b"=", 1) for pair in variables if b"=" in pair)
            if b"RANK" in pairs:
                by_rank[int(pairs[b"RANK"])] = process
    return by_rank


def killed_ranks(run: Run, chance: random.Random, seconds: float, most: int) -> list[str]:
    """Kills up to `most` ranks of a run, each within `seconds` of a start; who was killed when."""
    process, killed, seen = run.started(f"--max-restarts={most}"), [], set[int]()
    while len(killed) < most:
        while process.poll() is None and len(ranks := set(run.ranks().values()) - seen) < SIZE:
            time.sleep(0.02)
        after = chance.uniform(0, seconds)
        with suppress(subprocess.TimeoutExpired):
            process.wait(after)
        living = sorted(run.ranks().items())
        if process.poll() is not None or not living:
            break
        rank, victim = chance.choice(living)
        seen |= ranks
        os.kill(victim, signal.SIGKILL)
        killed.append(f"rank {rank} after {after:.1f} s")
    if process.wait(SECONDS_AT_MOST):
        killed.append("FAILED")
    return killed


def killed_launcher(run: Run, after: float) -> float | None:
    """Kills torchrun, and gives the same command again; how many seconds its ranks outlived it.

    None if the run ended first.
    """
    process = run.started("--max-restarts=0")
    with suppress(subprocess.TimeoutExpired):
        process.wait(after)
        return None
    process.kill()
    process.wait()
    killed = time.monotonic()
    while processes(run.mark):
        if time.monotonic() - killed > SECONDS_AT_MOST:
            raise TimeoutError(f"processes {processes(run.mark)} are left")
        time.sleep(0.02)
    gone_after = time.monotonic() - killed
    run.started("--max-restarts=0").wait(SECONDS_AT_MOST)
    return gone_after


def main() -> int:
    """Runs the trials; 0 if every run has the bits of the straight one."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kills", type=int, default=50, help="of ranks")
    parser.add_argument("--launchers", type=int, default=20, help="of torchrun")
    parser.add_argument("--seed", type=int, default=None, help="of the moments of the kills")
    options = parser.parse_args()
    chance = random.Random(options.seed)
    folder = Path(tempfile.mkdtemp(prefix="rank-kills-"))
    straight = Run(folder / "straight", secrets.token_hex(8))
    straight.started().wait(SECONDS_AT_MOST)
    begun = time.monotonic()
    Run(folder / "several", secrets.token_hex(8)).started("--max-restarts=0").wait(SECONDS_AT_MOST)
    length, kills, broken, number = time.monotonic() - begun, 0, 0, 0
    longest = 0.0
    while kills < options.kills:
        number += 1
        run = Run(folder / f"ranks-{number}", secrets.token_hex(8))
        killed = killed_ranks(run, chance, length, min(KILLS_OF_A_RUN, options.kills - kills))
        kills += sum("rank" in value for value in killed)
        broken += _reported(run, straight.folder, ", ".join(killed) or "finished before")
    launchers = 0
    while launchers < options.launchers:
        number += 1
        run = Run(folder / f"launcher-{number}", secrets.token_hex(8))
        after = chance.uniform(0, 0.7 * length)
        gone_after = killed_launcher(run, after)
        said = "finished before"
        if gone_after is not None:
            launchers += 1
            longest = max(longest, gone_after)
            said = f"torchrun after {after:.1f} s, its ranks gone {gone_after:.1f} s later"
        broken += _reported(run, straight.folder, said)
    print(
        f"{kills} kills of ranks, {launchers} of torchrun (ranks gone within "
        f"{longest:.1f} s): {broken} of {number} runs BROKEN"
    )
    if not broken:
        shutil.rmtree(folder)
    return int(broken > 0)


def _reported(run: Run, straight: Path, killed: str) -> bool:
    """Prints how a run ended; whether it is broken."""
    try:
        differences = run.differences(straight)
    except Exception as error:  # a run that did not end whole
        differences = [str(error)]
    left = processes(run.mark)
    problems = [*differences[:3], *([f"processes {left} are left"] if left else [])]
    verdict = f"BROKEN ({run.folder}): {problems}" if problems else "the same bits"
    print(f"{run.folder.name}: {killed}: {verdict}", flush=True)
    return bool(problems)


if __name__ == "__main__":
    sys.exit(main())
