"""Predicted masks as files, for `predict --masks`."""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from andiron import errors
from andiron.wings.trained import named_output
from andiron.wings.trained.predictions import Prediction
from andiron_lab.masks import mask_files


def writer(
    folder: Path, names: Sequence[str], facts: Mapping[str, Any]
) -> Callable[[Prediction], dict[str, str]]:
    """Writes the mask of a picture to the `folder`, and gives the column of the file's path.

    A mask has the size of its picture, and the numbers of the training masks.
    Raises: OutputError for masks that are there, and pictures with one mask for two; the writer a
    MismatchError for a run that predicts no masks.
    """
    named_output.check_folder(folder)
    counts = Counter(folder / f"{Path(name).stem}.png" for name in names)
    if taken := [path for path in counts if path.exists() or counts[path] > 1]:
        raise errors.OutputError(
            f"{taken[0]}: is there already, or would be the mask of two pictures; name another "
            "folder, or predict one folder after the other"
        )
    folder.mkdir(parents=True, exist_ok=True)

    def write(prediction: Prediction) -> dict[str, str]:
        if prediction.mask is None:
            raise errors.MismatchError("--masks: the run predicts no masks; leave it out")
        picture = Path(prediction.name)
        size = mask_files.size_of(picture) if picture.is_file() else (*prediction.mask.shape,)
        numbers = facts.get("class_numbers") or range(len(prediction.values))
        path = folder / f"{picture.stem}.png"
        named_output.write(path, [mask_files.png_of(prediction.mask, numbers, size)])
        return {"mask": str(path)}

    return write
