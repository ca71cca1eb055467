"""Converts weights saved by torch to safetensors without running code from the file."""

import argparse
import functools
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from torch import Tensor

from andiron import errors, serialization
from andiron.plain.readable import joined, printable
from andiron.serialization import module_file, recorder, weight_files
from andiron.shell.cli import answers
from andiron.shell.cli.answer_schemas import COUNT, TEXT, closed, list_of
from andiron.shell.cli.process import Command
from andiron.wings.trained import named_output


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
    content = _state_dict(loaded, key, source)
    tensors = weight_files.tensors_of(content)
    left_out = _listed({name: content[name] for name in content if name not in tensors})
    weight_files.check_sizes(tensors, source)
    record = serialization.Record(module_file.renamed(tensors, rename or {}), values)
    write = functools.partial(named_output.write, inputs=[source])
    serialization.Recorder().record(record, target, write)
    return len(tensors), left_out


def _load(path: Path) -> tuple[Any, dict[str, str]]:
    """The content of a file, and its layout if it is a record of another than torch's."""
    if not recorder.format_of(path):
        return weight_files.unpickled(path), {}
    size = path.stat().st_size if path.exists() else 0
    record = serialization.load(path, most_numbers=size)
    layout = serialization.layout_of(record)
    return record.tensors, {} if layout == "torch" else {module_file.LAYOUT: layout}


def _state_dict(loaded: object, key: str | None, path: Path) -> Mapping[Any, Any]:
    """The dict with tensors at the path `key` in nested dicts."""
    if not isinstance(loaded, Mapping):
        raise errors.DataError(f"{path}: holds {_type_name(loaded)}, not a state_dict")
    inner = weight_files.dicts_with_tensors(loaded)
    content = inner.get(key, {}) if key else loaded
    if weight_files.tensors_of(content):
        return content
    holds = f"it holds {joined(_listed(loaded)) or 'nothing'}"
    if inner:
        holds = f"there are tensors under {joined([*inner])}: name one with --key"
    place = f" under {key!r}" if key else ""
    raise errors.DataError(f"{path}: not a plain state_dict{place}; {holds}")


def _listed(entries: Mapping[object, object]) -> list[str]:
    return [f"{name} ({_type_name(value)})" for name, value in entries.items()]


def _type_name(value: object) -> str:
    if isinstance(value, Tensor):
        return "a tensor whose name is not a string"
    return f"a dict of {len(value)}" if isinstance(value, Mapping) else f"a {type(value).__name__}"


def _parser() -> argparse.ArgumentParser:
    parser = answers.Parser(
        description="Convert a torch state_dict to a safetensors file."
    )
    holds = "a file written by torch.save: a state_dict, or a dict that contains one"
    parser.add_argument("source", type=Path, help=holds)
    parser.add_argument("target", type=Path, help="the file to write, *.safetensors")
    parser.add_argument("--key", help="path of the state_dict in nested dicts, such as a.b")
    rename = "rename tensors; may be repeated; applied in order"
    parser.add_argument("--rename", action="append", default=[], metavar="REGEX=NEW", help=rename)
    return parser


def _convert(options: argparse.Namespace) -> None:
    renames = dict(map(_split_rename, options.rename))
    number, left_out = import_state_dict(
        options.source, options.target, key=options.key, rename=renames
    )
    if not answers.give({"path": str(options.target), "tensors": number, "left_out": left_out}):
        lines = f"{options.target}: {number} tensors", *(f"left out: {name}" for name in left_out)
        print(*map(printable, lines), sep="\n")


def _split_rename(text: str) -> tuple[str, str]:
    pattern, equals, new = text.rpartition("=")
    if not equals:
        raise errors.DataError(f"--rename {text!r} has no '='; write REGEX=NEW")
    return pattern, new


ANSWERS = [closed({"path": TEXT, "tensors": COUNT, "left_out": list_of(TEXT)})]
main = Command(_parser, ANSWERS, _convert, page="records.md")
