"""The streams of Hugging Face's datasets resume at the sample where they stopped."""

import pytest
import torch

from andiron.data import DataLoader, torch_dataset
from andiron.distributed import Sliced, World

datasets = pytest.importorskip("datasets")
NUMBER = 1000
PAIRS = [(torch.zeros(2), 0)]


def _read(folder):
    return datasets.load_dataset(
        "parquet", data_files=str(folder / "*.parquet"), split="train", streaming=True
    )


STREAMS = {
    "plain": lambda stream: stream,
    "torch": lambda stream: stream.with_format("torch"),
    "mapped": lambda stream: stream.map(lambda row: {**row, "twice": row["number"] * 2}),
    "shuffled": lambda stream: stream.shuffle(seed=7, buffer_size=100),
    "mapped, shuffled": lambda stream: stream.shuffle(seed=7, buffer_size=64).map(lambda row: row),
}


def _batches(stream, size, epochs, first_batch=0, **options):
    splits = torch_dataset(
        train=stream, valid=PAIRS, test=PAIRS, num_classes=2, samples_per_epoch=size
    )
    loader = DataLoader(splits.train, splits.batcher, batch_size=64, shuffle_seed=3, **options)
    try:
        read = [batch for epoch in epochs for batch in loader.epoch(epoch, first_batch)]
    finally:
        loader.close()
    parts = [[*batch.values()] if isinstance(batch, Sliced) else [batch] for batch in read]
    return [part["number"].tolist() for sliced in parts for part in sliced]


RESUMES = [(0, 3, 0), (0, 4, 2), (2, 1, 0), (2, 4, 2)]  # epoch, batches done, workers
# shuffled Parquet files: datasets sleeps five seconds at the end of each pass, which is shortened
SHUFFLED = [(name, 320, RESUMES[-1:]) for name in STREAMS if "shuffled" in name]
PLAIN = [(name, size, RESUMES) for name in ("plain", "torch", "mapped") for size in (NUMBER, 320)]


@pytest.mark.parametrize(("name", "size", "resumes"), PLAIN + SHUFFLED)
def test_a_resumed_stream_of_datasets_has_the_undisturbed_samples(
    name, size, resumes, tmp_path, monkeypatch
):
    monkeypatch.setattr(datasets.config, "SLEEP_TIME_ON_THREADS_SHUTDOWN", 0.5)
    for shard in range(4):
        numbers = range(shard * NUMBER // 4, (shard + 1) * NUMBER // 4)
        table = datasets.Dataset.from_dict({"number": numbers})
        table.to_parquet(tmp_path / f"{shard}.parquet", batch_size=50)
    stream = STREAMS[name](_read(tmp_path))
    whole, batches = _batches(stream, size, [0, 1, 2]), -(-size // 64)
    for epoch, done, workers in resumes:
        resumed = _batches(stream, size, [epoch], done, num_workers=workers)
        until = (epoch + 1) * batches
        assert resumed == whole[epoch * batches + done : until], (epoch, done, workers)
        worlds = [World(rank, 2, slices=2) for rank in range(2)]
        halves = [_batches(stream, size, [epoch], done, world=world) for world in worlds]
        assert [one + other for one, other in zip(*halves, strict=True)] == resumed
