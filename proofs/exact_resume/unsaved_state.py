"""State that training changes and no checkpoint holds: likely causes of an inexact resume."""

import dataclasses
import hashlib
import random
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from andiron.shell.assembly import components, configured_learner
from andiron.shell.assembly.components import Components
from andiron.shell.config.schema import Train

UPDATES = 3  # enough for state that changes in training to change
GENERATORS = (torch.Generator, random.Random, np.random.Generator, np.random.RandomState)
OF_EVERY_MODULE = frozenset(vars(nn.Module())) | {"_is_full_backward_hook"}


class Held(NamedTuple):
    """Unsaved state of a part of the run: its description, its value, and the remedy."""

    what: str
    value: str
    remedy: str


def found(config: Train, folder: Path) -> list[str]:
    """Descriptions of unsaved state that a few updates and a validation change; nothing is logged.

    Raises: what building the run raises.
    """
    config = dataclasses.replace(config, checkpoint=None, render=None, num_workers=0)
    built = components.build(config)
    with configured_learner.learner(config, built, folder) as learner:
        before = list(_held(learner.model, built))
        with learner.training(built.train):
            for batches in islice(learner.batches_of_epoch(built.train), UPDATES):
                learner.update(batches, built.train)
            learner.evaluator.validate({"valid": built.valid})
        after = {held.what: held.value for held in _held(learner.model, built)}
    return [
        f"{held.what} changes in training ({held.value} to {after[held.what]}) "
        f"and is in no checkpoint: {held.remedy}"
        for held in before
        if after.get(held.what, held.value) != held.value
    ]


def _held(model: nn.Module, built: Components) -> Iterator[Held]:
    for name, module in model.named_modules():
        of = f"of {name or 'the task'} ({type(module).__name__})"
        for buffer in sorted(module._non_persistent_buffers_set):
            value = _value(module._buffers[buffer])
            yield Held(
                f"the non-persistent buffer {buffer!r} {of}",
                value or "None",
                "register it with persistent=True",
            )
        yield from _attributes(
            {key: value for key, value in vars(module).items() if key not in OF_EVERY_MODULE}, of
        )
    for what, part in (("data", built.splits.train), ("batcher", built.splits.batcher)):
        generators = {
            key: value
            for key, value in getattr(part, "__dict__", {}).items()
            if isinstance(value, GENERATORS)
        }
        yield from _attributes(generators, f"of the {what} ({type(part).__name__})")


def _attributes(named: dict[str, Any], of: str) -> Iterator[Held]:
    for key, value in named.items():
        described = _value(value)
        if described is None:
            continue
        if isinstance(value, GENERATORS):
            remedy = "draw from torch's default generators, which start anew at every update"
            yield Held(f"the generator {key!r} {of}", described, remedy)
        else:
            yield Held(
                f"the attribute {key!r} {of}",
                described,
                "keep it in a buffer, or let it follow from what is saved",
            )


def _value(value: Any) -> str | None:
    """A short text of a plain value, a generator or a tensor; None for anything else."""
    if value is None or isinstance(value, bool | int | float | str):
        return repr(value)
    if isinstance(value, Tensor):
        bits = value.detach().cpu().contiguous().reshape(-1, 1).view(torch.uint8)
        return f"{value.tolist()}" if value.numel() == 1 else _digest(bits.numpy().tobytes())
    if isinstance(value, list | tuple):
        parts = [_value(part) for part in value]
        return None if None in parts else _short(f"[{', '.join(part for part in parts if part)}]")
    if isinstance(value, dict):
        named = {repr(key): _value(part) for key, part in value.items()}
        return None if None in named.values() else _short(str(named))
    return _state(value)


def _state(value: Any) -> str | None:
    if isinstance(value, torch.Generator):
        return _digest(value.get_state().numpy().tobytes())
    if isinstance(value, random.Random):
        return _digest(repr(value.getstate()).encode())
    if isinstance(value, np.random.Generator):
        return _digest(repr(value.bit_generator.state).encode())
    if isinstance(value, np.random.RandomState):
        return _digest(repr(value.get_state(legacy=False)).encode())
    return None


def _short(text: str) -> str:
    return text if len(text) <= 40 else _digest(text.encode())


def _digest(content: bytes) -> str:
    return f"SHA-256 {hashlib.sha256(content).hexdigest()[:8]}"
