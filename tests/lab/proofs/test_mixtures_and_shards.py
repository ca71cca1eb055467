"""Mixtures and shards: one SHA-256 however batches are gathered, no sample lost by kills."""

import hashlib
import itertools
import json
import os
import random
import re
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
import torch

from andiron.data import ArrayBatcher, ArrayDataset, DataLoader, Splits
from andiron.data.on_disk.stored import StoredArray, StoredFile
from andiron.data.on_disk.text_file import TextBatcher
from andiron.distributed import ALONE, Sliced, World
from andiron_lab.data.mixture import mixture
from andiron_lab.data.shard_files import DTYPES, Shard, Shards
from andiron_lab.data.token_windows import DocumentWindows, PackedWindows, TokenWindows

ROOT = Path(__file__).resolve().parents[3]
SIZES = {"a": 40_000, "b": 3_000, "c": 70}
WEIGHTS = {"a": 6, "b": 3, "c": 1}
CHANGES = {10_000: {"a": 1, "b": 1, "c": 0}, 30_000: {"a": 1, "b": 0, "c": 2}}
SAMPLES, SLICES = 9_001, 12
CELLS = [(0, 2, 0.9), (1, 3, 0.37), (4, 1, 0)]  # workers, processes, share before a resume
if "ANDIRON_ALL_LOADERS" in os.environ:  # six minutes
    CELLS = [*itertools.product((0, 1, 4), (1, 2, 3), (0, 0.37, 0.9))]
pytestmark = pytest.mark.filterwarnings("ignore:This DataLoader will create")


def numbers(first, size):
    values = torch.arange(first, first + size)
    samples = ArrayDataset(values[:, None].float(), values)
    held_out = samples.subset(range(16))
    return Splits(
        name="numbers", train=samples, valid=held_out, test=held_out, batcher=ArrayBatcher(),
        facts={"input_shape": (1,)}, fingerprint=str(first),
    )  # fmt: skip


def mixed():
    firsts = dict(zip(SIZES, range(0, 10**7, 10**6), strict=False))
    parts = {name: numbers(firsts[name], size) for name, size in SIZES.items()}
    return mixture(parts=parts, weights=WEIGHTS, changes=CHANGES, size=SAMPLES)


def shards(folder):
    """Three shards of 200,000 tokens in documents of 1 to 900 tokens."""
    rng, made = np.random.default_rng(3), []
    for number in range(3):
        ends = np.unique(rng.integers(1, 200_000, 900))
        ends[-1] = 200_000
        rng.integers(0, 50_000, 200_000).astype("<u2").tofile(folder / f"{number}.bin")
        ends.astype("<i8").tofile(folder / f"{number}.ends")
        tokens, documents = (StoredFile(folder / f"{number}.{end}") for end in ("bin", "ends"))
        made.append(Shard(
            StoredArray(tokens, "tokens", 0, DTYPES["uint16"], (200_000,)),
            StoredArray(documents, "ends", 0, torch.int64, (len(ends),)),
        ))  # fmt: skip
    return Shards(made, "", vocabulary_size=50_000)


def datasets(folder):
    reader = shards(folder)
    packed = TokenWindows(reader, PackedWindows(65, 64), 0, 600_000)
    apart = TokenWindows(reader, DocumentWindows(reader, 65, 64), 0, 600_000)
    both = [
        Splits(name="t", train=part, valid=part, test=part, batcher=TextBatcher(),
               facts={}, fingerprint=name) for name, part in (("packed", packed), ("apart", apart))
    ]  # fmt: skip
    of_both = mixture(parts=dict(zip("pa", both, strict=True)), weights={"p": 2, "a": 1}, size=9001)
    return {"mixture": mixed().train, "packed": packed, "apart": apart, "both": of_both.train}


def checksum(batches):
    """The SHA-256 of the bytes of batches, each a list of its slices in order."""
    digest = hashlib.sha256()
    for batch in batches:
        for part in (torch.cat(tensors) for tensors in zip(*batch, strict=True)):
            digest.update(part.numpy().tobytes())
    return digest.hexdigest()


def gathered(dataset, workers, ranks, first_batch):
    """The batches of the second epoch from `first_batch` on, from all ranks together."""
    streams = []
    for rank in range(ranks):
        world = ALONE if ranks == 1 else World(rank, ranks, slices=SLICES)
        batcher = lambda raw, device: raw  # noqa: E731
        loader = DataLoader(
            dataset, batcher, batch_size=61, shuffle_seed=7, num_workers=workers, world=world
        )
        streams.append([
            dict(batch) if isinstance(batch, Sliced) else {0: batch}
            for batch in loader.epoch(1, first_batch)
        ])  # fmt: skip
        loader.close()
    for parts in zip(*streams, strict=True):
        slices = {number: part for rank in parts for number, part in rank.items()}
        yield [tuple(slices[number]) for number in sorted(slices)]


@pytest.mark.parametrize("name", ["mixture", "packed", "apart", "both"])
def test_one_checksum_for_any_workers_ranks_and_resume(name, tmp_path):
    dataset = datasets(tmp_path)[name]
    batches = -(-len(dataset) // 61)
    whole = [*gathered(dataset, 0, 1, 0)]
    for workers, ranks, share in CELLS:
        first = int(batches * share)
        resumed = checksum(gathered(dataset, workers, ranks, first))
        assert resumed == checksum(whole[first:]), (workers, ranks, share)


PARTS = '''
import dataclasses, json, os, time
import torch
from test_mixtures_and_shards import mixed as made


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = torch.nn.Linear(1, 1)

    def forward(self, inputs):
        if self.training:
            numbers = [int(number) for number in inputs[:, 0].tolist()]
            with open(os.environ["SEEN"], "a") as file:
                file.write(json.dumps(numbers) + "\\n")
            time.sleep(0.004)
        return self.linear(inputs / 1e7)


def mixed():
    return dataclasses.replace(made(), facts={"input_shape": (1,), "num_outputs": 1})
'''
EXPERIMENT = '''
# @package _global_
defaults:
  - override /data: null
  - override /task: regression
  - override /loss: mean_squared_error
  - override /metrics: loss
  - override /model: null
data: {_target_: parts.mixed}
model: {_target_: parts.Net}
checkpoint: {every: 7}
batch_size: 61
num_updates: 1500
'''
KILLS = int(os.environ.get("ANDIRON_KILLS", "4"))
RESUMED = re.compile(r"resuming from \S*step-(\d+)")


@pytest.mark.usefixtures("preloaded_processes")
def test_killed_runs_train_on_every_sample_once(tmp_path):
    (tmp_path / "parts.py").write_text(PARTS)
    (tmp_path / "conf" / "experiment").mkdir(parents=True)
    (tmp_path / "conf" / "experiment" / "mixed.yaml").write_text(EXPERIMENT)
    seen, command = tmp_path / "seen", [
        sys.executable, ROOT / "train.py", "--config-dir", "conf", "experiment=mixed",
        "restart=requeued", "hydra.run.dir=run", "render=plain",
    ]  # fmt: skip
    paths = [ROOT / "src", tmp_path, Path(__file__).parent, ROOT / "tests", ROOT]
    variables = {
        **os.environ, "PYTHONPATH": os.pathsep.join(map(str, paths)), "OMP_NUM_THREADS": "1",
        "SEEN": str(seen),
    }  # fmt: skip
    log = tmp_path / "run" / "experiment.log"
    by_update, draw, kills = {}, random.Random(5), 0
    while True:
        seen.write_text("")
        logged = len(log.read_text()) if log.exists() else 0
        with (tmp_path / "output").open("w+") as output:
            process = subprocess.Popen(
                [*map(str, command)], cwd=tmp_path, env=variables, stdout=output, stderr=output
            )
            if kills < KILLS:
                wanted, end = draw.randrange(1, 28), time.monotonic() + 300
                while process.poll() is None and seen.read_text().count("\n") < wanted:
                    assert time.monotonic() < end
                    time.sleep(0.001)
                time.sleep(draw.random() / 50)
                process.send_signal(signal.SIGKILL)
            code = process.wait(600)
            output.seek(0)
            said = output.read()
        is_killed = code == -signal.SIGKILL
        assert is_killed or code == 0, said
        kills += is_killed
        match = RESUMED.search(log.read_text()[logged:]) if log.exists() else None
        first = int(match[1]) if match else 0
        lines = seen.read_text().splitlines()
        for update, line in enumerate(lines, first):
            assert by_update.setdefault(update, json.loads(line)) == json.loads(line)
        if not is_killed:
            break
    assert kills == KILLS
    loader = DataLoader(mixed().train, ArrayBatcher(), batch_size=61, shuffle_seed=42)
    expected = [batch.targets.tolist() for epoch in range(12) for batch in loader.epoch(epoch)]
    trained = Counter(number for update in by_update.values() for number in update)
    wanted = Counter(number for batch in expected[:1500] for number in batch)
    lost, twice = (wanted - trained).total(), (trained - wanted).total()
    print(f"{kills} kills, {trained.total()} samples: {lost} lost, {twice} twice")
    assert (lost, twice) == (0, 0)
    assert [by_update[update] for update in range(1500)] == expected[:1500]
