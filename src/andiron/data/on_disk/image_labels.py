"""The labels of pictures in a table beside them, with the name and the label of each."""

import csv
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path, PurePath

from andiron import errors

EXAMPLE = "labels.csv, with the columns file and label"
PREFERRED = ("labels.csv", "metadata.csv")
FILES = (
    "file", "file_name", "filename", "image", "image_name", "image_path", "image_id", "img",
    "path", "file_path", "filepath", "name", "id",
)  # fmt: skip
LABELS = ("label", "labels", "class", "class_name", "category", "target")


def table_in(folder: Path) -> Path | None:
    """The table of labels in a folder: the only `.csv` file there, or one of PREFERRED."""
    tables = sorted(folder.glob("*.[cC][sS][vV]"))
    preferred = [path for path in tables if path.name.lower() in PREFERRED]
    found = preferred or tables
    return found[0] if len(found) == 1 else None


def by_class(table: Path, images: Sequence[str]) -> dict[str, list[str]]:
    """The images of each label, sorted.

    The table names a picture by its file, with or without folders and suffix. A picture that it
    does not name is left out.
    Raises: DataError naming the line that has no label, or not one picture of its own.
    """
    try:
        lines = table.read_text(encoding="utf-8-sig").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise errors.DataError(f"{table}: cannot be read ({error}); save it as UTF-8") from error
    rows = csv.reader(lines, delimiter=max(",;\t|", key="".join(lines[:1]).count))
    header = [name.strip().lower().replace(" ", "_") for name in next(rows, [])]
    chosen = [[header.index(name) for name in kind if name in header] for kind in (FILES, LABELS)]
    if not all(chosen):
        raise errors.DataError(
            f"{table}: has the columns {', '.join(header)}; name the column of pictures `file`, "
            "and the column of classes `label`"
        )
    places: dict[str, set[str]] = defaultdict(set)
    for image in images:
        for key in (PurePath(image).name, PurePath(image).stem):
            places[key].add(image)
    labels: dict[str, str] = {}
    for row in filter(None, rows):
        name, label = (row[place].strip() if place < len(row) else "" for (place, *_) in chosen)
        found = places[PurePath(name.replace("\\", "/")).name] - labels.keys()
        if len(found) != 1 or not label:
            raise errors.DataError(
                f"{table}, line {rows.line_num}: {name!r} with label {label!r} should name one "
                f"picture of its own, and {len(found)} are left; correct the line"
            )
        labels[found.pop()] = label
    classes: dict[str, list[str]] = {label: [] for label in sorted({*labels.values()})}
    for image in sorted(labels):
        classes[labels[image]].append(image)
    return classes
