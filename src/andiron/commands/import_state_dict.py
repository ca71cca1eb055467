"""Weights saved by torch, converted to safetensors without running anything in the file."""

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
from andiron.config.leaves import leaves
from andiron.serialization import module_file

EXIT_DONE, EXIT_UNUSABLE = 0, 1
UNPICKLING_ERRORS = (
    pickle.UnpicklingError, RuntimeError, EOFError, ValueError, LookupError, AttributeError,
)  # fmt: skip


def import_state_dict(
    source: Path, target: Path, *, key: str | None = None, rename: Mapping[str, str] | None = None
) -> list[str]:
    """Writes the tensors of a `state_dict` to a safetensors file; returns what is no tensor.

    `key` says where in nested dicts the `state_dict` is, as in `a.b`. Tensors that share memory are
    written separately.
    Raises: DataError if the file is damaged, holds objects, or has no `state_dict` there.
    """
    content = _selected(_loaded(source), key, source)
    tensors = {
        name: value
        for name, value in content.items()
        if isinstance(value, Tensor) and isinstance(name, str)
    }
    left_out = [
        f"{name} ({_kind(value)})" for name, value in content.items() if name not in tensors
    ]
    if not tensors:
        others = dict.fromkeys(
            ".".join(above)
            for (*above, _), value in leaves(content)
            if above and isinstance(value, Tensor)
        )
        hint = f"there are tensors under {', '.join(others)}: name one with --key"
        holds = hint if others else f"it holds {', '.join(left_out) or 'nothing'}"
        place = f" under {key!r}" if key else ""
        raise errors.DataError(f"{source}: no plain state_dict{place}; {holds}")
    record = serialization.Record(module_file.renamed(tensors, rename or {}))
    serialization.Recorder().record(record, target)
    return left_out


def _loaded(path: Path) -> Any:
    try:
        is_mapped = zipfile.is_zipfile(path)  # the format before torch 1.6 cannot be mapped
        return torch.load(path, weights_only=True, mmap=is_mapped, map_location="cpu")
    except UNPICKLING_ERRORS as error:
        raise errors.DataError(f"{path}: {_remedy(str(error) or type(error).__name__)}") from error
    except OSError as error:
        why = "no such file" if not path.exists() else error.strerror or error
        raise errors.DataError(f"{path}: {why}") from error


def _remedy(message: str) -> str:
    """What to do about a file that torch refused with this message."""
    kind = re.search(r"GLOBAL (\S+)", message)
    if kind:
        return (
            f"holds more than tensors ({kind[1]}), which cannot be read without running code from "
            "the file; where it was made, write torch.save(model.state_dict(), path) and import "
            "that"
        )
    if "TorchScript" in message:
        command = "torch.save(torch.jit.load(path).state_dict(), other)"
        return f"is a TorchScript program; write {command} and import that"
    first_sentence = message.splitlines()[0].partition(". ")[0]
    return f"not a whole file of torch.save ({first_sentence}); restore it from a copy"


def _selected(loaded: Any, key: str | None, path: Path) -> Mapping[Any, Any]:
    content, above = loaded, ""
    for part in key.split(".") if key else []:
        inner = content if isinstance(content, Mapping) else {}
        if part not in inner:
            names = list(map(str, inner))
            raise errors.DataError(
                f"{path}: no key {part!r} {f'under {above!r}' if above else 'in it'}; there are "
                f"{', '.join(names) or 'none'}{errors.nearest(part, names)}"
            )
        content, above = inner[part], f"{above}.{part}".lstrip(".")
    if not isinstance(content, Mapping):
        place = f" under {key!r}" if key else ""
        raise errors.DataError(f"{path}: holds {_kind(content)}{place}, and no state_dict")
    return content


def _kind(value: Any) -> str:
    if isinstance(value, Tensor):
        return "a tensor under a name that is no string"
    return f"a dict of {len(value)}" if isinstance(value, Mapping) else f"a {type(value).__name__}"


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs `python scripts/import_state_dict.py`; returns the exit code."""
    parser = argparse.ArgumentParser(
        description="Write the tensors of a torch state_dict to a safetensors file."
    )
    holds = "a file of torch.save: a state_dict, or a dict that holds one"
    parser.add_argument("source", type=Path, help=holds)
    parser.add_argument("target", type=Path, help="the file to write, *.safetensors")
    parser.add_argument("--key", help="where in nested dicts the state_dict is, as in a.b")
    rename = "rename tensors; may be repeated, and is applied in order"
    parser.add_argument("--rename", action="append", default=[], metavar="REGEX=NEW", help=rename)
    options = parser.parse_args(arguments)
    try:
        renames = dict(_pair(text) for text in options.rename)
        left_out = import_state_dict(
            options.source, options.target, key=options.key, rename=renames
        )
    except (errors.AndironError, OSError) as error:  # OSError: the target cannot be written
        print(f"error: {error}", file=sys.stderr)
        return EXIT_UNUSABLE
    print(f"{options.target}: {len(serialization.load(options.target).tensors)} tensors")
    for name in left_out:
        print(f"left out: {name}")
    return EXIT_DONE


def _pair(text: str) -> tuple[str, str]:
    pattern, equals, new = text.rpartition("=")
    if not equals:
        raise errors.DataError(f"--rename {text!r} has no '='; write REGEX=NEW")
    return pattern, new
