"""Files of wrong sizes, kinds and contents: checkpoints, weights, archives, expressions."""

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
    AGAIN, CHANGED, CONFIGURED, IMPORT, START, Case, Change, config, file, filled, sign,
)  # fmt: skip


def cases() -> Iterator[Case]:
    """All hostile files, each in a folder."""
    yield from _signed_states()
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


def _signed_states() -> Iterator[Case]:
    """Large states of every checkpoint, which the manifests agree with.

    Single values and tensors: tests/proofs/test_hostile_states.py.
    """
    for name, text in {
        "deep nesting": "[" * 100_000,
        "many lists": "[" + "[]," * 4_000_000 + "0]",
        "a huge number": "9" * 100_000,
        "a list": "[]",
    }.items():
        yield Case(
            f"signed state of {name}",
            _signed(lambda checkpoint, text=text: (checkpoint / "state.json").write_text(text)),
            (CHANGED,),
        )


def _signed_tensors() -> Iterator[Case]:
    """Tensors of every checkpoint's optimizer, which the manifests agree with."""
    for name, tensors in {
        "none": {},
        "others": {"x": torch.ones(3)},
        "too many": {str(number): torch.ones(0) for number in range(100_001)},
    }.items():
        yield Case(
            f"signed tensors, {name} of the optimizer",
            _signed(
                lambda checkpoint, tensors=tensors: safetensors.torch.save_file(
                    tensors, checkpoint / "optimizer.safetensors"
                )
            ),
            (CHANGED,),
        )


def _signed(change: Change) -> Change:
    """The change of every checkpoint's folder, with manifests that agree with it."""

    def apply(folder: Path) -> None:
        for checkpoint in folder.glob("checkpoints/step-*"):
            change(checkpoint)
        sign(folder)

    return apply


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
    building = CHANGED, AGAIN  # a finished run that is resumed alone builds nothing
    for slow in (r"(([\w.]+)+)+!", r"([\w.]|[\w.]|[\w.])*!"):
        group = {"match": {"name": slow}, "lr_scale": 0.5}
        change = config(lambda group=group: {"param_groups": {"a": group}})
        yield Case(f"match {slow}", change, building)
        yield Case(
            f"exclude {slow}",
            config(
                lambda slow=slow: {"param_groups": {"a": {"match": {"rank": 2}, "exclude": slow}}}
            ),
            building,
        )
        yield Case(
            f"activation_checkpointing {slow}",
            config(lambda slow=slow: {"activation_checkpointing": slow}),
            building,
        )
        layers = {"_target_": "andiron_lab.optim.layerwise", "pattern": f"({slow})"}
        change = config(lambda n=layers: {"param_groups": {"a": n}})
        yield Case(f"layers {slow}", change, building)


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
    for name in ("pipe.pt", "pipe.safetensors", "pipe.json", "pipe.mpk"):
        yield Case(
            f"weights in a pipe, {name}",
            lambda folder, name=name: os.mkfifo(folder / name),
            (START, IMPORT),
        )
    yield Case(
        "weights in a device",
        lambda folder: (folder / "w.safetensors").symlink_to("/dev/zero"),
        (START,),
    )
