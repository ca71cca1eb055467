"""Short runs, one after the other, in one process or in each of several that torchrun started.

`python several_runs.py <folder>` trains every configuration `<folder>/<name>.json` in
`<folder>/<name>-<processes>`.
"""

import dataclasses
import os
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "src"))

import torch  # noqa: E402
from torch.distributed.rendezvous import rendezvous  # noqa: E402

from andiron import distributed, experiment  # noqa: E402
from andiron.config.schema import Train  # noqa: E402
from andiron.distributed import World  # noqa: E402

torch.set_num_threads(1)


def train_all(folder, world):
    """Trains every configuration of the folder in a world of as many processes."""
    for path in sorted(folder.glob("*.json")):
        config = Train.load(path)
        quiet = {"render": None, "writers": config.writers if world.rank == 0 else {}}
        config = dataclasses.replace(config, **quiet)
        own = World(world.rank, world.size, config.slices, world._reports)
        experiment.build(config, folder / f"{path.stem}-{world.size}", world=own).run()


if __name__ == "__main__":
    rank, size = int(os.environ.get("RANK", 0)), int(os.environ.get("WORLD_SIZE", 1))
    if size == 1:
        train_all(Path(sys.argv[1]), distributed.ALONE)
    else:
        store = next(rendezvous("env://", rank, size))[0]
        with distributed.joined(
            store, rank, size, None, on_gpu=False, timeout_seconds=300
        ) as world:
            train_all(Path(sys.argv[1]), world)
