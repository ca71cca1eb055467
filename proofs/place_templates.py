"""The runs, inputs and expected results that all attempts at places copy from."""

import shutil
import sys
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from unittest import mock

import torch
from PIL import Image

from andiron.interrupter import Interrupter
from andiron.run_folder import RunFolder
from andiron.shell.training import train_run
from proofs import place_ground
from proofs.attempt import attempt, jobs_forked_here, made_run, trained
from proofs.place_commands import QUICK, RESULTS, called
from proofs.place_ground import Ground

SECONDS = 120


def make_templates(folder: Path) -> None:
    """Makes the runs, inputs and expected results that all attempts copy from."""
    made_run(folder / "done", *QUICK)
    made_run(folder / "other", *QUICK, "seed=7")

    def stopped() -> int:
        def rule(split: str, updates: int, batch: int) -> str | None:
            return "stopped" if updates >= 2 else None

        sys.argv = ["train", *QUICK, f"hydra.run.dir={folder / 'interrupted'}"]
        whole = train_run.train

        def train_until(config, run_dir, record, interrupter, trusted, share):
            return whole(config, run_dir, record, Interrupter(stop_rule=rule), trusted, share)

        with mock.patch.object(train_run, "train", train_until):
            return trained()

    _make(stopped, folder, code=130)
    shutil.copytree(folder / "interrupted", folder / "killed")
    status = RunFolder(folder / "killed").status
    status.write_text(status.read_text().replace('"interrupted"', '"running"'))

    def swept() -> int:
        sys.argv = ["train", *QUICK, "-m", "seed=1", f"hydra.sweep.dir={folder / 'sweep'}"]
        with jobs_forked_here():
            return trained()

    _make(swept, folder)
    Image.new("L", (4, 4)).save(folder / "input.png")
    torch.save({"layer.weight": torch.arange(6.0)}, folder / "weights.pt")
    (folder / "expected").mkdir()
    with ExitStack() as at_end:
        ground = Ground(folder / "work", folder, at_end)
        at_end.callback(shutil.rmtree, ground.work)
        place_ground.laid_out(ground)
        for command in RESULTS:
            if command.is_file:
                expected = folder / "expected" / f"{command.name}{command.suffix}"
                _make(called(command, ground, str(expected)), folder)


def _make(command: Callable[[], int], folder: Path, code: int = 0) -> None:
    made = attempt(command, may_write=[folder], forbidden=folder / "none", seconds=SECONDS)
    if made.code != code:
        raise RuntimeError(f"exit code {made.code}: {made.output}")
