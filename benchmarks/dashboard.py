"""The CPU time that the thread of the dashboard takes during a run on a terminal.

    python benchmarks/dashboard.py [--size ROWS COLUMNS] [OVERRIDE ...]
"""

import argparse
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
INSIDE = "--inside"  # this process has the terminal
OVERRIDES = ["num_epochs=100"]  # of the digits


def train(overrides: list[str]) -> None:
    """Trains with the dashboard, and prints the share of its thread of the time that it was shown.
    """
    from andiron.shell.training import train
    from andiron.wings.screen import terminal

    seconds: list[float] = []
    show = terminal.show

    def timed(
        own: terminal.Terminal, view: Callable, press: Callable, is_over: threading.Event
    ) -> None:
        started, worked = time.perf_counter(), time.thread_time()
        show(own, view, press, is_over)
        seconds.extend((time.thread_time() - worked, time.perf_counter() - started))

    terminal.show = timed
    sys.argv = ["train.py", "render=dashboard", *overrides]
    train.main()
    cpu, shown = seconds
    print(f"drawing: {cpu:.2f} s of CPU in {shown:.1f} s, {100 * cpu / shown:.1f} % of a core")


def main() -> None:
    if sys.argv[1:2] == [INSIDE]:
        train(sys.argv[2:])
        return
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--size", nargs=2, default=["30", "100"])
    parser.add_argument("overrides", nargs="*", default=OVERRIDES)
    options = parser.parse_args()
    terminal = [sys.executable, "-m", "proofs.terminal", "--size", *options.size]
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, __file__, INSIDE, f"hydra.run.dir={folder}/run"]
        environment = {"PYTHONPATH": str(ROOT / "src"), "TERM": "xterm-256color"}
        finished = subprocess.run(
            [*terminal, *command, *options.overrides],
            cwd=ROOT, env=os.environ | environment, capture_output=True, text=True, check=True,
        )  # fmt: skip
    print(*options.size, finished.stdout.splitlines()[-1])


if __name__ == "__main__":
    main()
