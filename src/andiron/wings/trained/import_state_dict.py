"""Converts weights saved by torch to safetensors without running code from the file."""

import argparse
import functools
import pickle
import re
import struct
import warnings
import zipfile
from collections import deque
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from andiron import errors, serialization
from andiron.disk import files
from andiron.plain.readable import joined, printable
from andiron.serialization import module_file, recorder
from andiron.shell.cli import process
from andiron.wings.trained import named_output

UNPICKLING_ERRORS = (
    pickle.UnpicklingError, RuntimeError, EOFError, ValueError, LookupError, AttributeError,
    TypeError, AssertionError, ArithmeticError, MemoryError, struct.error, zipfile.BadZipFile,
)  # fmt: skip
MOST_COPIES = 8  # tensors that share memory are written separately
SMALL_BYTES = 16 * 2**20


def import_state_dict(
    source: Path, target: Path, *, key: str | None = None, rename: Mapping[str, str] | None = None
) -> tuple[int, list[str]]:
    """Writes a `state_dict` as safetensors; returns the number of tensors and the entries left out.

    `key` is the path of the `state_dict` in nested dicts, such as `a.b`. Tensors that share memory
    are written separately.
    Raises: DataError if the file is damaged, holds objects, or has no `state_dict` there;
    OutputError if `target` cannot be written.
    """
    named_output.check(target, [source])
    loaded, values = _load(source)
    content = _select(loaded, key, source)
    tensors = {
        name: value
        for name, value in content.items()
        if isinstance(value, Tensor) and isinstance(name, str)
    }
    left_out = [
        f"{name} ({_type_name(value)})" for name, value in content.items() if name not in tensors
    ]
    if not tensors:
        others = _dicts_with_tensors(content)
        hint = f"there are tensors under {joined(others)}: name one with --key"
        holds = hint if others else f"it holds {joined(left_out) or 'nothing'}"
        place = f" under {key!r}" if key else ""
        raise errors.DataError(f"{source}: not a plain state_dict{place}; {holds}")
    _check_sizes(tensors, source)
    record = serialization.Record(module_file.renamed(tensors, rename or {}), values)
    write = functools.partial(named_output.write, inputs=[source])
    serialization.Recorder().record(record, target, write)
    return len(tensors), left_out


def _load(path: Path) -> tuple[Any, dict[str, str]]:
    """The content of a file, and its layout if it is a record of another than torch's."""
    try:
        if recorder.is_record(path):
            record = serialization.load(path, most_numbers=path.stat().st_size)
            layout = serialization.layout_of(record)
            return record.tensors, {} if layout == "torch" else {module_file.LAYOUT: layout}
        is_mapped = _is_zip(path)  # the format before torch 1.6 cannot be mapped
        with warnings.catch_warnings(action="ignore"):  # about sparse tensors, which are refused
            loaded = torch.load(path, weights_only=True, mmap=is_mapped, map_location="cpu")
            return loaded, {}
    except UNPICKLING_ERRORS as error:
        raise errors.DataError(f"{path}: {_remedy(str(error) or type(error).__name__)}") from error
    except OSError as error:
        reason = "no such file" if not path.exists() else error.strerror or error
        raise errors.DataError(f"{path}: {reason}") from error


def _is_zip(path: Path) -> bool:
    """Whether a regular file is a zip archive, uncompressed as torch writes it.

    Raises: OSError; ValueError for a pipe, a device, a folder or a compressed archive.
    """
    with files.opened(path) as file:
        if not zipfile.is_zipfile(file):
            return False
        with zipfile.ZipFile(file) as archive:
            if any(entry.compress_type != zipfile.ZIP_STORED for entry in archive.infolist()):
                raise ValueError("its archive is compressed, which torch never does")
        return True


def _check_sizes(tensors: Mapping[str, Tensor], path: Path) -> None:
    """Refuses tensors that, written separately, would take far more space than their file.

    Raises: DataError naming the first tensor that is larger than its storage, or has none.
    """
    for name, tensor in tensors.items():
        if tensor.layout != torch.strided or tensor.is_meta or tensor.is_nested:
            kind = tensor.layout if tensor.layout != torch.strided else "without values"
            raise errors.DataError(f"{path}: tensor {name!r} is {kind}; save it dense, on the CPU")
        if tensor.nbytes > tensor.untyped_storage().nbytes():
            shape = "x".join(map(str, tensor.shape))
            raise errors.DataError(
                f"{path}: tensor {name!r} of shape {shape} repeats the few values in the file "
                f"(strides {list(tensor.stride())}); save it as tensor.contiguous()"
            )
    total, size = sum(tensor.nbytes for tensor in tensors.values()), path.stat().st_size
    if total > MOST_COPIES * size + SMALL_BYTES:
        raise errors.DataError(
            f"{path}: has {size:,} bytes, and its tensors {total:,}: they share memory; save them "
            "as tensor.clone()"
        )


def _dicts_with_tensors(content: Mapping[Any, Any]) -> list[str]:
    """The paths of the inner dicts that hold tensors; a shared dict is listed once."""
    paths, seen = [], {id(content)}
    waiting: deque[tuple[tuple[str, ...], Mapping[Any, Any]]] = deque([((), content)])
    while waiting:
        above, node = waiting.popleft()
        if above and any(isinstance(value, Tensor) for value in node.values()):
            paths.append(".".join(above))
        for name, value in node.items():
            if isinstance(value, Mapping) and id(value) not in seen:
                seen.add(id(value))
                waiting.append(((*above, str(name)), value))  # whose texts deep dicts share
    return paths


def _remedy(message: str) -> str:
    """The problem and remedy of a file that torch refused with this message."""
    kind = re.search(r"GLOBAL (\S+)", message)
    if kind:
        return (
            f"holds more than tensors ({kind[1]}), which cannot be read without running code from "
            "the file; in the program that made it, call torch.save(model.state_dict(), path), "
            "and import that file"
        )
    if "TorchScript" in message:
        command = "torch.save(torch.jit.load(path).state_dict(), other)"
        return f"is a TorchScript program; write {command} and import that"
    first_sentence = message.splitlines()[0].partition(". ")[0]
    return f"not a whole file of torch.save ({first_sentence}); restore it from a copy"


def _select(loaded: Any, key: str | None, path: Path) -> Mapping[Any, Any]:
    content, above = loaded, ""
    for part in key.split(".") if key else []:
        inner = content if isinstance(content, Mapping) else {}
        if part not in inner:
            names = list(map(str, inner))
            raise errors.DataError(
                f"{path}: no key {part!r} {f'under {above!r}' if above else 'in it'}; there are "
                f"{joined(names) or 'none'}{errors.nearest(part, names)}"
            )
        content, above = inner[part], f"{above}.{part}".lstrip(".")
    if not isinstance(content, Mapping):
        place = f" under {key!r}" if key else ""
        raise errors.DataError(f"{path}: holds {_type_name(content)}{place}, not a state_dict")
    return content


def _type_name(value: Any) -> str:
    if isinstance(value, Tensor):
        return "a tensor whose name is not a string"
    return f"a dict of {len(value)}" if isinstance(value, Mapping) else f"a {type(value).__name__}"


@process.command
def main(arguments: Sequence[str] | None = None) -> int:
    """Runs `python scripts/import_state_dict.py`; returns the exit code."""
    parser = argparse.ArgumentParser(
        description="Convert a torch state_dict to a safetensors file."
    )
    holds = "a file written by torch.save: a state_dict, or a dict that contains one"
    parser.add_argument("source", type=Path, help=holds)
    parser.add_argument("target", type=Path, help="the file to write, *.safetensors")
    parser.add_argument("--key", help="path of the state_dict in nested dicts, such as a.b")
    rename = "rename tensors; may be repeated; applied in order"
    parser.add_argument("--rename", action="append", default=[], metavar="REGEX=NEW", help=rename)
    options = parser.parse_args(arguments)
    renames = dict(map(_split_rename, options.rename))
    number, left_out = import_state_dict(
        options.source, options.target, key=options.key, rename=renames
    )
    print(printable(f"{options.target}: {number} tensors"))
    for name in left_out:
        print(printable(f"left out: {name}"))
    return 0


def _split_rename(text: str) -> tuple[str, str]:
    pattern, equals, new = text.rpartition("=")
    if not equals:
        raise errors.DataError(f"--rename {text!r} has no '='; write REGEX=NEW")
    return pattern, new
