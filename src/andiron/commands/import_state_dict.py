"""Weights that torch saved, as safetensors: read without running anything that is in the file."""

import argparse
import pickle
import re
import sys
import zipfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from andiron import errors, serialization
from andiron.serialization import module_file

EXIT_DONE, EXIT_UNUSABLE = 0, 1


def import_state_dict(
    source: Path, target: Path, *, key: str | None = None, rename: Mapping[str, str] | None = None
) -> list[str]:
    """Writes the tensors of a `state_dict` to a safetensors file; what was left out because it is no tensor, in words.

    `key` names where in nested dicts the `state_dict` is, as in `a.b`. Tensors that share memory are written apart.
    Raises: DataError if the file is damaged, holds objects, or has no `state_dict` there.
    """
    found = _selected(_loaded(source), key, source)
    tensors = {
        name: value
        for name, value in found.items()
        if isinstance(value, Tensor) and isinstance(name, str)
    }
    if not tensors:
        others = [
            name
            for name, value in _dicts(found)
            if any(isinstance(item, Tensor) for item in value.values())
        ]
        hint = (
            f"; there are tensors under {', '.join(others)}: name one with --key" if others else ""
        )
        raise errors.DataError(
            f"{source}: no plain state_dict{f' under {key!r}' if key else ''}{hint or _holds(found)}"
        )
    serialization.Recorder().record(
        serialization.Record(module_file.renamed(tensors, rename or {})), target
    )
    return [f"{name} ({_kind(value)})" for name, value in found.items() if name not in tensors]


def _loaded(path: Path) -> Any:
    try:
        # the format before torch 1.6 is no zip and cannot be mapped
        return torch.load(
            path, weights_only=True, mmap=zipfile.is_zipfile(path), map_location="cpu"
        )
    except (
        pickle.UnpicklingError,
        RuntimeError,
        EOFError,
        ValueError,
        LookupError,
        AttributeError,
    ) as error:
        raise errors.DataError(f"{path}: {_why_not(str(error) or type(error).__name__)}") from error
    except OSError as error:
        raise errors.DataError(
            f"{path}: {'no such file' if not path.exists() else error.strerror or error}"
        ) from error


def _why_not(message: str) -> str:
    """What to do about a file that torch did not load, from what torch said of it."""
    kind = re.search(r"GLOBAL (\S+)", message)
    if kind:
        return (
            f"holds more than tensors ({kind[1]}), which nothing reads without running what is in the file; where it was made, "
            "write torch.save(model.state_dict(), path) and import that"
        )
    if "TorchScript" in message:
        return "is a TorchScript program; write torch.save(torch.jit.load(path).state_dict(), other) and import that"
    return f"not a whole file of torch.save ({message.splitlines()[0].partition('. ')[0]}); restore it from a copy"


def _selected(loaded: Any, key: str | None, path: Path) -> dict[Any, Any]:
    found = loaded
    for place, part in enumerate(key.split(".") if key else []):
        if not isinstance(found, Mapping) or part not in found:
            there = [str(name) for name in found] if isinstance(found, Mapping) else []
            above = ".".join(key.split(".")[:place]) if key else ""
            raise errors.DataError(
                f"{path}: no key {part!r} {f'under {above!r}' if above else 'in it'}; there are {', '.join(there) or 'none'}"
                f"{errors.nearest(part, there)}"
            )
        found = found[part]
    if not isinstance(found, Mapping):
        raise errors.DataError(
            f"{path}: holds {_kind(found)}{f' under {key!r}' if key else ''}, and no state_dict"
        )
    return dict(found)


def _dicts(found: Mapping[Any, Any], above: str = "") -> list[tuple[str, Mapping[Any, Any]]]:
    """The dicts in a dict, at any depth, with the keys that lead to them."""
    inner = [
        (f"{above}{name}", value) for name, value in found.items() if isinstance(value, Mapping)
    ]
    return inner + [deeper for name, value in inner for deeper in _dicts(value, f"{name}.")]


def _holds(found: Mapping[Any, Any]) -> str:
    return "; it holds " + (
        ", ".join(f"{name} ({_kind(value)})" for name, value in found.items()) or "nothing"
    )


def _kind(value: Any) -> str:
    if isinstance(value, Tensor):
        return "a tensor under a name that is no string"
    return f"a dict of {len(value)}" if isinstance(value, Mapping) else f"a {type(value).__name__}"


def main(arguments: Sequence[str] | None = None) -> int:
    """What `python scripts/import_state_dict.py` does; the exit code."""
    parser = argparse.ArgumentParser(
        description="Write the tensors of a torch state_dict to a safetensors file."
    )
    parser.add_argument(
        "source", type=Path, help="what torch.save wrote: a state_dict, or a dict that holds one"
    )
    parser.add_argument("target", type=Path, help="the file to write, *.safetensors")
    parser.add_argument("--key", help="where in nested dicts the state_dict is, as in a.b")
    parser.add_argument(
        "--rename",
        action="append",
        default=[],
        metavar="REGEX=NEW",
        help="rename tensors; may be given again, in order",
    )
    options = parser.parse_args(arguments)
    try:
        rename = dict(_pair(text) for text in options.rename)
        left = import_state_dict(options.source, options.target, key=options.key, rename=rename)
    except (
        errors.AndironError,
        OSError,
    ) as error:  # OSError: the folder to write in is missing, full or read only
        print(f"error: {error}", file=sys.stderr)
        return EXIT_UNUSABLE
    print(f"{options.target}: {len(serialization.load(options.target).tensors)} tensors")
    for name in left:
        print(f"left out: {name}")
    return EXIT_DONE


def _pair(text: str) -> tuple[str, str]:
    pattern, equals, new = text.rpartition("=")
    if not equals:
        raise errors.DataError(f"--rename {text!r} has no '='; write REGEX=NEW")
    return pattern, new
