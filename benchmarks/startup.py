"""How long a run takes to begin, and how long the smallest whole one takes, in processes of their
own.

    python benchmarks/startup.py [--rounds N]

Everything is timed from just before the process is started. One round goes unmeasured, so that
files come from the cache and modules are compiled, which PYTHONDONTWRITEBYTECODE would undo; torch
chooses the number of threads, as it does for whoever types the command.
"""

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import rounds

HERE = Path(__file__).resolve().parent
TRAIN, ROOT = HERE.parent / "train.py", HERE.parent
ALLOWED_SECONDS = 1.0  # that the first update may come after torch is there: our own goal
IMPORT = "`import torch`, until it is there"
FIRST = "`python train.py`, until its first update is done"
WHOLE = "`python train.py num_epochs=1`, until it has exited"
BARE = "bare torch + torchvision + TensorBoard script"


def until_exit(command: Callable[[str], list[str]]) -> float:
    """Seconds until the process has exited; `command` is told a folder for what it writes."""
    with tempfile.TemporaryDirectory() as folder:
        started = time.time()
        _run([sys.executable, *command(f"{folder}/run")])
        return time.time() - started


def until_said(command: Callable[[str, float], list[str]]) -> float:
    """Seconds that the process itself says, in its last line; `command` is also told when it
    starts.
    """
    with tempfile.TemporaryDirectory() as folder:
        return float(_run([sys.executable, *command(f"{folder}/run", time.time())]).split()[-1])


def _run(command: list[str]) -> str:
    environment = {**os.environ, "PYTHONDONTWRITEBYTECODE": ""}
    finished = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True)
    if finished.returncode:
        raise SystemExit(f"{' '.join(command)} failed:\n{finished.stdout}{finished.stderr}")
    return finished.stdout


SIDES = {
    IMPORT: lambda: until_said(
        lambda _, start: ["-c", f"import torch, time; print(time.time() - {start!r})"]
    ),
    "`python -c 'import torch'`, until it has exited": lambda: until_exit(
        lambda _: ["-c", "import torch"]
    ),
    FIRST: lambda: until_said(
        lambda run, start: [str(HERE / "first_update.py"), repr(start), f"hydra.run.dir={run}"]
    ),
    WHOLE: lambda: until_exit(lambda run: [str(TRAIN), "num_epochs=1", f"hydra.run.dir={run}"]),
    BARE: lambda: until_exit(lambda run: [str(HERE / "bare_script.py"), run]),
}


def verdicts(seconds: rounds.Seconds) -> str:
    """The first update against the import of torch, and the whole run against the bare script."""
    median = {side: statistics.median(measured) for side, measured in seconds.items()}
    later = median[FIRST] - median[IMPORT]
    within = "within" if later <= ALLOWED_SECONDS else "MORE THAN"
    shorter = "not longer than" if median[WHOLE] <= median[BARE] else "LONGER THAN"
    return (
        f"first update: {later:.2f} s after torch is imported, {within} the {ALLOWED_SECONDS:.1f} "
        "s allowed\n"
        f"one epoch: {median[WHOLE]:.2f} s, {shorter} the bare script's {median[BARE]:.2f} s "
        f"({median[WHOLE] / median[BARE]:.2f} of it)"
    )


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rounds", type=int, default=7, help="measured rounds (default: 7)")
    number = parser.parse_args().rounds
    seconds = rounds.interleaved(SIDES, number)
    print(f"from start to first update and to exit; {number} rounds\n{rounds.machine()}\n")
    print(rounds.compared(seconds), verdicts(seconds), sep="\n\n")


if __name__ == "__main__":
    main()
