"""The files of TensorBoard's Projector tab: points with labels and pictures, in a run's folder."""

import io
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy

from andiron.disk import files, png
from andiron.protocols import Embeddings
from andiron.run_folder import PROJECTOR

FEATURES, LABELS, SPRITE, CONFIG = PROJECTOR


def write(folder: Path, shown: Embeddings) -> None:
    """Replaces the folder's points; a server that runs already shows them when it is restarted."""
    folder.mkdir(parents=True, exist_ok=True)
    points = io.BytesIO()
    numpy.savetxt(points, shown.features.float().cpu().numpy(), fmt="%.6g", delimiter="\t")
    files.write(folder / FEATURES, points.getvalue())
    files.write(folder / LABELS, _labels(shown.columns).encode())
    described = [
        'tensor_name: "validation samples"',
        f'tensor_path: "{FEATURES}"',
        f'metadata_path: "{LABELS}"',
    ]
    if shown.pictures is not None:
        files.write(folder / SPRITE, png.of_pixels(shown.pictures))
        height, width = shown.picture_size
        size = f"single_image_dim: [{width}, {height}]"
        described.append(f'sprite {{ image_path: "{SPRITE}" {size} }}')
    config = "\n  ".join(["embeddings {", *described]) + "\n}\n"
    files.write(folder / CONFIG, config.encode())


def _labels(columns: Mapping[str, Sequence[str]]) -> str:
    """A line for each sample; TensorBoard takes the first as names only where there are several."""
    lines = [*zip(*columns.values(), strict=True)]
    if len(columns) > 1:
        lines.insert(0, tuple(columns))
    return "".join("\t".join(" ".join(each.split()) for each in line) + "\n" for line in lines)
