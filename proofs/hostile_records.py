"""Files of a run that are something else: other contents, no files, endless logs, patches, links.

Few of them have to be refused: what a command does not read is none of its business.
"""

import gzip
import io
import itertools
import json
import os
import pickle
import shutil
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import torch

from proofs.hostile_bytes import Runs
from proofs.hostile_case import (
    AGAIN, CHANGED, EVALUATE, NO_FILE, REMOVE, RESUME, SHOW, USING, Case, Change, edited, filled,
    outside, replaced, sign, written,
)  # fmt: skip
from proofs.hostile_configs import ESCAPES, nested


def cases() -> Iterator[Case]:
    """All of them."""
    yield from _disguises()
    yield from _no_files()
    yield from _logs()
    yield from _plain_values()
    yield from _patches()
    yield from _manifests()
    yield from _folders()
    yield from _links()
    yield Case("weights are a link out of the folder", _linked_weights, USING)


def _torch_saved(value: object) -> bytes:
    content = io.BytesIO()
    torch.save(value, content)
    return content.getvalue()


def _zipped() -> bytes:
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("config.json", bytes(2**28))
    return content.getvalue()


def _header(tensors: dict[str, Any]) -> bytes:
    text = json.dumps(tensors).encode()
    return len(text).to_bytes(8, "little") + text


LARGE = {"dtype": "F32", "shape": [2**20, 2**20], "data_offsets": [0, 2**42]}
DISGUISES: dict[str, Callable[[], bytes]] = {
    "a pickle": lambda: pickle.dumps(Runs(os.system, "touch executed")),
    "an archive of torch": lambda: _torch_saved(Runs(os.system, "touch executed")),
    "a bomb in gzip": lambda: gzip.compress(bytes(2**28)),
    "a bomb in zip": _zipped,
    "a bomb in MessagePack": lambda: b"\xdd\xff\xff\xff\xff" + b"\x91" * 200_000,
    "a bomb in JSON": lambda: b"[" + b"[]," * 4_000_000 + b"0]",
    "one long number": lambda: b"9" * 10**7,
    "a header of exabytes": lambda: (2**62).to_bytes(8, "little") + b"{}",
    "tensors of terabytes": lambda: _header({"network.layers.1.weight": LARGE}),
    "tensors one over another": lambda: _header(
        {entry: {"dtype": "F32", "shape": [4], "data_offsets": [0, 16]} for entry in "ab"}
    ) + bytes(16),
}  # fmt: skip
DISGUISED = {  # files of a run, and the commands that need each
    "model.safetensors": USING, "config.json": (CHANGED, AGAIN, *USING), "data.json": USING,
    "provenance.json": (CHANGED, AGAIN), "manifest.json": (RESUME, CHANGED, *USING),
    "summary.json": (), "status.json": (), "metrics.jsonl": (), "experiment.log": (),
    "param_groups.json": (), ".hydra/overrides.yaml": (CHANGED,), ".hydra/config.yaml": (),
    ".hydra/hydra.yaml": (), "model-ema.safetensors": (),
    "checkpoints/*/model.safetensors": (CHANGED,), "checkpoints/*/state.json": (CHANGED,),
    "checkpoints/*/optimizer.safetensors": (CHANGED,),
}  # fmt: skip


FILES = {  # files in whose place lies something else, and the commands that need each
    "config.json": (RESUME, CHANGED, AGAIN, SHOW, *USING), "data.json": USING,
    "provenance.json": (CHANGED, AGAIN, SHOW, EVALUATE), "model.safetensors": USING,
    "summary.json": (SHOW,), "status.json": (SHOW,), ".hydra/overrides.yaml": (CHANGED,),
    "checkpoints/*/manifest.json": (CHANGED,), "checkpoints/*/state.json": (CHANGED,),
    "checkpoints/*/model.safetensors": (CHANGED,), "metrics.jsonl": (), "experiment.log": (),
}  # fmt: skip
READ_AS_JSON = {
    "config.json": (RESUME, CHANGED, AGAIN, *USING), "data.json": USING,
    "provenance.json": (CHANGED, AGAIN, EVALUATE), "checkpoints/*/state.json": (CHANGED,),
}  # fmt: skip
NOT_PLAIN: dict[str, bytes] = {
    "nothing": b"",
    "half of it": b'{"lr": 0.',
    "deep nesting": b"[" * 200_000 + b"]" * 200_000,
    "a huge number": b'{"lr": ' + b"9" * 100_000 + b"}",
    "a surrogate": b'{"lr": "\\ud800"}',
    "a list": b"[1]",
    "null": b"null",
    "infinity": b'{"lr": Infinity}',
    "no UTF-8": b"\xff",
}


def _disguises() -> Iterator[Case]:
    """Each file with three of the contents in turn, under manifests that agree with it."""
    contents = itertools.cycle(DISGUISES)
    for file, commands in DISGUISED.items():
        for content in itertools.islice(contents, 3):
            yield Case(f"{file} is {content}", written(file, DISGUISES[content]), commands)
    for file, commands in READ_AS_JSON.items():
        for name, content in NOT_PLAIN.items():
            change = written(file, lambda content=content: content)
            # an object without facts is a data.json of older runs: the data are read instead
            is_older = file == "data.json" and name in ("a huge number", "a surrogate", "infinity")
            yield Case(f"{file} holds {name}", change, () if is_older else commands)


def _no_files() -> Iterator[Case]:
    """Each file with five of the kinds in turn."""
    kinds = itertools.cycle(NO_FILE)
    for file, commands in FILES.items():
        for kind in itertools.islice(kinds, 5):
            change = replaced(file, NO_FILE[kind])
            is_log = file in ("metrics.jsonl", "experiment.log")
            yield Case(f"{file} is {kind}", _unfinished(change) if is_log else change, commands)


LINE = {"split": "train", "updates": 1, "epoch": 1, "over": "epoch", "loss": 0.5}
LINES: dict[str, Callable[[], bytes]] = {
    "one endless line": lambda: b'{"split": "' + b"x" * 30_000_000,
    "many lines": lambda: json.dumps(LINE).encode() + b"\n" + b"{}\n" * 3_000_000,
    "escapes": lambda: json.dumps({**LINE, ESCAPES: 1.0, "split": ESCAPES}).encode(),
    "deep nesting": lambda: b"[" * 200_000,
    "numbers of other kinds": lambda: json.dumps(
        {**LINE, "updates": -1, "epoch": 10**400, "loss": "x"}).encode(),
    "many metrics": lambda: json.dumps(
        {**LINE, **{f"m{number}": 1.0 for number in range(300_000)}}).encode(),
    "values without end": lambda: b"\n".join(
        json.dumps({**LINE, "updates": entry, "loss": 1e999}).encode() for entry in range(50_000)),
    "no text": lambda: b"\0\xff\n" * 1000,
}  # fmt: skip


def _logs() -> Iterator[Case]:
    for file in ("metrics.jsonl", "experiment.log"):
        for name, content in LINES.items():
            apply = replaced(file, lambda path, content=content: path.write_bytes(content()))
            yield Case(f"{file} of {name}", _unfinished(apply), ())


def _unfinished(change: Change) -> Change:
    """Without a summary, so that what is logged is read in its place."""

    def apply(folder: Path) -> None:
        (folder / "summary.json").unlink()
        change(folder)

    return apply


PLAIN: dict[str, tuple[str, Any]] = {  # file, place in it, and a value that no run writes there
    "a status of escapes": ("status.json", {"status": ESCAPES, "reason": ESCAPES}),
    "a status of numbers": ("status.json", {"status": 3, "started": 10**400, "ended": []}),
    "a start in another age": ("status.json", {"started": "0001-01-01T00:00:00+23:59"}),
    "a running process": ("status.json", {"status": "running", "pid": 1}),
    "metrics of escapes": ("summary.json", {"metrics": [
        {"split": ESCAPES, "metric": ESCAPES, "last": 1, "best": 1}]}),
    "metrics of text": ("summary.json", {"metrics": "x", "directions": 3}),
    "huge numbers": ("summary.json", {"num_parameters": 10**400, "updates": -1, "seconds": 1e999}),
    "groups of escapes": ("param_groups.json", {ESCAPES: {ESCAPES: ESCAPES}}),
    "a patch named ../x": ("provenance.json", {"resumes": [{"patch": "../outside/precious"}]}),
    "a patch named by a number": ("provenance.json", {"resumes": [{"patch": 3, "updates": []}]}),
    "resumes of text": ("provenance.json", {"resumes": ["x", None]}),
    "changes of escapes": ("provenance.json", {"resumes": [{"changes": {ESCAPES: ESCAPES}}]}),
    "code of escapes": ("provenance.json", {"git": {"revision": ESCAPES, "untracked": [ESCAPES]}}),
    "projects of escapes": ("provenance.json", {"projects": {
        ESCAPES: {
            "root": "/", "revision": ESCAPES, "untracked": [ESCAPES], "uncommitted": "../x"}}}),
    "projects of text": ("provenance.json", {"projects": "x", "modules": [], "packages": ["x"]}),
    "modules in nine hundred levels": ("provenance.json", {"modules": nested(900)}),
    "a resume of other projects": ("provenance.json", {"resumes": [
        {"projects": {"a": {"untracked": [3]}}, "git": {"untracked": {}}}]}),
    "code of numbers": ("provenance.json", {"git": {"revision": 1, "untracked": 3}}),
    "no data": ("provenance.json", {"data": None}),
    "resumes in nine hundred levels": ("provenance.json", {"resumes": [nested(900)]}),
    "nine hundred levels": ("summary.json", {"metrics": nested(900)}),
    "facts of nine hundred levels": ("data.json", {"class_names": nested(900)}),
    "versions of escapes": ("provenance.json", {"packages": {ESCAPES: ESCAPES}, "hardware": 3}),
}  # fmt: skip


def _plain_values() -> Iterator[Case]:
    for name, (file, values) in PLAIN.items():
        change = edited(file, lambda plain, values=values: plain.update(values))
        yield Case(f"{file} with {name}", change, ())


def _patches() -> Iterator[Case]:
    escaping = "--- a/x\n+++ b/../../../../{outside}/new\n@@ -0,0 +1 @@\n+" + ESCAPES + "\n"
    for name, make in {
        **NO_FILE,
        "a patch of a file outside": lambda path: path.write_text(filled(escaping, path.parent)),
        "no text": lambda path: path.write_bytes(b"\0\xff" * 10**7),
    }.items():

        def apply(folder: Path, make: Callable[[Path], object] = make) -> None:
            replaced("dirty.patch", make)(folder)
            sign(folder)

        yield Case(f"dirty.patch is {name}", apply, ())


def _manifests() -> Iterator[Case]:
    for name in ("../../../../{canary}", "/etc/passwd", "model.safetensors/../../x", "a\0b"):
        change = edited(
            "checkpoints/*/manifest.json",
            lambda plain, name=name: plain["files"].update({name: {}}), is_signed=False,
        )  # fmt: skip
        yield Case(f"a manifest that lists {name!r}", change, (CHANGED,))
    counters = edited(
        "checkpoints/*/state.json", lambda plain: plain.update(updates=-1), is_signed=False
    )
    yield Case("a state with other counters", counters, (CHANGED,))


def _folders() -> Iterator[Case]:
    def linked(name: str, target: str) -> Change:
        return replaced(name, lambda path: path.symlink_to(target))

    def numbered(folder: Path) -> None:
        for number in ("9" * 200, "-1", "0", "1e9", "\x1b[2J"):
            checkpoints = folder / "checkpoints"
            shutil.copytree(next(checkpoints.glob("step-*")), checkpoints / f"step-{number}")

    def many(folder: Path) -> None:
        for number in range(10_000):
            (folder / "checkpoints" / f"step-{number}").mkdir(exist_ok=True)

    def nested(folder: Path) -> None:
        manifest = (folder / "manifest.json").read_bytes()
        for _ in range(100):
            folder /= "inner"
            folder.mkdir()
            (folder / "status.json").write_text("{}")
            (folder / "manifest.json").write_bytes(manifest)

    def named(folder: Path) -> None:
        (folder / f"{ESCAPES}.txt").touch()
        shutil.copytree(folder / ".hydra", folder / ESCAPES.replace("/", ""))

    def events(folder: Path) -> None:
        for path in folder.glob("tensorboard/*/*tfevents*"):
            path.write_bytes(b"\xff" * 10**6)

    yield Case("checkpoints is a link to itself", linked("checkpoints", "checkpoints"), (CHANGED,))
    yield Case("checkpoints is a link to /", linked("checkpoints", "/"), (CHANGED,))
    yield Case("tensorboard is a link to the run", linked("tensorboard", "."), ())
    yield Case("nonfinite is a link to /", linked("nonfinite", "/"), ())
    yield Case("a folder that is the folder above", linked("again", ".."), ())
    yield Case("checkpoints of odd numbers", numbered, ())
    yield Case("ten thousand checkpoints", many, ())
    yield Case("runs in runs in runs", nested, ())
    yield Case("names of escapes", named, ())
    yield Case("TensorBoard files of nothing", events, ())


def _links() -> Iterator[Case]:
    """Through none of them a file is removed or packed."""
    for name in (
        ".hydra", "checkpoints", "checkpoints/step-1", "tensorboard/train", "tensorboard/more",
        "experiment.log", "metrics.jsonl", "model.safetensors",
    ):  # fmt: skip
        is_file = name.endswith((".log", ".jsonl", ".safetensors"))
        target = "precious" if is_file else ""
        link = replaced(name, lambda path, target=target: path.symlink_to(outside(path) / target))
        yield Case(f"{name} is a link", link, (REMOVE,))


def _linked_weights(folder: Path) -> None:
    elsewhere = folder.parent / "elsewhere.safetensors"
    (folder / "model.safetensors").rename(elsewhere)
    (folder / "model.safetensors").symlink_to(elsewhere)
