"""Files of wrong sizes, kinds and contents: checkpoints, weights, archives, expressions."""

import functools
import gzip
import itertools
import os
import pickle
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import safetensors.torch
import torch

from proofs.hostile_case import (
    BUILDING, CHANGED, CONFIGURED, IMPORT, NO_FILE, START, Case, Change, config, file, filled,
    replaced, written,
)  # fmt: skip


def cases() -> Iterator[Case]:
    """All hostile files, each in a folder."""
    yield from _signed_tensors()
    yield from _weights()
    yield from _archives()
    yield from _expressions()
    yield from _configurations()


class Runs:
    """Pickles as a call of a function."""

    def __init__(self, function: Callable[..., Any], *arguments: Any):
        self.call = function, arguments

    def __reduce__(self) -> Any:
        return self.call


def _signed_tensors() -> Iterator[Case]:
    """Tensors of every checkpoint's optimizer, which the manifests agree with.

    Single values and tensors: tests/proofs/test_hostile_states.py.
    """
    for name, tensors in {
        "none": {},
        "others": {"x": torch.ones(3)},
        "too many": {str(number): torch.ones(0) for number in range(100_001)},
    }.items():
        content = functools.partial(safetensors.torch.save, tensors)
        change = written("checkpoints/step-*/optimizer.safetensors", content)
        yield Case(f"signed tensors, {name} of the optimizer", change, (CHANGED,))


def _archives() -> Iterator[Case]:
    """Files of torch.save, whose tensors or archives are larger than they are."""
    many = torch.zeros(2**20)
    nested: dict[str, Any] = {"a": 1}
    for _ in range(60):
        nested = {"a": nested, "b": nested}
    for name, content in {
        "an expanded tensor": {"weight": torch.zeros(1).expand(10**12)},
        "a tensor of overlapping rows": {"w": torch.zeros(10).as_strided((10**5, 10**5), (0, 0))},
        "a thousand views of one memory": {str(number): many[:] for number in range(1000)},
        "a sparse tensor": {"weight": torch.eye(3).to_sparse()},
        "a tensor without memory": {"weight": torch.empty(10**12, device="meta")},
        "dicts that name each other": nested,
        "a list": [1, 2],
        "escapes in a name": {"\x1b[2J": 1},
    }.items():
        yield Case(
            f"an archive with {name}",
            lambda folder, content=content: torch.save(content, folder / "weights.pt"),
            (IMPORT,),
        )
    yield Case("a compressed archive", _compressed, (IMPORT,))


def _compressed(folder: Path) -> None:
    """Has gigabytes of zeros in megabytes."""
    torch.save({"weight": torch.zeros(10)}, folder / "plain")
    with zipfile.ZipFile(folder / "plain") as plain:
        contents = {entry.filename: plain.read(entry) for entry in plain.infolist()}
    (folder / "plain").unlink()
    with zipfile.ZipFile(folder / "weights.pt", "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in contents.items():
            archive.writestr(name, content + bytes(2**28 if name.endswith("data.pkl") else 0))


def _expressions() -> Iterator[Case]:
    """Regular expressions that take exponential time."""
    for slow in (r"(([\w.]+)+)+!", r"([\w.]|[\w.]|[\w.])*!"):
        layers = {"_target_": "andiron_lab.optim.layerwise", "pattern": f"({slow})"}
        for name, options in {
            "match": {"param_groups": {"a": {"match": {"name": slow}, "lr_scale": 0.5}}},
            "exclude": {"param_groups": {"a": {"match": {"rank": 2}, "exclude": slow}}},
            "activation_checkpointing": {"activation_checkpointing": slow},
            "layers": {"param_groups": {"a": layers}},
        }.items():
            yield Case(f"{name} {slow}", config(options), BUILDING)


def _configurations() -> Iterator[Case]:
    """Files of a folder that is given as --config-dir: the user's word, but of any size."""
    doubled = "".join(
        f"{b}: &{b} [*{a},*{a},*{a},*{a},*{a},*{a},*{a}]\n"
        for a, b in itertools.pairwise("abcdefghijklmnop")
    )
    for name, text in {
        "an alias bomb": "a: &a [x,x]\n" + doubled,
        "deep nesting": "[" * 100_000,
        "a Python object": "!!python/object/apply:os.system ['touch {canary}']",
        "no text": "\0\1\2",
    }.items():
        yield Case(f"--config-dir with {name}", _group_file(text), (CONFIGURED,))


def _group_file(text: str) -> Change:
    def apply(folder: Path) -> None:
        (folder / "conf" / "model").mkdir(parents=True)
        (folder / "conf" / "model" / "mine.yaml").write_text(filled(text, folder))

    return apply


def _weights() -> Iterator[Case]:
    """Files of weights to start from and to import."""
    evil = pickle.dumps(Runs(os.system, "touch executed"))
    header = (2**62).to_bytes(8, "little")
    overlapping = b'{"a":{"dtype":"F32","shape":[4],"data_offsets":[0,1000000000000]}}'
    bomb = gzip.compress(b"[" + b"0," * 50_000_000 + b"0]")
    for name, content in {
        "weights.pt": evil,
        "weights.pkl": evil,
        "weights.safetensors": header + b"{}",
        "overlapping.safetensors": len(overlapping).to_bytes(8, "little") + overlapping,
        "bomb.json.gz": bomb,
        "deep.json": b"[" * 200_000,
        "long.mpk": b"\xdd\xff\xff\xff\xff",
        "deep.mpk": b"\x91" * 200_000,
        "empty.safetensors": b"",
        "text.safetensors": b"x" * 100,
    }.items():
        yield Case(f"weights {name}", file(name, content), (START, IMPORT))
    for name in ("odd.pt", "odd.safetensors", "odd.json", "odd.mpk"):
        for kind in ("a pipe", "a device"):
            change = replaced(name, NO_FILE[kind])
            yield Case(f"weights {name} are {kind}", change, (START, IMPORT))
