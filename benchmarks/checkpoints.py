"""What a checkpoint costs beside torch.save: the training thread, the loop meanwhile, loading.

    python benchmarks/checkpoints.py [--megabytes N ...] [--rounds N] [--folder PATH]

The state is a third weights and two thirds Adam's, in tensors of a megabyte. Whatever is written
goes to a new folder in PATH (default: where temporary files go) and is removed again.
"""

import argparse
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

sys.path.insert(
    0, str(Path(__file__).resolve().parents[1] / "src")
)  # a plain checkout needs no install of its own

import torch  # noqa: E402
from torch import Tensor  # noqa: E402

import rounds  # noqa: E402
from andiron import checkpoint  # noqa: E402
from andiron.checkpoint import Checkpoint, FileCheckpointer, KeepLast  # noqa: E402
from andiron.checkpoint import checkpointer  # noqa: E402
from andiron.checkpoint.on_disk import manifest  # noqa: E402

NUMBERS = 2**18  # float32, a megabyte
Sides = dict[str, Callable[[], float]]
Tensors = dict[str, Tensor]


def state(megabytes: int) -> Checkpoint:
    """So much of it, random."""
    tensors = {f"layers.{number}": torch.randn(NUMBERS) for number in range(megabytes)}
    model = {
        name: tensor for number, (name, tensor) in enumerate(tensors.items()) if number % 3 == 0
    }
    return Checkpoint(
        model,
        {name: tensor for name, tensor in tensors.items() if name not in model},
        {"updates": 0},
    )


class Saving:
    """The sides that save: how long each holds the caller, and how long until all is written."""

    def __init__(self, made: Checkpoint, folder: Path):
        self.made = made
        self.folder = folder
        self.everything = {**made.model, **made.optimizer}
        self.there = {name: tensor.clone() for name, tensor in self.everything.items()}
        self.warm = FileCheckpointer(folder / "warm", KeepLast(1))
        self.updates = 0
        self._save(self.warm)
        self.warm.wait()

    def sides(self) -> Sides:
        """By what the rows are called."""
        return {
            "plain copy, memory that is there": self.copy,
            "plain copy, fresh memory": self.clone,
            "Andiron's save, memory used again": self.save,
            "Andiron's save, the first": self.first_save,
            "torch.save": lambda: self.torch_save(sync=False),
            "torch.save and fsync": lambda: self.torch_save(sync=True),
            "Andiron, until on the disk and read back": self.save_and_wait,
        }

    def copy(self) -> float:
        with rounds.stopwatch() as elapsed:
            for name, tensor in self.everything.items():
                self.there[name].copy_(tensor)
        return elapsed()

    def clone(self) -> float:
        with rounds.stopwatch() as elapsed:
            copies = {name: tensor.clone() for name, tensor in self.everything.items()}
        del copies
        return elapsed()

    def save(self) -> float:
        with rounds.stopwatch() as elapsed:
            self._save(self.warm)
        self.warm.wait()
        return elapsed()

    def first_save(self) -> float:
        saver = FileCheckpointer(self.folder / "first", KeepLast(1))
        with rounds.stopwatch() as elapsed:
            self._save(saver)
        saver.close()
        subprocess.run(["rm", "-r", str(self.folder / "first")], check=True)
        return elapsed()

    def save_and_wait(self) -> float:
        with rounds.stopwatch() as elapsed:
            self._save(self.warm)
            self.warm.wait()
        return elapsed()

    def torch_save(self, *, sync: bool) -> float:
        path = self.folder / "state.pt"
        with rounds.stopwatch() as elapsed:
            with path.open("wb") as file:
                torch.save(self.everything, file)
                if sync:
                    file.flush()
                    os.fsync(file.fileno())
        path.unlink()
        return elapsed()

    def loop(self, *, writing: bool) -> float:
        """Milliseconds for a step of small matrix products, with or without checkpoints written."""
        steps, seconds = 0, 0.0
        a = torch.randn(192, 192)
        while seconds < 1.0:
            if writing:
                self._save(self.warm)
            began = time.perf_counter()
            while (
                self.warm._writer._running or self.warm._writer._asked
                if writing
                else steps % 200 or not steps
            ):
                a = (a @ a).clamp(-1, 1)
                steps += 1
            if not writing:
                a, steps = (a @ a).clamp(-1, 1), steps + 1
            seconds += time.perf_counter() - began
        return 1000 * seconds / steps

    def _save(self, saver: FileCheckpointer) -> None:
        self.updates += 1
        saver.save(
            self.updates,
            Checkpoint(self.made.model, self.made.optimizer, {"updates": self.updates}),
            {},
        )


def loading(made: Checkpoint, folder: Path) -> Sides:
    """The sides that load, and copy what they loaded into tensors that are there."""
    everything = {**made.model, **made.optimizer}
    there = {name: torch.empty_like(tensor) for name, tensor in everything.items()}
    checkpoint.write(folder / "loaded", made)
    torch.save(everything, folder / "loaded.pt")

    def timed(load: Callable[[], Tensors]) -> float:
        with rounds.stopwatch() as elapsed:
            for name, tensor in load().items():
                there[name].copy_(tensor)
        return elapsed()

    def andiron() -> Tensors:
        record = checkpoint.load(folder / "loaded")
        return {**record.model, **record.optimizer}

    def verified() -> Tensors:
        manifest.verified(folder / "loaded")
        return {}

    return {
        "torch.load, mmap": lambda: timed(
            lambda: torch.load(folder / "loaded.pt", mmap=True, weights_only=True)
        ),
        "torch.load": lambda: timed(lambda: torch.load(folder / "loaded.pt", weights_only=True)),
        "Andiron's load": lambda: timed(andiron),
        "of which the verification": lambda: timed(verified),
    }


def measure(megabytes: int, number: int, folder: Path) -> str:
    """The tables for one size."""
    made = state(megabytes)
    saving = Saving(made, folder)
    held = rounds.compared(rounds.interleaved(saving.sides(), number), unit="seconds held")
    loops: Sides = {
        "loop alone": lambda: saving.loop(writing=False),
        "loop while checkpoints are written": lambda: saving.loop(writing=True),
    }
    beside = rounds.compared(rounds.interleaved(loops, number), unit="ms a step")
    saving.warm.close()
    loaded = rounds.compared(
        rounds.interleaved(loading(made, folder), number), unit="seconds to load"
    )
    return f"{megabytes} MB of state; {number} rounds\n\n{held}\n\n{beside}\n\n{loaded}\n"


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--megabytes", type=int, nargs="+", default=[10, 100, 1000])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--folder", type=Path, help="on the disk to be measured")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    checkpointer.SECONDS_BETWEEN_WRITES = 0.0
    git = subprocess.run(
        ["git", "rev-parse", "--short", "HEAD"],
        cwd=Path(__file__).parent,
        capture_output=True,
        text=True,
    )
    print(f"commit {git.stdout.strip() or 'unknown'}, {rounds.machine(1)}\n", flush=True)
    for megabytes in arguments.megabytes:
        with tempfile.TemporaryDirectory(dir=arguments.folder) as folder:
            print(measure(megabytes, arguments.rounds, Path(folder)), flush=True)


if __name__ == "__main__":
    main()
