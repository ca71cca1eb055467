"""The Arrow files of a folder, by the part of the data that they hold."""

from pathlib import Path

from andiron import errors
from andiron.data.on_disk.train_valid_test import PARTS, part_of
from andiron.disk import files

STATE = "state.json"  # of datasets, which lists its files in order
MAPPINGS = "_indices_files", "_indices_data_files"  # older ones: the rows have another order
ENDINGS = (".arrow", ".feather", ".ipc")
Parts = dict[str, list[Path]]


def parts_in(path: Path) -> Parts:
    """The files of train, and of valid and test where they have folders of their own.

    Raises: DataError if there are none.
    """
    parts = Parts()
    for folder in sorted(entry for entry in path.glob("*") if entry.is_dir()):
        part, own = part_of(folder.name), files_in(folder)
        if part in parts and own:
            raise errors.DataError(f"{folder}: another folder is {part} too; rename one of them")
        if part is not None and own:
            parts[part] = own
    if "train" not in parts:
        parts = {"train": files_in(path)}
    if not parts["train"]:
        raise errors.DataError(
            f"{path}: has no files {', '.join(f'*{ending}' for ending in ENDINGS)}, and no folder "
            f"train/ with such files; name a file, or a folder of datasets.save_to_disk"
        )
    return {part: parts[part] for part in PARTS if part in parts}


def files_in(path: Path) -> list[Path]:
    """The files of a folder in the order of datasets, else by name; a file alone.

    Raises: DataError for rows in another order than that of the files, as older datasets wrote.
    """
    if path.is_file():
        return [path]
    if not (path / STATE).is_file():
        return sorted(file for file in path.glob("*") if file.suffix in ENDINGS)
    try:
        state = files.read_json(path / STATE)
        names = [Path(entry["filename"]).name for entry in state["_data_files"]]
    except (ValueError, KeyError, TypeError, OSError) as error:
        raise errors.DataError(
            f"{path / STATE}: is no state of datasets ({errors.first_line(error)}); restore it, or "
            "remove it, so that all files of the folder are read in the order of their names"
        ) from error
    if any(state.get(name) for name in MAPPINGS):
        raise errors.DataError(
            f"{path}: its rows are listed in a file of indices; write it again, by datasets: "
            "load_from_disk(...).flatten_indices().save_to_disk(...)"
        )
    return [path / name for name in names]
