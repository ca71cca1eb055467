"""A table of labels beside pictures: the label of each, and its other columns."""

import csv
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path, PurePath

from andiron import errors
from andiron.data.on_disk.category_names import MISSING, warn_of_classes

EXAMPLE = "labels.csv, with the columns file and label"
PREFERRED = ("labels.csv", "metadata.csv")
FILES = (
    "file", "file_name", "filename", "image", "image_name", "image_path", "image_id", "img",
    "path", "file_path", "filepath", "name", "id",
)  # fmt: skip
Cells = dict[str, dict[str, str]]  # of a table of labels, by picture and column
LABELS = ("label", "labels", "class", "class_name", "category", "target")


def table_in(folder: Path) -> Path | None:
    """The table of labels in a folder: the only `.csv` file there, or one of PREFERRED."""
    tables = sorted(folder.glob("*.[cC][sS][vV]"))
    preferred = [path for path in tables if path.name.lower() in PREFERRED]
    candidates = preferred or tables
    return candidates[0] if len(candidates) == 1 else None


def read(table: Path, images: Sequence[str]) -> tuple[dict[str, list[str]], Cells]:
    """The images of each label, sorted, and the cells of each image by column.

    The table names a picture by its file, with or without folders and suffix. A picture that it
    does not name is left out.
    Raises: DataError naming the line that has no label, or not one picture of its own.
    """
    places: dict[str, set[str]] = defaultdict(set)
    for image in images:
        for key in (PurePath(image).name, PurePath(image).stem):
            places[key].add(image)
    labels: dict[str, str] = {}
    cells: Cells = {}
    for line, (name, label), row in rows_of(table, {"file": FILES, "label": LABELS}):
        pictures = places[PurePath(name.replace("\\", "/")).name] - labels.keys()
        if len(pictures) != 1 or label in MISSING:
            raise errors.DataError(
                f"{table}, line {line}: {name!r} with label {label!r} should name one "
                f"picture of its own, and {len(pictures)} are left; correct the line"
            )
        labels[picture := pictures.pop()] = label
        cells[picture] = row
    classes: dict[str, list[str]] = {label: [] for label in sorted({*labels.values()})}
    warn_of_classes(str(table), [*classes], r"[\s,;|]+")
    for image in sorted(labels):
        classes[labels[image]].append(image)
    return classes, cells


def rows_of(
    table: Path, columns: Mapping[str, Sequence[str]]
) -> Iterator[tuple[int, tuple[str, ...], dict[str, str]]]:
    """The number of each line of a table, its cells in these columns, and all cells by column.

    `columns` has the names that each may have. Raises: DataError if the table lacks one.
    """
    try:
        lines = table.read_text(encoding="utf-8-sig").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise errors.DataError(f"{table}: cannot be read ({error}); save it as UTF-8") from error
    rows = csv.reader(lines, delimiter=max(",;\t|", key="".join(lines[:1]).count))
    header = [*map(column_name, next(rows, []))]
    chosen = [[header.index(name) for name in kind if name in header] for kind in columns.values()]
    if not all(chosen):
        raise errors.DataError(
            f"{table}: has the columns {', '.join(header)}; name the columns that are read "
            f"{' and '.join(columns)}"
        )
    for row in filter(None, rows):
        cells = (row[place].strip() if place < len(row) else "" for (place, *_) in chosen)
        yield rows.line_num, tuple(cells), dict(zip(header, map(str.strip, row)))


def column_name(text: str) -> str:
    """A column of the table as it is looked up, such as patient_id for `Patient ID`."""
    return text.strip().lower().replace(" ", "_")
