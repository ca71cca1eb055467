"""An epoch of Arrow files: one order for any workers, ranks, resumes and kills."""

import hashlib
import os
import random
import signal
import sys
import time
from pathlib import Path

import pytest
import torch

from andiron.data import DataLoaderBuilder
from andiron.distributed import World

pytest.importorskip("pyarrow")
from andiron_lab.data.arrow import arrow  # noqa: E402

sys.path.append(str(Path(__file__).parents[1] / "data"))
import arrow_made  # noqa: E402

SIZE, BATCH, KILLS = 12_000, 64, int(os.environ.get("ANDIRON_KILLS", "20"))
CELLS = [(0, 2), (1, 3), (4, 1)]  # workers, processes
if "ANDIRON_ALL_LOADERS" in os.environ:
    CELLS = [(workers, ranks) for workers in (0, 1, 4) for ranks in (1, 2, 3)]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return str(arrow_made.folder(tmp_path_factory.mktemp("arrow") / "rows", arrow_made.table(SIZE)))


def loader_of(folder, order, workers=0, rank=0, ranks=1):
    data = arrow(path=folder, inputs=["small", "x", "letters"], targets=None, order=order)
    builder = DataLoaderBuilder(lambda raw, device: raw).batch_size(BATCH).shuffle(5)
    return builder.num_workers(workers).world(World(rank, ranks)).build(data.train)


def digest(batches):
    """A checksum of each column, however it is cut into batches."""
    digests = {name: hashlib.sha256() for name in ("small", "x", "letters")}
    for batch in batches:
        for name, values in batch.items():
            is_tensor = isinstance(values, torch.Tensor)
            digests[name].update(values.numpy().tobytes() if is_tensor else b"".join(values))
    return {name: column.hexdigest() for name, column in digests.items()}


@pytest.mark.filterwarnings("ignore:This DataLoader will create 4 worker")
@pytest.mark.parametrize("order", ["full", "blocks"])
def test_workers_ranks_and_resumes_give_the_same_bytes(folder, order):
    whole = [*loader_of(folder, order).epoch(2)]
    for first in (0, len(whole) * 37 // 100, len(whole) * 9 // 10):
        for workers, ranks in CELLS:
            loaders = [loader_of(folder, order, workers, rank, ranks) for rank in range(ranks)]
            parts = [[*loader.epoch(2, first)] for loader in loaders]
            for loader in loaders:
                loader.close()
            joined = parts[0]
            if ranks > 1:
                slices = [dict(item for part in batch for item in part.items())
                          for batch in zip(*parts, strict=True)]  # fmt: skip
                joined = [batch[number] for batch in slices for number in sorted(batch)]
            assert digest(joined) == digest(whole[first:]), (first, workers, ranks)


@pytest.mark.parametrize("order", ["full", "blocks"])
def test_samples_are_read_once_by_processes_that_are_killed(folder, order, tmp_path):
    log, generator, kills = tmp_path / "batches", random.Random(0), 0
    log.touch()
    number = len(loader_of(folder, order))
    while (known := whole_lines(log)) < number:
        child = os.fork()
        if not child:
            read_on(folder, order, log, known)
        if kills < KILLS // 2:
            time.sleep(generator.uniform(0.01, 0.06))
            os.kill(child, signal.SIGKILL)
            kills += 1
        os.waitpid(child, 0)
    ids = [int(text) for line in log.read_text().splitlines() for text in line.split()]
    data = loader_of(folder, order).dataset
    assert sorted(ids) == sorted(data.table.read_whole("small")[data.rows.long()].tolist())
    assert kills == KILLS // 2
    assert ids == [value for batch in loader_of(folder, order).epoch(0)
                   for value in batch["small"].tolist()]  # fmt: skip


def whole_lines(log: Path) -> int:
    """The number of batches on record; a line that a kill cut is removed."""
    content = log.read_bytes()
    whole = content[: content.rfind(b"\n") + 1]
    log.write_bytes(whole)
    return whole.count(b"\n")


def read_on(folder, order, log, first):
    """Reads the rest of the epoch, writing down the ids of each batch; never returns."""
    torch.set_num_threads(1)
    with log.open("ab", buffering=0) as file:
        for batch in loader_of(folder, order).epoch(0, first):
            file.write(" ".join(map(str, batch["small"].tolist())).encode() + b"\n")
            time.sleep(0.0005)
    os._exit(0)
