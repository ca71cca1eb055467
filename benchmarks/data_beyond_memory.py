"""Data larger than memory, side by side: samples a CPU second, memory, and what a resume costs.

    pip install datasets litdata mosaicml-streaming
    python benchmarks/data_beyond_memory.py FOLDER [--workers N] [--rounds N]

The material is made in FOLDER once: JPEGs of 64 x 64 pixels, as files, in Arrow and in the formats
of litdata and MosaicML streaming; and rows of 16 float32 and a class, in Arrow. All sides give
shuffled batches of 128; pictures are bytes, not decoded. Each side runs in a process of its own: it
reads an epoch of pictures to its end, its state is saved after 90 %, and another process resumes
from it and compares the order of the rest. FOLDER/sorted and FOLDER/mixed have rows of classes, to
train with both orders. Of rows, a part of an epoch from 90 % on is read.
CPU seconds and memory (private pages) are of the process and its workers.
"""

import argparse
import io
import json
import os
import pickle
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "src"))  # a plain checkout needs no install of its own

import numpy as np  # noqa: E402
import torch  # noqa: E402

import rounds  # noqa: E402

BATCH, SIDE, COLUMNS, ROWS_OF_BATCH, FILES = 128, 64, 16, 1000, 5
ROWS_MEASURED, ROWS_OF_CLASSES, CLASSES = 200_000, 1_000_000, 10
PICTURES = "blocks", "full", "torch", "datasets", "streamed", "litdata", "mosaic"
ROWS = "blocks", "full", "datasets", "one by one"
NAMES = {
    "blocks": "Andiron, order=blocks", "full": "Andiron, order=full",
    "torch": "torch DataLoader, files", "datasets": "datasets in torch's DataLoader",
    "streamed": "datasets, streamed", "litdata": "litdata", "mosaic": "MosaicML streaming",
    "one by one": "Andiron, torch_dataset over datasets",
}  # fmt: skip
Batches = Iterator[Any]  # the ids of the samples of each batch
State = Callable[[], Any]


def write_pictures(folder: Path, number: int) -> None:
    """The pictures in each format; ids count from 0."""
    import datasets
    import litdata
    import streaming
    from PIL import Image

    contents = []
    for index in range(number):
        pixels = np.random.default_rng(index).integers(0, 255, (8, 8, 3), dtype=np.uint8)
        content = io.BytesIO()
        Image.fromarray(pixels).resize((SIDE, SIDE)).save(content, "JPEG", quality=85)
        contents.append(content.getvalue())
    samples = [{"id": n, "label": n % 10, "jpg": content} for n, content in enumerate(contents)]
    (folder / "files").mkdir()
    for sample in samples:
        (folder / "files" / f"{sample['id']:07d}.jpg").write_bytes(sample["jpg"])
    datasets.Dataset.from_list(samples).save_to_disk(folder / "arrow")
    columns = {"id": "int64", "label": "int64", "jpg": "bytes"}
    with streaming.MDSWriter(out=str(folder / "mosaic"), columns=columns) as writer:
        for sample in samples:
            writer.write(sample)
    litdata.optimize(
        fn=samples.__getitem__, inputs=[*range(number)], output_dir=str(folder / "litdata"),
        chunk_bytes="8MB", num_workers=1, verbose=False,
    )  # fmt: skip


def write_rows(folder: Path, number: int) -> None:
    """Record batches of rows in several files, as datasets writes them."""
    import pyarrow as pa

    folder.mkdir(parents=True)
    schema = pa.schema([("x", pa.list_(pa.float32(), COLUMNS)), ("label", pa.int64())])
    generator = np.random.default_rng(0)
    for file in range(FILES):
        path = folder / f"data-{file:05d}-of-{FILES:05d}.arrow"
        with pa.ipc.new_stream(str(path), schema) as writer:
            for _ in range(number // FILES // ROWS_OF_BATCH):
                values = generator.standard_normal(ROWS_OF_BATCH * COLUMNS, dtype=np.float32)
                x = pa.FixedSizeListArray.from_arrays(pa.array(values), COLUMNS)
                label = pa.array(generator.integers(0, 10, ROWS_OF_BATCH))
                writer.write_batch(pa.record_batch([x, label], schema=schema))


def write_classes(folder: Path, number: int, *, is_sorted: bool) -> None:
    """Rows of overlapping classes, one class after the other or in random order."""
    import datasets

    generator = np.random.default_rng(0)
    label = np.arange(number) * CLASSES // number
    if not is_sorted:
        generator.shuffle(label)
    centres = generator.standard_normal((CLASSES, COLUMNS))
    x = (centres[label] + 1.5 * generator.standard_normal((number, COLUMNS))).astype(np.float32)
    features = datasets.Features({
        "x": datasets.List(datasets.Value("float32"), length=COLUMNS),
        "label": datasets.ClassLabel(num_classes=CLASSES),
    })  # fmt: skip
    made = datasets.Dataset.from_dict({"x": x, "label": label}, features=features)
    made.save_to_disk(folder)


class Files(torch.utils.data.Dataset[dict[str, Any]]):
    """The pictures of a folder, each read when it is asked for."""

    def __init__(self, folder: Path):
        self.paths = sorted(folder.glob("*.jpg"))

    def __len__(self) -> int:
        return len(self.paths)

    def __getitem__(self, index: int) -> dict[str, Any]:
        return {"id": index, "label": index % 10, "jpg": self.paths[index].read_bytes()}


def ids_of(samples: list[dict[str, Any]]) -> dict[str, list[int]]:
    """The ids of the samples of a batch, whose other fields were read."""
    return {"id": [int(sample["id"]) for sample in samples]}


def andiron_pictures(folder: Path, order: str, workers: int, state: Any) -> tuple[Batches, State]:
    """Batches from the epoch's batch `state` on; the position is all the state there is."""
    from andiron.data import DataLoaderBuilder
    from andiron_lab.data import arrow_files, arrow_folder
    from andiron_lab.data.arrow_dataset import ArrowDataset, Sample

    sample = Sample(inputs=("id", "jpg", "label"), targets=None)
    table = arrow_files.opened(arrow_folder.files_in(folder / "arrow"), sample.names)
    loader = DataLoaderBuilder(as_read).batch_size(BATCH).shuffle(1).num_workers(workers)
    dataset = ArrowDataset(table, sample, range(len(table)), order)
    batches = loader.build(dataset).epoch(0, state or 0)
    return (batch["id"].tolist() for batch in batches), lambda: None


def as_read(raw: Any, device: torch.device) -> Any:
    """A batch as it is read."""
    return raw


def torch_pictures(dataset: Any, workers: int, state: Any) -> tuple[Batches, State]:
    """Torch's DataLoader, whose users skip what they had by reading it."""
    generator = torch.Generator().manual_seed(0)
    loader = torch.utils.data.DataLoader(
        dataset, batch_size=BATCH, shuffle=True, generator=generator, collate_fn=ids_of,
        num_workers=workers,
    )  # fmt: skip
    batches = (batch["id"] for number, batch in enumerate(loader) if number >= (state or 0))
    return batches, lambda: None


def pictures(side: str, folder: Path, workers: int, state: Any) -> tuple[Batches, State]:
    """The batches of a side, from `state` on, and what gives its state."""
    if side in ("blocks", "full"):
        return andiron_pictures(folder, side, workers, state)
    if side == "torch":
        return torch_pictures(Files(folder / "files"), workers, state)
    if side == "datasets":
        import datasets

        return torch_pictures(datasets.load_from_disk(folder / "arrow"), workers, state)
    loader = {"streamed": streamed, "litdata": litdata_loader, "mosaic": mosaic_loader}[side](
        folder, workers
    )
    if state is not None:
        loader.load_state_dict(state)
    return (batch["id"] for batch in loader), loader.state_dict


def streamed(folder: Path, workers: int) -> Any:
    """Datasets' streaming with its shuffle buffer; its state is that of the data set."""
    import datasets

    whole = datasets.load_from_disk(folder / "arrow").to_iterable_dataset(num_shards=20)
    shuffled = whole.shuffle(seed=0, buffer_size=1000).batch(BATCH)

    class Loader:
        state_dict, load_state_dict = shuffled.state_dict, shuffled.load_state_dict

        def __iter__(self) -> Iterator[dict[str, Any]]:
            return iter(shuffled)

    return Loader()


def litdata_loader(folder: Path, workers: int) -> Any:
    """The loader of litdata."""
    import litdata

    dataset = litdata.StreamingDataset(str(folder / "litdata"), shuffle=True, seed=1)
    return litdata.StreamingDataLoader(
        dataset, batch_size=BATCH, collate_fn=ids_of, num_workers=workers
    )


def mosaic_loader(folder: Path, workers: int) -> Any:
    """The loader of MosaicML streaming."""
    import streaming

    streaming.base.util.clean_stale_shared_memory()
    dataset = streaming.StreamingDataset(
        local=str(folder / "mosaic"), shuffle=True, shuffle_seed=1, batch_size=BATCH
    )
    return streaming.StreamingDataLoader(
        dataset, batch_size=BATCH, collate_fn=ids_of, num_workers=workers
    )


def rows(side: str, folder: Path) -> tuple[Batches, int]:
    """Batches of rows from 90 % of an epoch on, and how many of them are measured."""
    from andiron.data import DataLoaderBuilder
    from andiron.data.composed.torch_samples import from_torch
    from andiron_lab.data.arrow import arrow

    if side in ("blocks", "full"):
        data = arrow(path=str(folder), inputs="x", targets="label", order=side, split="in_order",
                     valid=1e-3, test=1e-3)  # fmt: skip
        train, batcher = data.train, data.batcher
    else:
        import datasets

        files = [str(path) for path in sorted(folder.glob("*.arrow"))]
        whole = datasets.concatenate_datasets([*map(datasets.Dataset.from_file, files)])
        whole = whole.with_format("torch")
        if side == "datasets":
            loader = torch.utils.data.DataLoader(whole, batch_size=BATCH, shuffle=True)
            return iter(loader), ROWS_MEASURED // BATCH
        train, batcher = from_torch(whole), as_read
    built = DataLoaderBuilder(batcher).batch_size(BATCH).shuffle(1).build(train)
    number = ROWS_MEASURED // BATCH if side in ("blocks", "full") else ROWS_MEASURED // BATCH // 10
    return built.epoch(0, len(built) * 9 // 10), number


def measure(arguments: argparse.Namespace) -> None:
    """One side in this process: a line of JSON."""
    torch.set_num_threads(1)
    folder, begun = arguments.folder, cpu_seconds()
    if arguments.material == "rows":
        base = private_mib()
        batches, number = rows(arguments.side, folder / "rows")
        started = cpu_seconds()
        next(batches)
        first = cpu_seconds() - started
        started = cpu_seconds()
        for _ in range(number):
            next(batches)
        rate = number * BATCH / (cpu_seconds() - started)
        print(json.dumps({"rate": rate, "first": first, "mib": private_mib() - base}))
        return
    saved = folder / f"state-{arguments.side}-{arguments.workers}.pickle"
    if arguments.material == "resumed":
        cut, state, whole = pickle.loads(saved.read_bytes())
        begin = cut if state is None else state
        batches, _ = pictures(arguments.side, folder, arguments.workers, begin)
        ids = [[*map(int, next(batches))]]
        first = cpu_seconds() - begun
        ids += [[*map(int, batch)] for batch in batches]
        before, rest, expected = (
            sum(part, []) for part in (whole[:cut], ids, whole[cut:])
        )
        lost = {*sum(whole, [])} - {*before, *rest}
        twice = len(rest) - len({*rest} - {*before})
        order = {"same": rest == expected, "lost": len(lost), "twice": twice}
        print(json.dumps({"resume": first, **order}))
        return
    batches, state_dict = pictures(arguments.side, folder, arguments.workers, None)
    whole = [[*map(int, next(batches))]]
    first, started = cpu_seconds() - begun, cpu_seconds()
    cut = arguments.pictures * 9 // 10 // BATCH
    for batch in batches:
        whole.append([*map(int, batch)])
        if len(whole) == cut:
            spent, mib, state = cpu_seconds() - started, private_mib(), state_dict()
    saved.write_bytes(pickle.dumps((cut, state, whole)))
    print(json.dumps({"rate": (cut - 1) * BATCH / spent, "first": first, "mib": mib}))


def processes() -> list[int]:
    """This process and those below it."""
    pids, unread = [], [os.getpid()]
    while unread:
        pids.append(unread.pop())
        for children in Path(f"/proc/{pids[-1]}/task").glob("*/children"):
            unread += map(int, children.read_text().split())
    return pids


def cpu_seconds() -> float:
    """CPU seconds of the processes, and of children that ended."""
    ticks = 0
    for pid in processes():
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        ticks += sum(map(int, fields[11:15]))
    return ticks / os.sysconf("SC_CLK_TCK")


def private_mib() -> float:
    """Private memory of the processes, in MiB: pages that no file holds."""
    kib = 0
    for pid in processes():
        for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
            kib += int(line.split()[1]) if line.startswith("Pss_Anon:") else 0
    return kib / 1024


def run_side(arguments: argparse.Namespace, material: str, side: str) -> dict[str, Any]:
    """The figures of one side, measured in a process of its own."""
    options = {"material": material, "side": side, "workers": arguments.workers,
               "pictures": arguments.pictures}  # fmt: skip
    command = [sys.executable, __file__, str(arguments.folder)]
    command += [text for name, value in options.items() for text in (f"--{name}", str(value))]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    ended = subprocess.run(command, capture_output=True, text=True, env=environment)
    if ended.returncode:
        return {"error": ended.stderr.strip().splitlines()[-1][:200]}
    return dict(json.loads(ended.stdout.strip().splitlines()[-1]))


def compared(arguments: argparse.Namespace, material: str, sides: tuple[str, ...]) -> None:
    """Prints a row for each side: the medians of all rounds, and the fastest and the slowest."""
    measured: dict[str, list[dict[str, Any]]] = {side: [] for side in sides}
    for number in range(arguments.rounds):
        for side in (*sides[number % len(sides) :], *sides[: number % len(sides)]):
            figures = run_side(arguments, material, side)
            if material == "pictures" and "error" not in figures:
                figures |= run_side(arguments, "resumed", side)
            measured[side].append(figures)
            print(side, figures, file=sys.stderr)
    lines = []
    for side, results in measured.items():
        if any("error" in figures for figures in results):
            lines.append((NAMES[side], *(["-"] * 5), results[0].get("error", "")))
            continue
        rates = [figures["rate"] for figures in results]
        resumed = [figures.get("resume", figures["first"]) for figures in results]
        kept = results[0]
        order = "" if "same" not in kept else "same" if kept["same"] else (
            f"other: {kept['lost']} lost, {kept['twice']} twice"
        )
        medians = (statistics.median(figures[name] for figures in results)
                   for name in ("first", "mib"))  # fmt: skip
        lines.append((
            NAMES[side], f"{statistics.median(rates):,.0f}",
            f"{min(rates):,.0f} to {max(rates):,.0f}", *(f"{median:.2f}" for median in medians),
            f"{statistics.median(resumed):.2f}", order,
        ))  # fmt: skip
    heading = "side", "samples/CPU s", "spread", "first, CPU s", "MiB", "resume, CPU s", "order"
    print(f"\n{material}\n{rounds.table(heading, lines)}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("folder", type=Path)
    parser.add_argument("--pictures", type=int, default=100_000)
    parser.add_argument("--rows", type=int, default=5_000_000)
    parser.add_argument("--workers", type=int, default=0)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--material", help=argparse.SUPPRESS)
    parser.add_argument("--side", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.side:
        return measure(arguments)
    arguments.folder.mkdir(parents=True, exist_ok=True)
    if not (arguments.folder / "litdata").exists():
        write_pictures(arguments.folder, arguments.pictures)
    if not (arguments.folder / "rows").exists():
        write_rows(arguments.folder / "rows", arguments.rows)
    for name in ("sorted", "mixed"):
        if not (arguments.folder / name).exists():
            write_classes(arguments.folder / name, ROWS_OF_CLASSES, is_sorted=name == "sorted")
    started = time.perf_counter()
    compared(arguments, "pictures", PICTURES)
    compared(arguments, "rows", ROWS)
    print(f"{time.perf_counter() - started:.0f} s, load {os.getloadavg()[0]:.1f}")


if __name__ == "__main__":
    main()
