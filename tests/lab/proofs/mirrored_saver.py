"""Saves checkpoints of a known content in a run's folder, which is mirrored: FOLDER ADDRESS."""

import sys
import time
from pathlib import Path

import torch

from andiron.checkpoint import Checkpoint, FileCheckpointer, KeepLast, newest_whole
from andiron.run_folder import RunFolder
from andiron.shell.run import run_record
from andiron_lab import mirror
from andiron_lab.mirror import uploads

NUMBERS = 2**17  # of a tensor: half a megabyte


def state(updates: int) -> Checkpoint:
    """A checkpoint of 2 MB; each number is a function of the updates."""
    stream = torch.Generator().manual_seed(updates)
    model = {f"{name}.weight": torch.randn(NUMBERS, generator=stream) for name in "ab"}
    moments = {f"{name}/exp_avg": tensor * 0.1 for name, tensor in model.items()}
    return Checkpoint(model, moments, {"updates": updates})


def main(path: str, address: str) -> None:
    uploads.LONGEST_PAUSE = 2.0
    folder, begin = RunFolder(Path(path)), 0
    if not folder.path.exists():
        folder.path.mkdir()
        run_record.begin(folder)
        run_record.write(folder, {folder.config: b"{}"})
    saver = FileCheckpointer(folder.checkpoints, KeepLast(2), run=run_record.identity(folder))
    if folder.has_checkpoint():
        newest = newest_whole(folder.checkpoints)
        saver.adopt(*newest)
        begin = newest[1].state["updates"]
    with mirror.mirrored(folder.path, address, wait=120):
        for updates in range(begin + 1, begin + 400):
            saver.save(updates, state(updates), {})
            saver.wait()
            time.sleep(0.02)


if __name__ == "__main__":
    main(*sys.argv[1:])
