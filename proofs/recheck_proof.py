"""Honest runs whose stretches are made again, and forged copies, which a recheck has to name.

A forgery changes one logged value, weight, option or datum of a small run, with every checksum
renewed.
"""

import csv
import json
import random
from collections.abc import Callable
from pathlib import Path

import torch

from andiron.checkpoint import contents
from andiron.checkpoint.on_disk import manifest
from andiron.disk import checksums, files
from andiron.run_folder import RunFolder
from andiron.serialization import load_tensors, save_tensors
from andiron.shell.config import trust
from andiron.shell.config.composition import composed
from andiron.shell.run import run_record
from andiron.shell.training import train_run
from andiron_lab.ask.recheck import Recheck, recheck

ROOT = Path(__file__).resolve().parents[1]
SMALL = ["~render", "device=cpu", "num_epochs=3", "checkpoint.last=20", "log_every=3"]
TRUSTED = trust.of_user([ROOT / "conf"], [])
NETWORK = ["model=convnet", "model.hidden=32", "optimizer=adam", "averages=ema", "slices=4"]
OPTIONS = {  # of the runs, by what they train on
    "digits": [*NETWORK, "gradients=clip_norm", "validate_every=4", "checkpoint.every=5"],
    "digits, sharpness": ["optimizer=lion", "sam=0.05", "scheduler=plateau", "averages=swa",
                          "averages.swa.start=1epochs"],
    "table": ["data=csv", "data.target=kind", "model.hidden=[16]", "grads_accumulation=3",
              "scheduler=cosine", "early_stopping=patience", "precision=bf16"],
}  # fmt: skip


def trained(folder: Path, kind: str) -> RunFolder:
    """A run of this kind; a table of its own stands beside it."""
    given = [*SMALL, *OPTIONS[kind]]
    if kind == "table":
        table = folder.with_suffix(".csv")
        table.parent.mkdir(parents=True, exist_ok=True)
        table.write_text(_table(random.Random(2)))
        given.append(f"data.path={table}")
    train_run.train(composed(ROOT / "conf", given), folder, {})
    return RunFolder(folder)


def _table(draw: random.Random) -> str:
    rows = [[draw.gauss(0, 1) for _ in range(4)] for _ in range(400)]
    lines = (
        ",".join([*map(repr, row), "abc"[sum(value > 0 for value in row) % 3]]) for row in rows
    )
    return "\n".join(["one,two,three,four,kind", *lines]) + "\n"


def forge_logged(run: RunFolder, draw: random.Random) -> str:
    """Another digit in one value of metrics.jsonl."""
    lines = run.metrics.read_text().splitlines()
    number = draw.choice([n for n, line in enumerate(lines) if '"split": "test' not in line])
    values = json.loads(lines[number])
    names = [
        n for n, value in values.items() if isinstance(value, float) and "/" not in n and value
    ]
    name = draw.choice(names)
    values[name] *= 1 + 1e-9
    lines[number] = json.dumps(values)
    run.metrics.write_text("\n".join(lines) + "\n")
    return f"line {number + 1}: {name}"


def forge_weight(run: RunFolder, draw: random.Random) -> str:
    """The lowest bit of one final weight."""
    name = _flip(run.model, draw)
    run_record.accept(run)
    return name


def forge_checkpoint(run: RunFolder, draw: random.Random) -> str:
    """The lowest bit of one number in the weights or the optimizer's state of a checkpoint."""
    folder = draw.choice(sorted(run.checkpoints.glob("step-*")))
    files_of_state = [path for path in folder.glob("*.safetensors") if _floats(path)]
    file = draw.choice(sorted(files_of_state))
    name = _flip(file, draw)
    listed = manifest.read(folder)
    listed.entries[file.name] = checksums.entry(file)
    files.write(folder / contents.MANIFEST, listed.as_json())
    return f"{folder.name}/{file.name}: {name}"


def forge_option(run: RunFolder, draw: random.Random) -> str:
    """Another seed, rate or batch size in config.json."""
    plain = files.read_json(run.config)
    name = draw.choice(["seed", "batch_size", "lr"])
    before = plain[name]
    plain[name] = before * 1.001 if name == "lr" else before + 1
    rates = [
        entry for entry, value in plain["scheduler"].items() if value == before and "lr" in entry
    ]
    plain["scheduler"] |= dict.fromkeys(rates, plain[name])  # copies of lr
    run.config.write_bytes(files.as_indented_json(plain))
    run_record.accept(run)
    return name


def forge_datum(run: RunFolder, draw: random.Random) -> str:
    """Another digit in one cell of the table."""
    table = Path(files.read_json(run.config)["data"]["path"])
    with table.open(newline="") as file:
        rows = list(csv.reader(file))
    row, column = draw.randrange(1, len(rows)), draw.randrange(4)
    rows[row][column] = repr(float(rows[row][column]) + 1e-6)
    table.write_text("\n".join(map(",".join, rows)) + "\n")
    return f"row {row}, column {column}"


def _floats(file: Path) -> list[str]:
    tensors = load_tensors(file).items()
    return [name for name, value in tensors if value.is_floating_point() and value.numel()]


def _flip(file: Path, draw: random.Random) -> str:
    tensors, name = load_tensors(file), draw.choice(_floats(file))
    bits = tensors[name] = tensors[name].clone()
    sizes = {4: torch.int32, 2: torch.int16, 8: torch.int64}
    view = bits.reshape(-1).view(sizes[bits.element_size()])
    view[draw.randrange(len(view))] ^= 1
    save_tensors(file, tensors)
    return name


FORGERIES: list[tuple[str, Callable[[RunFolder, random.Random], str]]] = [
    ("digits", forge_logged), ("table", forge_datum), ("digits", forge_weight),
    ("table", forge_option), ("digits", forge_checkpoint),
]  # fmt: skip


def honest(folder: Path, kind: str) -> Recheck:
    """The recheck of three stretches of a run that nobody changed."""
    return recheck(trained(folder / "run", kind).path, 3, 0, TRUSTED, from_start=True)


def forged(folder: Path, number: int) -> tuple[str, Recheck]:
    """The change that was made in a run, and the recheck of all of its stretches."""
    kind, forge = FORGERIES[number]
    run = trained(folder / "run", kind)
    change = forge(run, random.Random(number))
    return f"{forge.__name__}, {change}", recheck(run.path, 100, 0, TRUSTED, from_start=True)
