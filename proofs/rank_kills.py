"""A run that torchrun trains, whose processes are found by a mark, to kill one or all."""

import os
import subprocess
import sys
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from andiron_lab.ask import bit_comparison
from proofs.sweep_kills import MARK, processes

ROOT = Path(__file__).resolve().parents[1]


@dataclass(frozen=True)
class Run:
    """A run in a folder, and the mark in the environment of its processes."""

    folder: Path
    mark: str
    options: Sequence[str]
    size: int = 2

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
