"""Converts weights saved by torch to safetensors without running code from the file."""

import argparse
import functools
from collections.abc import Mapping
from pathlib import Path

from andiron import errors, serialization
from andiron.plain.readable import printable
from andiron.serialization import module_file, record, weight_files
from andiron.shell.cli import answers
from andiron.wings.commands import declaration
from andiron.wings.commands.answer_schemas import COUNT, TEXT, closed
from andiron.wings.commands.declaration import Command
from andiron.wings.trained import named_output


def import_state_dict(
    source: Path, target: Path, *, key: str | None = None, rename: Mapping[str, str] | None = None
) -> int:
    """Writes a `state_dict`, or a record with other names, as safetensors; returns its tensors.

    `key` is the path of the `state_dict` in nested dicts, such as `a.b`. Tensors that share memory
    are written separately.
    Raises: DataError if the file is damaged, holds objects, or has no `state_dict` there;
    OutputError if `target` cannot be written.
    """
    named_output.check(target, [source])
    if record.is_record(source):
        size = source.stat().st_size if source.exists() else 0
        weights = serialization.load(source, most_numbers=size)
    else:
        weights = weight_files.state_dict(source, key)
    tensors = module_file.renamed(weights.tensors, rename or {})
    write = functools.partial(named_output.write, inputs=[source])
    serialization.save(serialization.Record(tensors, weights.values), target, write)
    return len(tensors)


def _parser() -> argparse.ArgumentParser:
    parser = declaration.Parser(
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
    number = import_state_dict(options.source, options.target, key=options.key, rename=renames)
    if not answers.give({"path": str(options.target), "tensors": number}):
        print(printable(f"{options.target}: {number} tensors"))


def _split_rename(text: str) -> tuple[str, str]:
    pattern, equals, new = text.rpartition("=")
    if not equals:
        raise errors.DataError(f"--rename {text!r} has no '='; write REGEX=NEW")
    return pattern, new


ANSWERS = [closed({"path": TEXT, "tensors": COUNT})]
main = Command(_parser, ANSWERS, _convert, page="records.md")
