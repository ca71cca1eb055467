"""Hostile data.json files and links to weights, for the commands that use a trained run."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from proofs.hostile_case import (
    AGAIN, CHANGED, EVALUATE, EXPORT, LOAD, PREDICT, PROGRAM, REPLAY, Case, Change, filled, sign,
)  # fmt: skip

USING = (LOAD, EVALUATE, PREDICT, EXPORT, PROGRAM)
BUILDING = (CHANGED, AGAIN, REPLAY)
FACTS: dict[str, Any] = {  # by place in data.json: a value that no run of the digits has
    "input_shape": [10**6, 10**6, 10**6], "input_shape ": [1, -8, 8], "input_shape  ": "x",
    "input_shape   ": [1] * 100, "num_classes": 10**12, "num_classes ": 0, "num_classes  ": "10",
    "class_names": ["\x1b[2J"] * 3, "class_names ": {"a": 1}, "columns": 3, "vocabulary": [1],
    "preprocessing": [], "preprocessing.batcher": {"kind": "os.system"},
    "preprocessing.batcher.kind": "TextBatcher ", "preprocessing.batcher.mean": "{canary}",
    "preprocessing.batcher.std": [1.0] * 5, "preprocessing.batcher.scale": None,
    "preprocessing.batcher.std ": 0, "preprocessing.batcher.mean ": float("nan"),
    "preprocessing.evaluation_batch_size": -1, "preprocessing.input_dtype": ["x"],
    "preprocessing.class_counts": [-1], "preprocessing.more": "x",
    "preprocessing.batcher._target_": "evil.f",
}  # fmt: skip


def cases() -> Iterator[Case]:
    """All hostile facts."""
    for place, value in FACTS.items():
        yield Case(f"data.json, {place} = {str(value)[:40]}", _changed(place, value), USING)
    for name, content in {
        "nothing": b"", "half of it": b'{"num_cl', "a list": b"[1]", "null": b"null",
        "deep nesting": b"[" * 200_000, "no UTF-8": b"\xff", "many values": b"[" + b"0," * 10**7,
    }.items():  # fmt: skip
        yield Case(f"data.json holds {name}", _written("data.json", content), USING)
    yield Case("weights are a link out of the folder", _linked, USING)
    huge = {"_target_": "andiron.models.MLP", "hidden": [10**5, 10**5]}
    yield Case("a network larger than its weights", _configured({"model": huge}), USING)
    larger = {"_target_": "andiron.models.MLP", "hidden": [7000, 7000]}
    yield Case("a network of 400 MB", _configured({"model": larger}), (*USING, *BUILDING))
    deep = {"_target_": "andiron.models.MLP", "hidden": [1] * 10**5}
    change = _configured({"model": deep})
    yield Case("a network of more layers than its weights", change, (*USING, *BUILDING))


def _changed(place: str, value: Any) -> Change:
    def change(plain: dict[str, Any]) -> None:
        *above, last = place.strip().split(".")
        for key in above:
            plain = plain[key]
        plain[last] = value

    return _edited("data.json", change)


def _configured(options: dict[str, Any]) -> Change:
    return _edited("config.json", lambda plain: plain.update(options))


def _edited(file: str, change: Callable[[dict[str, Any]], Any]) -> Change:
    def apply(folder: Path) -> None:
        plain = json.loads((folder / file).read_text())
        change(plain)
        (folder / file).write_text(filled(json.dumps(plain), folder))
        sign(folder)

    return apply


def _written(file: str, content: bytes) -> Change:
    def apply(folder: Path) -> None:
        (folder / file).write_bytes(content)
        sign(folder)

    return apply


def _linked(folder: Path) -> None:
    elsewhere = folder.parent / "elsewhere.safetensors"
    (folder / "model.safetensors").rename(elsewhere)
    (folder / "model.safetensors").symlink_to(elsewhere)
