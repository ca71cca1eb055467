"""Joins the files that processes wrote: `andiron consolidate FOLDER TARGET`.

FOLDER is a checkpoint of `checkpoint.files=rank`, or the files that torch's
`HuggingFaceStorageWriter` writes with `save_distributed=True`: rows of each tensor. TARGET is new.
"""

import argparse
import json
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from andiron import errors
from andiron.checkpoint.contents import MANIFEST, MODEL
from andiron.checkpoint.on_disk import checkpoint_files, manifest
from andiron.disk import files
from andiron.plain.readable import printable
from andiron.serialization import safetensors_codec
from andiron.shell.cli import answers
from andiron.wings.commands import declaration
from andiron.wings.commands.answer_schemas import TEXT, closed, list_of
from andiron.wings.commands.declaration import Command
from andiron.wings.trained import named_output

OFFSETS = "DCP_SHARDING_INFO"  # in the metadata of torch's files: the place of each part


@dataclass(frozen=True)
class Part:
    """A block of a tensor: where it is in the file, and in the whole tensor."""

    values: Tensor
    begins: tuple[int, ...]

    @property
    def ends(self) -> tuple[int, ...]:
        """The indices after its last element."""
        pairs = zip(self.begins, self.values.shape, strict=True)
        return tuple(begin + size for begin, size in pairs)


def consolidate(source: Path, target: Path) -> list[str]:
    """Writes the folder `target` with the tensors of `source`, whole; returns its files.

    A checkpoint becomes one with the bytes of `checkpoint.files=whole`. Files of torch become a
    model.safetensors; one tensor at a time is in memory.
    Raises: DataError for a damaged file, or a tensor without some of its parts; OutputError.
    """
    named_output.check_folder(target)
    content: Mapping[str, files.Pieces] = {}
    if (source / MANIFEST).exists():
        listed, saved = manifest.read(source), checkpoint_files.load(source)
        content = checkpoint_files.pieces(listed.name, saved, listed.run)
    else:
        parts = _parts(source)
        widest = sorted(parts, key=lambda name: (-parts[name][0].values.dtype.itemsize, name))
        shapes = {name: (parts[name][0].values.dtype, _shape(parts[name])) for name in widest}
        tensors = (_assembled(name, parts[name], source) for name in widest)
        content = {MODEL: safetensors_codec.pieces(shapes, tensors)}
    try:
        files.write_folder(target, content)
    except OSError as error:
        why = "name a new folder"
        raise errors.OutputError(f"{target}: {files.reason(error)}; {why}") from error
    return [*content]


def _parts(folder: Path) -> dict[str, list[Part]]:
    """The parts of each tensor in the files of torch.

    Raises: DataError for a folder without such files.
    """
    parts: dict[str, list[Part]] = defaultdict(list)
    for file in sorted(folder.glob("*.safetensors")):
        tensors = safetensors_codec.load_tensors(file)
        _, metadata = safetensors_codec.header_of(file)
        try:
            places = json.loads(metadata[OFFSETS])
            for name, values in tensors.items():
                begins = tuple(map(int, places[name]["saved_offsets"]))
                if len(begins) != values.dim() or min(begins, default=0) < 0:
                    raise ValueError(f"{name!r} begins at {begins}")
                parts[name].append(Part(values, begins))
        except (ValueError, LookupError, TypeError) as error:
            raise errors.DataError(
                f"{file}: does not say where its tensors belong ({errors.reason(error)}); name a "
                "folder of checkpoint.files=rank, or of torch's HuggingFaceStorageWriter"
            ) from error
    if not parts:
        raise errors.DataError(f"{folder}: has no *.safetensors; name a folder with some")
    return parts


def _shape(parts: list[Part]) -> tuple[int, ...]:
    return tuple(map(max, zip(*(part.ends for part in parts), strict=True)))


def _assembled(name: str, parts: list[Part], folder: Path) -> Tensor:
    """The whole tensor.

    Raises: DataError if a part is missing, or there twice.
    """
    whole = torch.empty(_shape(parts), dtype=parts[0].values.dtype)
    places = {part.begins for part in parts if part.values.numel()}
    elements = sum(part.values.numel() for part in parts)
    if elements != whole.numel() or len(places) < sum(bool(p.values.numel()) for p in parts):
        raise errors.DataError(
            f"{folder}: tensor {name!r} has {whole.numel()} elements, and its files {elements}; "
            "one is missing, or there twice: restore the folder"
        )
    for part in parts:
        place: Any = tuple(map(slice, part.begins, part.ends))
        whole[place] = part.values
    return whole


def _parser() -> argparse.ArgumentParser:
    parser = declaration.Parser(description="Join the files that processes wrote into whole ones.")
    holds = "a checkpoint of checkpoint.files=rank, or files of torch's HuggingFaceStorageWriter"
    parser.add_argument("source", type=Path, metavar="FOLDER", help=holds)
    parser.add_argument("target", type=Path, metavar="TARGET", help="the new folder to write")
    return parser


def _run(options: argparse.Namespace) -> None:
    names = consolidate(options.source, options.target)
    if not answers.give({"folder": str(options.target), "files": names}):
        print(printable(f"{options.target}: {', '.join(names)}"))


ANSWERS = [closed({"folder": TEXT, "files": list_of(TEXT)})]
main = Command(_parser, ANSWERS, _run, page="distributed.md")
