"""Many short runs, one after the other, in one process or in each of those that torchrun started.

    torchrun --nproc-per-node=N proofs/rank_runs.py FOLDER

trains the jobs in `FOLDER/jobs-N.json` in order, and leaves a line in `FOLDER/done-N` for each. So
a start of N processes is paid once. Every job has the World that `train.py` would give it, with the
slices of its own configuration; the processes are real, and share nothing but gloo and the disk.
"""

import dataclasses
import hashlib
import itertools
import json
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch

from andiron import errors
from andiron.distributed import Sliced, World
from andiron.interrupter import Interrupter
from andiron.shell.config.schema import Train
from andiron.shell.config.trust import Trust
from andiron.shell.training import experiment
from andiron.shell.training.joining import joined

TRUSTED = Trust(("torchmetrics", "schedulefree", "proofs"))  # as naming their classes in conf/ does
SECONDS_TO_ANSWER = 300.0  # a process that does not by then has failed


@dataclasses.dataclass(frozen=True)
class Stop:
    """Where the last process asks to stop, after `updates`.

    In a pass over `split`, before its second batch, or the first if there is one only; with None,
    within the next update, at its second step.
    """

    split: str | None
    updates: int


@dataclasses.dataclass(frozen=True)
class Job:
    """A run to train or to resume in `folder`, to its end or to `stop`."""

    config: str  # file
    folder: str
    resumes: bool = False
    stop: Stop | None = None

    @classmethod
    def of(cls, plain: dict[str, Any]) -> "Job":
        """The job that `dataclasses.asdict` made plain."""
        return cls(**{**plain, "stop": Stop(**plain["stop"]) if plain["stop"] else None})


def main(folder: Path) -> None:
    """Trains all jobs of the folder for this number of processes."""
    torch.set_num_threads(1)
    rank, size = int(os.environ.get("RANK", 0)), int(os.environ.get("WORLD_SIZE", 1))
    jobs = [Job.of(plain) for plain in json.loads((folder / f"jobs-{size}.json").read_text())]
    done = folder / f"done-{size}"
    if size == 1:
        _train_all(jobs, World(), done)
        return
    from torch.distributed.rendezvous import rendezvous

    store = next(rendezvous("env://", rank, size))[0]
    options = {"on_gpu": False, "timeout_seconds": SECONDS_TO_ANSWER}
    with joined(store, rank, size, None, **options) as world:  # type: ignore[arg-type]
        _train_all(jobs, world, done)


def _train_all(jobs: list[Job], world: World, done: Path) -> None:
    for job in jobs:
        train(job, world)
        if world.rank == 0:
            with done.open("a") as file:
                file.write(job.folder + "\n")


def train(job: Job, world: World) -> None:
    """Trains one job; rank 0 writes its folder, each rank what it trained on."""
    config = Train.load(Path(job.config), TRUSTED)
    quiet = {"render": None, "writers": config.writers if world.rank == 0 else {}}
    config = dataclasses.replace(config, **quiet)
    world = World(world.rank, world.size, config.slices, world.reports)
    interrupter = Interrupter(is_shared=world.size > 1)
    if world.size > 1:
        interrupter.connect(world)
    options: dict[str, Any] = {"interrupter": interrupter, "world": world}
    run_dir = Path(job.folder)
    if job.resumes:
        made = experiment.resume(config, run_dir, {}, **options)
    else:
        run_dir.mkdir(parents=True, exist_ok=True)
        made = experiment.build(config, run_dir, **options)
    loader: Any = made.components.train
    loader.epoch = _recorded(loader.epoch, run_dir / f"data-{world.rank}.jsonl", job.resumes)
    if job.stop is not None and world.rank == world.size - 1:
        _stop_at(job.stop, made, interrupter)
    try:
        made.run()
    except errors.Interrupted:
        if job.stop is None:
            raise
    else:
        if job.stop is not None:
            raise RuntimeError(f"{job.folder} was not stopped at {job.stop}")


def _stop_at(stop: Stop, made: experiment.Experiment, interrupter: Interrupter) -> None:
    """Has this process ask all to stop."""
    model: Any = made.learner.model
    ask, step, steps = interrupter.at, model.train_step, itertools.count(1)

    def at(split: str, updates: int, batch: int) -> errors.Interrupted | None:
        number = min(1, len(made.components.valid) - 1)
        if (split, updates, batch) == (stop.split, stop.updates, number):
            interrupter.stop(f"at {split}, update {updates}, batch {batch}")
        return ask(split, updates, batch)

    def train_step(batch: Any) -> Any:
        is_due = stop.split is None and made.learner.updates == stop.updates
        if is_due and next(steps) == 2:
            interrupter.stop(f"within update {stop.updates + 1}")
        return step(batch)

    interrupter.at = at  # type: ignore[method-assign]
    model.train_step = train_step


def _recorded(epoch: Any, path: Path, continues: bool) -> Any:
    """The batches of an epoch, with the digest of every sample of them in a line of a file."""
    path.open("a" if continues else "w").close()

    def batches(number: int, first_batch: int = 0) -> Iterator[Any]:
        for batch_number, batch in enumerate(epoch(number, first_batch), start=first_batch):
            slices = batch if isinstance(batch, Sliced) else {0: batch}
            for slice_number, part in slices.items():
                tensors = [part.inputs, part.targets]
                rows = zip(*(tensor.contiguous().numpy() for tensor in tensors), strict=True)
                digests = [
                    hashlib.blake2b(b"".join(row.tobytes() for row in sample), digest_size=8)
                    for sample in rows
                ]
                line = [number, batch_number, slice_number, [d.hexdigest() for d in digests]]
                with path.open("a") as file:
                    file.write(json.dumps(line) + "\n")
            yield batch

    return batches


def samples(run_dir: Path) -> dict[tuple[int, int], list[str]]:
    """By epoch and batch, the digests of the samples that all processes trained on, in order.

    A resumed run may have gathered a batch twice; a slice has the digests of the last.
    """
    slices: dict[tuple[int, int, int], list[str]] = {}
    for path in sorted(run_dir.glob("data-*.jsonl")):
        for line in path.read_text().splitlines():
            epoch, batch, slice_number, digests = json.loads(line)
            slices[epoch, batch, slice_number] = digests
    by_batch: dict[tuple[int, int], list[str]] = {}
    for (epoch, batch, _), digests in sorted(slices.items()):
        by_batch.setdefault((epoch, batch), []).extend(digests)
    return by_batch


if __name__ == "__main__":
    main(Path(sys.argv[1]))
