"""CPU seconds of streams that skip, of token shards and of mixtures.

The material is made in a temporary folder: 200 million tokens in documents of 1,000 on average, and
a stream of 2 million rows in Parquet for Hugging Face's datasets.
"""

import tempfile
import time
from itertools import islice
from pathlib import Path

import numpy as np
import torch

from andiron.data import ArrayBatcher, ArrayDataset, DataLoader, Splits, torch_dataset
from andiron.data.on_disk.stored import StoredArray, StoredFile
from andiron_lab.data.mixture import mixture
from andiron_lab.data.shard_files import DTYPES, Shard, Shards
from andiron_lab.data.token_windows import DocumentWindows, PackedWindows, TokenWindows

TOKENS, LENGTH, BATCH, BATCHES = 200_000_000, 1025, 16, 400
ROWS, SAMPLES = 2_000_000, 10_000_000


def report(name, dataset, at=0.9):
    """The CPU seconds to the first batch of a resume, and the samples a CPU second after it."""
    loader = DataLoader(dataset, lambda raw, device: raw, batch_size=BATCH, shuffle_seed=1)
    begin = time.process_time()
    batches = iter(loader.epoch(0, int(len(loader) * at)))
    next(batches)
    first = time.process_time()
    number = sum(1 for _ in islice(batches, BATCHES))
    rate = number * BATCH / (time.process_time() - first)
    print(f"{name}: first batch at {at:.0%} in {first - begin:.3f} CPU s, {rate:,.0f} samples a s")


def token_shards(folder):
    rng = np.random.default_rng(1)
    tokens = rng.integers(0, 50_000, TOKENS, dtype=np.uint16)
    tokens.tofile(folder / "0.bin")
    ends = np.unique(rng.integers(1, TOKENS, TOKENS // 1000))
    ends[-1] = TOKENS
    ends.astype("<i8").tofile(folder / "0.ends")
    files = StoredFile(folder / "0.bin"), StoredFile(folder / "0.ends")
    shard = Shard(
        StoredArray(files[0], "tokens", 0, DTYPES["uint16"], (TOKENS,)),
        StoredArray(files[1], "ends", 0, torch.int64, (len(ends),)),
    )
    shards = Shards([shard], "", vocabulary_size=50_000)
    packed = TokenWindows(shards, PackedWindows(LENGTH, LENGTH - 1), 0, TOKENS)
    report("shards, packed", packed)
    begin = time.process_time()
    documents = DocumentWindows(shards, LENGTH, LENGTH - 1)
    print(f"index of {len(ends):,} documents: {time.process_time() - begin:.3f} CPU s")
    apart = TokenWindows(shards, documents, 0, TOKENS)
    report("shards, documents apart", apart)
    mapped = np.memmap(folder / "0.bin", np.uint16, "r")
    begin = time.process_time()
    for _ in range(BATCHES):  # as nanoGPT's get_batch
        places = torch.randint(TOKENS - LENGTH, (BATCH,))
        torch.stack([torch.from_numpy(mapped[i : i + LENGTH].astype(np.int64)) for i in places])
    rate = BATCHES * BATCH / (time.process_time() - begin)
    print(f"nanoGPT's get_batch on the same file: {rate:,.0f} samples/CPU s")


def mixtures():
    parts = {}
    for name, size in {"a": SAMPLES, "b": SAMPLES // 10, "c": 1000}.items():
        samples = ArrayDataset(torch.zeros(size, 16), torch.zeros(size))
        few = samples.subset([0])
        parts[name] = Splits(
            name=name, train=samples, valid=few, test=few, batcher=ArrayBatcher(), facts={},
            fingerprint=name,
        )  # fmt: skip
    mixed = mixture(parts=parts, weights={"a": 6, "b": 3, "c": 1}, size=SAMPLES).train
    report("mixture of three parts in memory", mixed)
    report("the largest part alone", parts["a"].train)


def streams(folder):
    import datasets

    datasets.disable_progress_bars()
    table = datasets.Dataset.from_dict({"x": np.arange(ROWS, dtype=np.float32)})
    table.to_parquet(folder / "rows.parquet")
    pairs = [(torch.zeros(1), 0.0)]
    read = datasets.load_dataset(
        "parquet", data_files=str(folder / "rows.parquet"), split="train", streaming=True
    )

    class Plain(torch.utils.data.IterableDataset):
        """Rows without skip."""

        def __iter__(self):
            return iter(read)

    for name, stream in {"skips": read, "is read": Plain()}.items():
        made = torch_dataset(
            train=stream, valid=pairs, test=pairs, num_outputs=1, samples_per_epoch=ROWS
        )
        report(f"a stream of datasets that {name}", made.train)


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as name:
        token_shards(Path(name))
        mixtures()
        streams(Path(name))
