"""Two processes of one thread on CPUs: train.py beside DistributedDataParallel in a bare loop.

    python benchmarks/several.py [--rounds N] [--networks convnet mlp gpt]

Both train the same network on batches of the same shape with fused Adam, without dropout; train.py
also measures, logs and validates. A side is timed over the last `UPDATES` updates. One process with
two threads stands beside them, in train.py and in the bare loop.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "src"))  # a plain checkout needs no install

import torch  # noqa: E402
from torch import distributed, nn  # noqa: E402
from torch.nn import functional  # noqa: E402

import rounds  # noqa: E402
from andiron import models  # noqa: E402

WARM_UP, UPDATES = 20, 40
SEQUENCE = 64  # tokens of a sample of the GPT


@dataclass(frozen=True)
class Case:
    """A network, the size of its batches, and the overrides that choose it in train.py."""

    network: Any
    batch_size: int
    overrides: tuple[str, ...]
    is_text: bool = False

    def batch(self) -> tuple[torch.Tensor, torch.Tensor]:
        """Inputs and targets of all updates."""
        if self.is_text:
            tokens = torch.randint(256, (self.batch_size * 8, SEQUENCE + 1))
            return tokens[:, :-1], tokens[:, 1:]
        images = torch.randn(self.batch_size * 8, 1, 28, 28)
        return images, torch.randint(10, (len(images),))


IMAGES = ("data=synthetic", "batch_size=128")
CASES = {
    "convnet": Case(
        partial(models.ConvNet, (1, 28, 28), 10, dropout=0.0), 128,
        (*IMAGES, "model=convnet", "model.dropout=0.0"),
    ),
    "mlp": Case(
        partial(models.MLP, (1, 28, 28), 10, hidden=(2048, 2048, 2048)), 128,
        (*IMAGES, "model=mlp", "model.hidden=[2048,2048,2048]"),
    ),
    "gpt": Case(
        partial(models.GPT, 256, SEQUENCE, layers=6, heads=6, dim=384), 8,
        ("data=text", f"data.context_length={SEQUENCE}", "batch_size=8", "model=gpt",
         "model.layers=6", "model.heads=6", "model.dim=384"),
        is_text=True,
    ),
}  # fmt: skip


def bare(case: Case) -> None:
    """Trains in a bare loop, as a process of torchrun with DistributedDataParallel; prints ms."""
    size = int(os.environ.get("WORLD_SIZE", "1"))
    if size > 1:
        distributed.init_process_group("gloo")
    rank = int(os.environ.get("RANK", "0"))
    network: nn.Module = case.network()
    wrapped = nn.parallel.DistributedDataParallel(network) if size > 1 else network
    optimizer = torch.optim.Adam(network.parameters(), lr=1e-3, fused=True)
    inputs, targets = case.batch()
    for update in range(WARM_UP + UPDATES):
        if update == WARM_UP:
            started = time.perf_counter()
        chosen = torch.randperm(len(inputs))[: case.batch_size][rank::size]
        optimizer.zero_grad()
        outputs = wrapped(inputs[chosen])
        loss = functional.cross_entropy(outputs.flatten(0, -2), targets[chosen].flatten())
        loss.backward()
        optimizer.step()
    if rank == 0:
        print((time.perf_counter() - started) / UPDATES * 1000)
    if size > 1:
        distributed.destroy_process_group()


def bare_ms(name: str, processes: int) -> float:
    """Milliseconds an update of the bare loop."""
    command = [*launcher(processes), __file__, "--bare", name]
    ended = subprocess.run(
        command, env=environment(processes), stdout=subprocess.PIPE, check=True
    )
    return float(ended.stdout.split()[-1])


def andiron_ms(name: str, processes: int, *options: str) -> float:
    """Milliseconds an update of train.py, checkpoints and validation left out."""
    case = CASES[name]
    with tempfile.TemporaryDirectory() as folder:
        text = Path(folder) / "text"
        text.write_text("".join(path.read_text() for path in sorted(ROOT.glob("docs/*.md"))))
        path = [f"data.path={text}"] if case.is_text else []
        length = (f"num_updates={WARM_UP + UPDATES}", f"log_every={WARM_UP}", "device=cpu")
        place = ("render=plain", f"hydra.run.dir={folder}/run")
        subprocess.run(
            [*launcher(processes), ROOT / "train.py", *case.overrides, *path, *length, *place,
             "optimizer=adam", "lr=1e-3", *options],
            env=environment(processes), stdout=subprocess.DEVNULL, check=True,
        )  # fmt: skip
        lines = (Path(folder) / "run" / "metrics.jsonl").read_text().splitlines()
    steps = {
        line["updates"]: line["time/step"] * 1000
        for line in map(json.loads, lines)
        if "time/step" in line
    }
    return (steps[WARM_UP + UPDATES] + steps[UPDATES]) / 2


def launcher(processes: int) -> list[str]:
    """The command that starts so many processes of a script."""
    torchrun = ["-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={processes}"]
    return [sys.executable, *(torchrun if processes > 1 else [])]


def environment(processes: int) -> dict[str, str]:
    """Two threads in all."""
    return {**os.environ, "OMP_NUM_THREADS": str(2 // processes)}


def main() -> None:
    """Measures the networks and prints a table for each."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--networks", nargs="+", default=list(CASES), choices=CASES)
    parser.add_argument("--bare", choices=CASES, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.bare:
        bare(CASES[options.bare])
        return
    for name in options.networks:
        sides = {
            "DistributedDataParallel, 2 processes": partial(bare_ms, name, 2),
            "train.py, 2 processes": partial(andiron_ms, name, 2),
            "train.py, 2 processes, slices=2": partial(andiron_ms, name, 2, "slices=2"),
            "train.py, 1 process with 2 threads": partial(andiron_ms, name, 1),
            "bare loop, 1 process with 2 threads": partial(bare_ms, name, 1),
        }
        parameters = sum(parameter.numel() for parameter in CASES[name].network().parameters())
        print(f"{name}, {parameters:,} parameters, batches of {CASES[name].batch_size}")
        print(f"{rounds.machine()}\n")
        print(rounds.compared(rounds.interleaved(sides, options.rounds), unit="ms"), end="\n\n")


if __name__ == "__main__":
    main()
