"""Other files of a run: weights that are something else, logs without end, patches, other folders.

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
from functools import cache
from pathlib import Path
from typing import Any

import torch

from proofs.hostile_bytes import Runs
from proofs.hostile_case import (
    AGAIN, CHANGED, RESUME, Case, Change, config, filled, replaced, sign, socket_at, sparse,
)  # fmt: skip
from proofs.hostile_facts import USING

ESCAPES = "\x1b]0;owned\x07\x1b[2J"


def cases() -> Iterator[Case]:
    """All of them."""
    yield from _disguises()
    yield from _options()
    yield from _logs()
    yield from _plain_values()
    yield from _patches()
    yield from _folders()


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


def _nested(levels: int) -> Any:
    inner: Any = 1
    for _ in range(levels):
        inner = {"hidden": inner}
    return inner


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


@cache
def _content(disguise: str) -> bytes:
    return DISGUISES[disguise]()


def _disguises() -> Iterator[Case]:
    """Each file with three of the contents in turn, under manifests that agree with it."""
    contents = itertools.cycle(DISGUISES)
    for file, commands in DISGUISED.items():
        for content in itertools.islice(contents, 3):
            yield Case(f"{file} is {content}", _overwritten(file, content), commands)


def _overwritten(pattern: str, content: str) -> Change:
    def apply(folder: Path) -> None:
        for path in [*folder.glob(pattern)] or [folder / pattern]:
            path.write_bytes(_content(content))
        sign(folder)

    return apply


def _options() -> Iterator[Case]:
    """Options that lead out of the folder, trust themselves, or take memory without a class's help.
    """
    text = {
        "_target_": "andiron.data.text", "path": "{folder}/poem.txt", "level": "characters",
        "context_length": 16, "valid": 0.1, "test": 0.1, "stride": None, "cache": "{outside}/new",
    }  # fmt: skip
    pictures = {
        "_target_": "andiron.data.image_folder", "path": "{folder}/pictures", "size": 8,
        "channels": 1, "decoded": "once", "scan": True, "cache": "{outside}/new", "valid": 0.1,
        "test": 0.1, "split_seed": 0,
    }  # fmt: skip
    average = {"_target_": "andiron.optim.Ema", "decay": 0.9}
    loss = {"_target_": "andiron.metrics.Loss"}
    linear = {"_target_": "torch.nn.Linear", "in_features": 10**6, "out_features": 10**6}
    rows = {"_target_": "torch.nn.Embedding", "num_embeddings": 10**10, "embedding_dim": 64}
    wild = {"_target_": "torchvision.transforms.v2.Lambda", "lambd": "os.system"}
    held = {"_target_": "torchvision.datasets.DatasetFolder", "root": "/", "loader": "os.system"}
    for name, options in {
        "data that write a cache elsewhere": {"data": text},
        "pictures that write a cache elsewhere": {"data": pictures},
        "an average named ../../x": {"averages": {"../../outside/x": average}},
        "a metric named ../../x": {"metrics": {"../../outside/x": loss, "loss": loss}},
        "a metric of escapes": {"metrics": {ESCAPES: loss, "loss": loss}},
        "a group named ../../x": {"param_groups": {"../../outside/x": {"match": {"rank": 2}}}},
        "a layer of terabytes": {"model": linear},
        "rows of terabytes": {"model": rows},
        "a trusted package": {"trust": ["evil"], "model": {"_target_": "evil.f"}},
        "another's weights": {"start_from": "{outside}/precious"},
        "pickled weights": {"start_from": "{folder}/evil.pth"},
        "pickled weights by a mapping": {
            "start_from": {"path": "{folder}/evil.pth", "rename": {"(a+)+$": "b"}}},
        "shards elsewhere": {"start_from": "{folder}/evil.index.json"},
        "an address of timm": {"model": {"_target_": "andiron.models.timm", "name": "hf-hub:x/y"}},
        "weights of timm": {"model": {
            "_target_": "andiron.models.timm", "name": "resnet18",
            "settings": {"pretrained": True, "pretrained_cfg": {"file": "{folder}/evil.pth"}}}},
        "code of transformers": {"model": {"_target_": "andiron.models.hf", "name": "{folder}"}},
        "a function of transformers": {"model": {
            "_target_": "andiron.models.hf", "name": "bert", "auto": "pipeline"}},
        "a run to overwrite": {"overwrite": True, "resume": "{outside}"},
        "a function among transforms": {
            "augmentation": {"mine": {"_target_": "andiron.data.Torchvision", "transform": wild}}},
        "a function of a schedule": {"scheduler": {
            "_target_": "torch.optim.lr_scheduler.LambdaLR", "lr_lambda": "os.system"}},
        "a loader of torchvision": {
            "data": {"_target_": "andiron.data.torch_dataset", "train": held}},
        "a store of checkpoints": {"checkpoint": {
            "_target_": "andiron.checkpoint.checkpointing", "store": "shutil.rmtree"}},
        "a node by position": {"model": {"_target_": "torch.nn.Sequential", "_args_": [
            {"_target_": "os.system", "command": "touch {canary}"}]}},
        "a partial node": {"loss": {
            "_target_": "os.system", "_partial_": True, "command": "touch {canary}"}},
        "an alias of a module": {"model": {"_target_": "torch.nn.modules.module.os.system"}},
        "a class by its attributes": {"metrics": {"loss": {
            "_target_": "andiron.metrics.Loss.__init__.__globals__"}}},
        "another's attribute": {"model": {"_target_": "andiron.models.zoo.torch.hub.load"}},
        "nine hundred levels": {"model": _nested(900)},
        "many groups": {"param_groups": {
            f"g{number}": {"match": {"name": f"x{number}"}} for number in range(20_000)}},
    }.items():  # fmt: skip
        change = _with_files(config(lambda options=options: options))
        yield Case(f"options with {name}", change, (), is_another_run=True)


def _with_files(change: Change) -> Change:
    """The change of a folder that has a text and pictures too."""

    def apply(folder: Path) -> None:
        shutil.copy(folder / "evil.pickle", folder / "evil.pth")
        shards = {"weight": "../outside/precious", "bias": "evil.pth"}
        (folder / "evil.index.json").write_text(json.dumps({"weight_map": shards}))
        (folder / "poem.txt").write_text("So much depends upon a red wheel barrow\n" * 40)
        for number in range(8):
            path = folder / "pictures" / "ab"[number % 2] / f"{number}.png"
            path.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(folder.parent / "picture.png", path)
        change(folder)

    return apply


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
        for name, change in {
            "a pipe": lambda path: os.mkfifo(path),
            "a device": lambda path: path.symlink_to("/dev/zero"),
            "a socket": socket_at,
            "a sparse file of 100 GB": lambda path: sparse(path, 10**11),
            "a link to a secret": lambda path: path.symlink_to("../outside/precious"),
        }.items():
            yield Case(f"{file} is {name}", _unfinished(replaced(file, change)), ())


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
    "modules in nine hundred levels": ("provenance.json", {"modules": _nested(900)}),
    "a resume of other projects": ("provenance.json", {"resumes": [
        {"projects": {"a": {"untracked": [3]}}, "git": {"untracked": {}}}]}),
    "code of numbers": ("provenance.json", {"git": {"revision": 1, "untracked": 3}}),
    "no data": ("provenance.json", {"data": None}),
    "resumes in nine hundred levels": ("provenance.json", {"resumes": [_nested(900)]}),
    "nine hundred levels": ("summary.json", {"metrics": _nested(900)}),
    "facts of nine hundred levels": ("data.json", {"class_names": _nested(900)}),
    "versions of escapes": ("provenance.json", {"packages": {ESCAPES: ESCAPES}, "hardware": 3}),
}  # fmt: skip


def _plain_values() -> Iterator[Case]:
    for name, (file, values) in PLAIN.items():

        def apply(folder: Path, file: str = file, values: Any = values) -> None:
            plain = json.loads((folder / file).read_text())
            (folder / file).write_text(json.dumps(plain | values))
            sign(folder)

        yield Case(f"{file} with {name}", apply, ())


def _patches() -> Iterator[Case]:
    escaping = "--- a/x\n+++ b/../../../../{outside}/new\n@@ -0,0 +1 @@\n+" + ESCAPES + "\n"
    for name, change in {
        "a pipe": lambda path: os.mkfifo(path),
        "a device": lambda path: path.symlink_to("/dev/zero"),
        "a sparse file of 100 GB": lambda path: sparse(path, 10**11),
        "a link to a secret": lambda path: path.symlink_to("../outside/precious"),
        "a folder": lambda path: path.mkdir(),
        "a patch of a file outside": lambda path: path.write_text(filled(escaping, path.parent)),
        "no text": lambda path: path.write_bytes(b"\0\xff" * 10**7),
    }.items():

        def apply(folder: Path, change: Callable[[Path], object] = change) -> None:
            (folder / "dirty.patch").unlink(missing_ok=True)
            change(folder / "dirty.patch")
            sign(folder)

        yield Case(f"dirty.patch is {name}", apply, ())


def _folders() -> Iterator[Case]:
    def linked(name: str, target: str) -> Change:
        def apply(folder: Path) -> None:
            path = folder / name
            if path.is_dir():
                shutil.rmtree(path)
            path.symlink_to(target)

        return apply

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
