"""Weights in the files of other libraries: of `torch.save`, in shards, or beside other values.

Nothing in a file is run: torch unpickles tensors and plain values only.
"""

import os
import pickle
import re
import shlex
import struct
import time
import warnings
import zipfile
from collections import deque
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from andiron import errors
from andiron.disk import checksums, files
from andiron.plain import wings
from andiron.plain.readable import joined
from andiron.serialization import record
from andiron.serialization.record import Record

IN_FOLDERS = (
    "model.safetensors", "pytorch_model.bin", "adapter_model.safetensors", "adapter_model.bin",
)  # fmt: skip
INDEX = ".index.json"  # after the name of a file in shards
ADAPTER = "base_model.model."  # begins the names that peft saves
NO_WEIGHTS = ("optimizer", "callbacks", "loops")  # begin other dicts of a training checkpoint
# options and numbers that programs save beside weights: DeiT, MAE, DETR, timm, Lightning
UNREAD = """argparse.Namespace types.SimpleNamespace builtins.frozenset builtins.range
builtins.slice builtins.dict builtins.list builtins.int builtins.float builtins.str builtins.bool
typing.Any numpy.dtype numpy.ndarray numpy._core.multiarray.scalar
numpy._core.multiarray._reconstruct numpy.core.multiarray.scalar
numpy.core.multiarray._reconstruct numpy._core.numeric._frombuffer numpy.core.numeric._frombuffer
datetime.date datetime.datetime datetime.time datetime.timedelta datetime.timezone decimal.Decimal
fractions.Fraction uuid.UUID pathlib.Path pathlib.PosixPath pathlib.WindowsPath pathlib.PurePath
pathlib.PurePosixPath pathlib.PureWindowsPath pathlib._local.PosixPath pathlib._local.WindowsPath
pathlib._local.PurePosixPath pathlib._local.PureWindowsPath omegaconf.dictconfig.DictConfig
omegaconf.listconfig.ListConfig omegaconf.base.ContainerMetadata omegaconf.base.Metadata
omegaconf.nodes.AnyNode omegaconf.nodes.StringNode omegaconf.nodes.IntegerNode
omegaconf.nodes.FloatNode omegaconf.nodes.BooleanNode collections.defaultdict"""
UNPICKLING_ERRORS = (
    pickle.UnpicklingError, RuntimeError, EOFError, ValueError, LookupError, AttributeError,
    TypeError, AssertionError, ArithmeticError, MemoryError, struct.error, zipfile.BadZipFile,
)  # fmt: skip
WEIGHTS_ALONE = (
    "c = c if isinstance(c, dict) else {'model': c}; "
    "c = {k: getattr(v, 'state_dict', lambda: v)() for k, v in c.items()}; "
    "w = {k: v for k, v in c.items() for t in [v, *(v.values() if isinstance(v, dict) else [])] "
    "if isinstance(t, T)}; save(w, 'weights.pth')"
)
MOST_COPIES = 8  # tensors that share memory are written separately
SMALL_BYTES = 16 * 2**20


class ValueNotRead:
    """Stands for a value of `UNREAD`, whose own class is not made."""

    def __init__(self, *_: Any):
        pass

    def __setstate__(self, state: object) -> None:
        pass


def files_of_weights(path: Path) -> list[Path]:
    """The path of a file, or the usual files of weights in a folder, whole or the index of shards.

    Raises: DataError for a folder that has none.
    """
    usual = (path / (name + end) for name in IN_FOLDERS for end in ("", INDEX))
    files = [*filter(Path.exists, usual)] if path.is_dir() else [path]
    if not files:
        names = sorted(entry.name for entry in path.iterdir())
        if shards := [name for name in names if "-of-" in name]:
            remedy = f"{joined(shards, 3)} without their index, a .index.json; restore it"
        else:
            remedy = f"{joined(names, 3) or 'nothing'}, and no weights by a usual name; name a file"
        raise errors.DataError(f"{path}: holds {remedy}")
    return files


def check_same(file: Path, other: Path) -> None:
    """Refuses two files of weights, or their shards, with other values in a tensor of one name.

    Raises: DataError with the line for each.
    """
    one, two = (_joined(shards_of(path)).tensors for path in (file, other))
    shared = one.keys() & two.keys()
    if not shared or not all(one[name].equal(two[name]) for name in shared):
        lines = (f"start_from={it} ({time.ctime(it.stat().st_mtime)})" for it in (file, other))
        raise errors.DataError(f"{file.parent}: has other weights in each of two files; name one: "
                               f"{', or '.join(lines)}")  # fmt: skip


def is_finite(file: Path) -> bool:
    """Whether no number in a file of weights is NaN or infinite."""
    return all(tensor.isfinite().all() for tensor in _joined([file]).tensors.values())


def shards_of(path: Path) -> list[Path]:
    """The files with the tensors: the shards that an index names, or the file itself.

    Raises: DataError if one is missing, a folder or of no known format, or the index is damaged.
    """
    shards = _shards(path) if path.name.endswith(INDEX) else [path]
    for shard in shards:
        if not is_of_torch(shard):
            record.check(shard)
        elif not shard.is_file():
            raise errors.DataError(f"{shard}: no such file")
    return shards


def is_of_torch(path: Path) -> bool:
    """Whether torch unpickles a file, with `weights_only`."""
    return path.suffix.lower() in record.TORCH_SUFFIXES


def read_weights(shards: list[Path], most_numbers: int) -> tuple[Record, dict[str, str]]:
    """The tensors of all files in one record, and the SHA-256 of each file.

    Raises: DataError if a file is damaged, or is an adapter.
    """
    whole = _joined(shards, most_numbers)
    if any(name.startswith(ADAPTER) for name in whole.tensors):
        merge = "PeftModel.from_pretrained(base, folder).merge_and_unload()"
        raise errors.DataError(
            f"{shards[0]}: an adapter of peft, which changes other weights; merge them: "
            f"{merge}.save_pretrained('merged'), then start_from=merged"
        )
    return whole, {file.name: checksums.entry(file)["sha256"] for file in shards}


def _joined(shards: list[Path], most_numbers: int = record.MOST_NUMBERS) -> Record:
    whole = Record({})
    for file in shards:
        is_torch = is_of_torch(file)
        one = state_dict(file) if is_torch else record.load(file, most_numbers=most_numbers)
        whole = Record(whole.tensors | one.tensors, one.values)
    return whole


def state_dict(path: Path, key: str | None = None) -> Record:
    """The weights in a file of torch.save: its tensors, the dict `key`, or its only dict of them.

    Raises: DataError if there are none, or several; as `unpickled` and `check_sizes`.
    """
    content = unpickled(path)
    whole = content if isinstance(content, Mapping) else {}
    dicts = {"": whole, **dicts_with_tensors(whole)}
    inner = [name for name in dicts if name and not name.startswith(NO_WEIGHTS)]
    is_whole = any("." in name for name in tensors_of(whole)) or not inner
    names = [key] if key is not None else [""] if is_whole else inner
    tensors = tensors_of(dicts.get(names[0], {}))
    if len(names) > 1 or not tensors:
        one = f"--key {shlex.quote(names[0])}"
        command = wings.command(f"import-state-dict {path} out.safetensors {one}")
        several = f"dicts of tensors, {joined(inner)}: write one with {command}"
        raise errors.DataError(f"{path}: holds {several if inner else 'no tensors by name'}")
    check_sizes(tensors, path)
    return Record(tensors)


def unpickled(path: Path) -> Any:
    """The content of a file: tensors and plain values, on the CPU.

    Raises: DataError if it is missing, damaged, or holds other objects.
    """
    try:
        is_mapped = _is_zip(path)  # the format before torch 1.6 cannot be mapped
        with (
            warnings.catch_warnings(action="ignore"),  # about sparse tensors, which are refused
            torch.serialization.safe_globals([(ValueNotRead, name) for name in UNREAD.split()]),
        ):
            return torch.load(path, weights_only=True, mmap=is_mapped, map_location="cpu")
    except UNPICKLING_ERRORS as error:
        message = str(error) or type(error).__name__
        raise errors.DataError(f"{path}: {_remedy(message, path)}") from error
    except OSError as error:
        reason = "no such file" if not path.exists() else error.strerror or error
        raise errors.DataError(f"{path}: {reason}") from error


def tensors_of(content: Mapping[object, object]) -> dict[str, Tensor]:
    """The tensors in a dict, without those in its inner dicts."""
    return {
        name: value
        for name, value in content.items()
        if isinstance(value, Tensor) and isinstance(name, str)
    }


def check_sizes(tensors: Mapping[str, Tensor], path: Path) -> None:
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


def dicts_with_tensors(content: object) -> dict[str, Mapping[Any, Any]]:
    """The inner dicts that hold tensors, by their path; a shared dict is listed once."""
    dicts, seen = dict[str, Mapping[Any, Any]](), {id(content)}
    waiting: deque[tuple[tuple[str, ...], Any]] = deque([((), content)])
    while waiting:
        above, node = waiting.popleft()
        if above and any(isinstance(value, Tensor) for value in node.values()):
            dicts[".".join(above)] = node
        for name, value in node.items():
            if isinstance(value, Mapping) and id(value) not in seen:
                seen.add(id(value))
                waiting.append(((*above, str(name)), value))  # whose texts deep dicts share
    return dicts


def _is_zip(path: Path) -> bool:
    """Whether a regular file is a zip archive, uncompressed as torch writes it.

    Raises: OSError; ValueError for a pipe, a device, a folder or a compressed archive.
    """
    files.check_itself(path)
    with files.opened(path) as file:
        if not zipfile.is_zipfile(file):
            return False
        with zipfile.ZipFile(file) as archive:
            if any(entry.compress_type != zipfile.ZIP_STORED for entry in archive.infolist()):
                raise ValueError("its archive is compressed, which torch never does")
        return True


def _remedy(message: str, path: Path) -> str:
    """The problem and remedy of a file that torch refused with this message."""
    kind = re.search(r"GLOBAL (\S+)", message)
    if kind:
        read = f"c = load({str(path)!r}, map_location='cpu', weights_only=False)"
        line = shlex.quote(f"from torch import load, save, Tensor as T; {read}; {WEIGHTS_ALONE}")
        return (
            f"holds more than tensors ({kind[1]}), which cannot be read without running code from "
            "the file; in the program that made it, call torch.save(model.state_dict(), path), "
            f"and import that file; or, if you trust who made it: python -c {line}"
        )
    if "TorchScript" in message:
        command = "torch.save(torch.jit.load(path).state_dict(), other)"
        return f"is a TorchScript program; write {command} and import that"
    first_sentence = message.splitlines()[0].partition(". ")[0]
    return f"not a whole file of torch.save ({first_sentence}); restore it from a copy"


def _shards(index: Path) -> list[Path]:
    try:
        names = {os.path.basename(name) for name in files.read_json(index)["weight_map"].values()}
        if not names:
            raise ValueError("it names none")
    except (OSError, ValueError, LookupError, TypeError, AttributeError) as error:
        why = errors.reason(error)
        raise errors.DataError(f"{index}: not an index of shards ({why}); restore it") from error
    return [index.parent / name for name in sorted(names)]
