"""Processes that save checkpoints and are killed: prints what each of them left, as a line of JSON.

    python killed.py FOLDER ROUNDS SEED KIND    KIND is the function that makes a checkpoint

Each is a fork of this process, so that it need not import torch again.
"""

import json
import os
import random
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path

import checkpoints_made
import torch
from checkpoints_made import equal

from andiron.checkpoint import Checkpoint, FileCheckpointer, KeepLast, checkpointer, newest_whole

MEGABYTES, APART = 2, 10
Made = Callable[..., Checkpoint]


def saves_for_ever(folder: Path, ready: int, made: Made) -> None:
    """The child's program: resumes from the newest checkpoint and saves without a pause."""
    checkpointer.SECONDS_BETWEEN_WRITES = 0.0
    saver, updates = FileCheckpointer(folder, KeepLast(2)), 0
    if any(folder.glob("step-*")):
        path, actual = newest_whole(folder)
        saver.adopt(path, actual)
        updates = actual.state["updates"]
    os.write(ready, b".")
    while True:
        updates += APART
        saver.save(updates, made(updates, megabytes=MEGABYTES), {})


def killed(folder: Path, seconds: float, made: Made) -> None:
    """Has a child save for so long, from when it is ready, and kills it."""
    reader, ready = os.pipe()
    child = os.fork()
    if child == 0:
        saves_for_ever(folder, ready, made)
    os.close(ready)
    os.read(reader, 1)
    os.close(reader)
    time.sleep(seconds)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)


def main() -> None:
    folder, rounds, draw = Path(sys.argv[1]), int(sys.argv[2]), random.Random(int(sys.argv[3]))
    made: Made = getattr(checkpoints_made, sys.argv[4])
    torch.set_num_threads(1)
    for number in range(rounds):
        killed(folder, draw.uniform(0.05, 0.25) if number == 0 else draw.uniform(0.0, 0.15), made)
        names = sorted(path.name for path in folder.iterdir())
        if not any(name.startswith("step-") for name in names):
            left = {"updates": 0, "whole": True}
        else:
            path, actual = newest_whole(folder)
            updates = actual.state["updates"]
            left = {
                "updates": updates,
                "whole": equal(actual, made(updates, megabytes=MEGABYTES))
                and path.name == f"step-{updates}",
            }
        print(json.dumps({**left, "names": names}), flush=True)


if __name__ == "__main__":
    main()
