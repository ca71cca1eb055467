"""Writes the files of TensorBoard's Projector tab: points with labels and pictures."""

import io
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy

from andiron.disk import files, guarded_folders, png
from andiron.protocols import Embeddings
from andiron.run_folder import PROJECTOR

FEATURES, LABELS, SPRITE, CONFIG = PROJECTOR


def write(folder: Path, embeddings: Embeddings) -> None:
    """Replaces the folder's points; a running server shows them after a restart."""
    for name in PROJECTOR:
        guarded_folders.list_file(folder / name)
    folder.mkdir(parents=True, exist_ok=True)
    points = io.BytesIO()
    numpy.savetxt(points, embeddings.features.float().cpu().numpy(), fmt="%.6g", delimiter="\t")
    files.write(folder / FEATURES, points.getvalue())
    files.write(folder / LABELS, _labels(embeddings.columns).encode())
    settings = [
        'tensor_name: "validation samples"',
        f'tensor_path: "{FEATURES}"',
        f'metadata_path: "{LABELS}"',
    ]
    if embeddings.pictures is not None:
        files.write(folder / SPRITE, png.of_pixels(embeddings.pictures))
        height, width = embeddings.picture_size
        size = f"single_image_dim: [{width}, {height}]"
        settings.append(f'sprite {{ image_path: "{SPRITE}" {size} }}')
    config = "\n  ".join(["embeddings {", *settings]) + "\n}\n"
    files.write(folder / CONFIG, config.encode())


def _labels(columns: Mapping[str, Sequence[str]]) -> str:
    """A line for each sample; TensorBoard expects column names only above several columns."""
    lines = [*zip(*columns.values(), strict=True)]
    if len(columns) > 1:
        lines.insert(0, tuple(columns))
    return "".join("\t".join(" ".join(label.split()) for label in line) + "\n" for line in lines)
