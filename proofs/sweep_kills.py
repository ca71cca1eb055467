"""Ends a sweep at random moments, by SIGKILL or by two Ctrl-C: none of its jobs is left, and the
same command completes it, with the bits of a sweep that nobody disturbed.

    python -m proofs.sweep_kills --trials 20 --also hydra/sweeper=race lr=1e-3,1e-2
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
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

PROGRAM = "import sys; from andiron.shell.training import train; sys.exit(train.script())"
SWEEP = (
    "-m", "seed=1,2,3", "jobs=2", "num_epochs=2", "model.hidden=[32]", "batch_size=20",
    "checkpoint.every=5", "device=cpu", "render=plain",
)  # fmt: skip
MARK = "ANDIRON_SWEEP_KILLED"  # in the environment of every process of a trial
# signals to the process of the sweep, one shortly after the other
WAYS = ((signal.SIGKILL,), (signal.SIGINT, signal.SIGINT))
SECONDS_BETWEEN_SIGNALS = 0.02
SECONDS_AT_MOST = 120.0  # until the last process is gone, or a command has ended; --seconds


@dataclass(frozen=True)
class Killed:
    """The result of a sweep that was ended after `seconds`."""

    by: str
    after: float
    gone_after: float | None  # None: processes were left
    jobs_ended: int
    exit_code: int  # of the same command, given again
    is_same: bool

    @property
    def is_sound(self) -> bool:
        """Whether nothing was left, and the sweep was completed with the same bits."""
        return self.gone_after is not None and self.exit_code == 0 and self.is_same


def started(folder: Path, mark: str, also: Sequence[str]) -> subprocess.Popen[bytes]:
    """The command of a sweep in a folder, its output beside it."""
    command = [sys.executable, "-c", PROGRAM, *SWEEP, *also, f"hydra.sweep.dir={folder}"]
    with folder.with_suffix(".txt").open("ab") as output:
        return subprocess.Popen(
            command,
            stdout=output,
            stderr=output,
            stdin=subprocess.DEVNULL,
            env={**os.environ, MARK: mark},
            start_new_session=True,
        )


def processes(mark: str) -> list[int]:
    """The processes that are left of a trial."""
    needle, actual = f"{MARK}={mark}".encode(), []
    for path in Path("/proc").glob("[0-9]*/environ"):
        try:
            if needle in path.read_bytes().split(b"\0"):
                actual.append(int(path.parent.name))
        except OSError:  # it has just ended, or is somebody else's
            continue
    return actual


def trial(
    folder: Path,
    after: float,
    way: tuple[signal.Signals, ...],
    weights: dict[str, bytes],
    also: Sequence[str] = (),
    most: float = SECONDS_AT_MOST,
) -> Killed:
    """A sweep that is ended after `after` seconds, and repaired in `most` seconds."""
    mark = secrets.token_hex(8)
    process = started(folder, mark, also)
    time.sleep(after)
    for number in way:
        process.send_signal(number)
        time.sleep(SECONDS_BETWEEN_SIGNALS)
    process.wait()
    killed = time.monotonic()
    while processes(mark) and time.monotonic() - killed < most:
        time.sleep(0.05)
    gone_after = None if processes(mark) else time.monotonic() - killed
    ledger = folder / "sweep.jsonl"
    ended = ledger.read_text().count('"event": "ended"') if ledger.exists() else 0
    code = started(folder, mark, also).wait(timeout=most)
    by = ", ".join(value.name for value in way)
    return Killed(by, after, gone_after, ended, code, trained(folder) == weights)


def trained(folder: Path) -> dict[str, bytes]:
    """The weights of each job."""
    paths = sorted(folder.glob("*/model.safetensors"))
    return {path.parent.name: path.read_bytes() for path in paths}


def main() -> int:
    """Runs the trials; 0 if every one is sound."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--trials", type=int, default=20)
    parser.add_argument("--seed", type=int, default=None, help="of the moments of the kills")
    parser.add_argument("--also", nargs="*", default=[], help="arguments to add to the sweep")
    seconds = "for a sweep to end, or its last process after a kill"
    parser.add_argument("--seconds", type=float, default=SECONDS_AT_MOST, help=seconds)
    options = parser.parse_args()
    also: list[str] = options.also
    chance = random.Random(options.seed)
    folder = Path(tempfile.mkdtemp(prefix="sweep-kills-"))
    begun = time.monotonic()
    if started(folder / "whole", secrets.token_hex(8), also).wait(timeout=options.seconds):
        print((folder / "whole.txt").read_text(), file=sys.stderr)
        return 1
    length, weights = time.monotonic() - begun, trained(folder / "whole")
    sound = 0
    for number in range(1, options.trials + 1):
        after, way = chance.uniform(0.1, 1) * length, WAYS[number % len(WAYS)]
        result = trial(folder / str(number), after, way, weights, also, options.seconds)
        sound += result.is_sound
        print(f"{number}: {'sound' if result.is_sound else 'BROKEN'} {result}", flush=True)
    print(f"{sound} of {options.trials} sound")
    if sound == options.trials:
        shutil.rmtree(folder)
    return 0 if sound == options.trials else 1


if __name__ == "__main__":
    sys.exit(main())
