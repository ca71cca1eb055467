"""Random damage to every file of a run: each is noticed, or does not matter; nothing crashes.

`python -m proofs.mutations --number 2000` stops a small run half way, damages one file of a copy,
resumes it, and compares the weights with the undamaged run. Every second damage
is signed: the manifests are made to agree with it, as a stranger can. Then other weights are no
fault, and a crash, a traceback, a hang or much memory still is.
"""

import argparse
import hashlib
import json
import os
import random
import shutil
import sys
import tempfile
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from andiron.shell.training import experiment  # noqa: F401  # before the commands are forked
from proofs.attempt import SMALL, Outcome, attempt, forks, made_run, trained
from proofs.hostile_case import sign

RUN = (*SMALL, "optimizer=adam", "averages=ema", "batch_size=32", "log_every=2",
       "checkpoint.every=2")  # fmt: skip
STOPPED_AT, END = 1, 3  # epochs
VALUES: list[Any] = [
    0, -1, 1, 2**31, 2**63, 10**30, 0.5, -0.0, 1e308, "", "x", None, True, [], {}, [[]],
    "\x1b[2J", float("nan"), float("inf"),
]  # fmt: skip


class Damage(NamedTuple):
    """One damage: the file, what was done to it, and whether the manifests agree with it."""

    file: str
    kind: str
    is_signed: bool


def damage(folder: Path, numbers: random.Random, *, is_signed: bool) -> Damage:
    """Damages one file of a run's folder."""
    path = numbers.choice(_files(folder, numbers))
    kind, change = numbers.choice(KINDS)
    before = path.read_bytes()
    after = change(before, numbers)
    if after is None:
        path.unlink()
    else:
        path.write_bytes(after)
    if is_signed:
        sign(folder)
    return Damage(path.relative_to(folder).as_posix(), kind, is_signed)


def _files(folder: Path, numbers: random.Random) -> list[Path]:
    """The files to choose from: half of the time those that a resume reads first."""
    if numbers.random() < 0.5:
        newest = max(folder.glob("checkpoints/step-*"), key=lambda path: int(path.name[5:]))
        record = folder / "config.json", folder / "provenance.json", folder / "manifest.json"
        return sorted([*newest.iterdir(), *record])
    return sorted(path for path in folder.rglob("*") if path.is_file())


def _flipped(content: bytes, numbers: random.Random) -> bytes:
    if not content:
        return b"\0"
    place = numbers.randrange(len(content))
    changed = bytearray(content)
    changed[place] ^= 1 << numbers.randrange(8)
    return bytes(changed)


def _digit(content: bytes, numbers: random.Random) -> bytes:
    places = [place for place, byte in enumerate(content) if byte in b"0123456789"]
    if not places:
        return _flipped(content, numbers)
    place = numbers.choice(places)
    return content[:place] + str(numbers.randrange(10)).encode() + content[place + 1 :]


def _cut(content: bytes, numbers: random.Random) -> bytes:
    return content[: numbers.randrange(len(content) + 1)]


def _zeroed(content: bytes, numbers: random.Random) -> bytes:
    start = numbers.randrange(len(content) + 1)
    size = numbers.randrange(64)
    return content[:start] + bytes(len(content[start : start + size])) + content[start + size :]


def _inserted(content: bytes, numbers: random.Random) -> bytes:
    start = numbers.randrange(len(content) + 1)
    return content[:start] + numbers.randbytes(numbers.randrange(1, 64)) + content[start:]


def _doubled(content: bytes, numbers: random.Random) -> bytes:
    start = numbers.randrange(len(content) + 1)
    return content[:start] + content[start : start + 64] * 2 + content[start + 64 :]


def _value(content: bytes, numbers: random.Random) -> bytes:
    """One value of a JSON file replaced; of another file, a bit."""
    try:
        plain = json.loads(content)
    except ValueError:
        return _flipped(content, numbers)
    places: list[tuple[Any, Any]] = []

    def collect(value: Any) -> None:
        keys = value.keys() if isinstance(value, dict) else range(len(value))
        for key in keys:
            places.append((value, key))
            if isinstance(value[key], dict | list):
                collect(value[key])

    if not isinstance(plain, dict | list) or not plain:
        return b"null"
    collect(plain)
    owner, key = numbers.choice(places)
    owner[key] = numbers.choice(VALUES)
    return json.dumps(plain).encode()


def _key(content: bytes, numbers: random.Random) -> bytes:
    """One key of a JSON object removed; of another file, a piece."""
    try:
        plain = json.loads(content)
    except ValueError:
        return _cut(content, numbers)
    if not isinstance(plain, dict) or not plain:
        return b"{}"
    inner = [value for value in plain.values() if isinstance(value, dict) and value]
    owner = numbers.choice([plain, *inner])
    del owner[numbers.choice(sorted(owner))]
    return json.dumps(plain).encode()


KINDS: list[tuple[str, Callable[[bytes, random.Random], bytes | None]]] = [
    ("a bit flipped", _flipped),
    ("a digit changed", _digit),
    ("cut off", _cut),
    ("zeros", _zeroed),
    ("bytes inserted", _inserted),
    ("a piece doubled", _doubled),
    ("a value replaced", _value),
    ("a value replaced", _value),
    ("a key removed", _key),
    ("removed", lambda content, numbers: None),
]


def resumed(folder: Path) -> Outcome:
    """The outcome of resuming the run in the folder."""
    sys.argv = ["train", f"resume={folder}", f"num_epochs={END}"]
    return attempt(trained, may_write=[folder], forbidden=folder, seconds=60)


def weights(folder: Path) -> dict[str, str]:
    """The SHA-256 of each exported file of weights."""
    return {
        path.name: hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(folder.glob("model*.safetensors"))
    }


def judged(outcome: Outcome, is_signed: bool, same: bool) -> tuple[str, list[str]]:
    """The effect of a damage, and its faults."""
    if outcome.code:
        return "refused", outcome.faults()
    faults = [fault for fault in outcome.faults() if fault != "accepted it"]
    if same:
        return "same bits", faults
    is_told = any(word in outcome.output for word in ("damaged", "changed", "missing", "ignored"))
    if not is_signed and not is_told:
        faults.append("other weights, in silence")
    return "other weights", faults


def _tried(job: tuple[int, Path, Path, dict[str, str]]) -> tuple[Damage, str, list[str], str]:
    seed, stopped, work, expected = job
    folder = work / f"run-{os.getpid()}"
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(stopped, folder)
    done = damage(folder, random.Random(seed), is_signed=seed % 2 == 1)
    outcome = resumed(folder)
    verdict, faults = judged(outcome, done.is_signed, weights(folder) == expected)
    return done, verdict, faults, " ".join(outcome.output.split())[-400:]


def main() -> int:
    """Prints every fault and a table; the exit code."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--number", type=int, default=2000)
    parser.add_argument("--seed", type=int, default=0, help="of the first; the others count on")
    parser.add_argument("--jobs", type=int, default=2)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="andiron-mutations-") as scratch:
        work = Path(scratch)
        stopped = made_run(work / "stopped", *RUN, f"num_epochs={STOPPED_AT}")
        shutil.copytree(stopped, work / "straight")
        straight = resumed(work / "straight")
        if straight.code:
            raise RuntimeError(straight.output)
        expected = weights(work / "straight")
        jobs = [
            (options.seed + number, stopped, work, expected) for number in range(options.number)
        ]
        counts, faulty = Counter[str](), 0
        with forks(options.jobs) as pool:
            for job, (done, verdict, faults, said) in zip(jobs, pool.map(_tried, jobs)):
                counts[f"{'signed' if done.is_signed else 'unsigned'}: {verdict}"] += 1
                if faults:
                    faulty += 1
                    print(f"seed {job[0]}: {done}: {'; '.join(faults)}\n    {said}", flush=True)
    for name, number in sorted(counts.items()):
        print(f"{number:>6}  {name}")
    print(f"{options.number} damages, {faulty} with a fault")
    return int(faulty > 0)


if __name__ == "__main__":
    sys.exit(main())
