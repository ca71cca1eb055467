"""The origin of a run: code, versions, hardware, seed and data; gathered, read back, compared."""

import json
import logging
import math
import os
import platform
import re
import sys
from contextlib import suppress
from functools import cache

import torch

import andiron
from andiron import errors
from andiron.data import Splits
from andiron.data.splitting import described
from andiron.data.splitting.described import Described
from andiron.plain.plain_values import Named, Plain
from andiron.run_folder import RunFolder
from andiron.shell.config.leaves import Changes, by_name, differences as leaf_differences, leaves
from andiron.shell.run import run_record

CODE = ("git", "projects", "modules")
COMPARED = ("andiron", "python", "packages", "hardware", "data", "start_from", "fork_from")
PLACES = ("root", "path", "bytes", "dirty")  # not compared: code may have been moved
MOST_TEXT = 200  # characters of a compared value
log = logging.getLogger("andiron")
INSTALLED = re.compile(r"(.+?)-([^-]+)(-py[\d.]+)?\.(dist|egg)-info")


def of_run(
    code: Named, seed: int, splits: Splits | Described, device: torch.device, processes: int = 1
) -> Plain:
    """The content of provenance.json; `code` is as `code_origin.gather` returns it."""
    return {
        "command": [*sys.argv],
        "andiron": andiron.__version__,
        **code,
        "python": platform.python_version(),
        "packages": versions(),
        "hardware": _hardware(device),
        "processes": processes,
        "seed": seed,
        "deterministic": torch.are_deterministic_algorithms_enabled(),
        "data": _data(splits),
    }


def _data(splits: Splits | Described) -> Plain:
    """The name and checksums of the data, with the sizes of their parts."""
    if not isinstance(splits, Splits):
        return {"name": splits.name, "sha256": None}
    more = {"valid_sets": dict(splits.more_fingerprints)} if splits.more_fingerprints else {}
    return {"name": splits.name, "sha256": splits.fingerprint, "sizes": sizes(splits), **more}


def read(folder: RunFolder) -> Plain:
    """The content of provenance.json, with its list of resumes.

    Raises: DataError if it is missing or damaged.
    """
    origin = {"resumes": [], **run_record.read_json(folder, folder.provenance)}
    if not _is_well_formed(origin):
        raise errors.DataError(
            f"{folder.provenance}: damaged: code, data or resumes are malformed; restore it"
        )
    return origin


def differences(then: Named, now: Named) -> dict[str, list[str | None]]:
    """The differences of two records by dotted name: both values as text, None if missing."""
    changes = by_name(leaf_differences(_compared_parts(then), _compared_parts(now)))
    return {
        name: [None if side is None else str(side)[:MOST_TEXT] for side in sides]
        for name, sides in changes.items()
        if sides[0] != sides[1]  # null differs from a missing value
    }


@cache
def versions() -> dict[str, str]:
    """The versions of all installed packages; importlib.metadata takes a hundred times as long."""
    installed: dict[str, str] = {}
    for folder in sys.path:
        with suppress(OSError):
            for match in filter(None, map(INSTALLED.fullmatch, os.listdir(folder or "."))):
                installed.setdefault(re.sub(r"[-_.]+", "-", match[1]).lower(), match[2])
    return dict(sorted(installed.items()))


def check_data(folder: RunFolder, splits: Splits, changes: Changes) -> None:
    """Refuses data or splits other than those the run was trained on.

    Raises: DataError if the checksums differ, or the sizes do without a change of data options.
    """
    origin = read(folder)
    newest = [entry["data"] for entry in (origin, *origin["resumes"]) if "data" in entry][-1]
    newest = newest if isinstance(newest, dict) else {}
    sets = newest.get("valid_sets")
    recorded = {**(sets if isinstance(sets, dict) else {}), "": origin["data"]["sha256"]}
    for name, checksum in {"": splits.fingerprint, **splits.more_fingerprints}.items():
        if recorded.get(name, checksum) != checksum:
            part = f" of validation set {name}" if name else ""
            raise errors.DataError(
                f"data {splits.name}: SHA-256{part} is {checksum}, and the run in {folder.path} "
                f"was trained on {recorded[name]}: it cannot be resumed with other data; restore "
                "the data, or start another run from its weights with start_from=<run folder>"
            )
    before, now = newest.get("sizes"), sizes(splits)
    if before not in (None, now) and not _is_of_data(changes):
        raise errors.DataError(
            f"data {splits.name}: its splits have {now} samples, and the run in {folder.path} was "
            f"trained with {before}; use the same split options"
        )
    earlier = (entry.get("changes", {}) for entry in origin["resumes"])
    if folder.data.exists() and not any(map(_is_of_data, (changes, *earlier))):
        _warn_of_other_facts(folder, splits)


def _is_of_data(changes: Changes) -> bool:
    return any(name.partition(".")[0] == "data" for name in changes)


def _warn_of_other_facts(folder: RunFolder, splits: Splits) -> None:
    if other := _other_facts(folder, splits):
        log.warning(
            "data %s: %s differ from %s: Andiron divides or prepares the data otherwise since this "
            "run started; a run without a stop would have other results",
            splits.name, ", ".join(other), folder.data,
        )  # fmt: skip


def _other_facts(folder: RunFolder, splits: Splits) -> list[str]:
    """The facts that differ from data.json by more than rounding, as far as both have them."""
    plain = json.loads(json.dumps(described.as_plain(splits)))
    recorded = run_record.read_json(folder, folder.data)
    was, is_now = (dict(leaves(facts, opens_lists=True)) for facts in (recorded, plain))

    def is_other(path: tuple[str, ...], value: object) -> bool:
        now = is_now.get(path, value)
        if isinstance(value, float) and isinstance(now, float):
            return not math.isclose(value, now, rel_tol=1e-6, abs_tol=1e-9)
        return bool(now != value)

    others = [path for path, value in was.items() if is_other(path, value)]
    names = ([part for part in path if not part.isdigit()] for path in others)  # without positions
    return [*dict.fromkeys(map(".".join, names))]


def sizes(splits: Splits) -> dict[str, int]:
    """The number of samples of each part."""
    return {part: len(dataset) for part, dataset in splits.by_name.items()}


def _compared_parts(origin: Named) -> dict[str, object]:
    code = {name: _without_places(origin[name]) for name in CODE if name in origin}
    compared = {name: origin.get(name) for name in COMPARED}
    return code | compared | {"processes": origin.get("processes", 1)}


def _without_places(code: object) -> object:
    if isinstance(code, list):  # untracked files
        return dict.fromkeys(code, "there")
    if not isinstance(code, dict):
        return code
    return {name: _without_places(value) for name, value in code.items() if name not in PLACES}


def _is_well_formed(origin: Named) -> bool:
    """Whether the parts that are read have the right types."""
    match origin:
        case {"data": {"sha256": _}, "resumes": [*resumes]}:
            return all(
                isinstance(entry, dict)
                and isinstance(entry.get("changes", {}), dict)
                and all(_is_plain(entry.get(name), 3) for name in (*CODE, *COMPARED))
                for entry in (origin, *resumes)
            )
    return False


def _is_plain(value: object, levels: int) -> bool:
    """Whether a value is a scalar, a list of strings, or objects of these, up to `levels` deep."""
    if isinstance(value, dict):
        return levels > 0 and all(_is_plain(inner, levels - 1) for inner in value.values())
    items = value if isinstance(value, list) else []
    return all(isinstance(item, str) for item in items)


def _hardware(device: torch.device) -> dict[str, object]:
    is_gpu = device.type == "cuda"
    name = torch.cuda.get_device_name(device) if is_gpu else platform.machine()
    return {
        "host": platform.node(),
        "platform": platform.platform(),
        "cpu_count": os.cpu_count(),
        "threads": torch.get_num_threads(),
        "device": str(device),
        "device_name": name,
        "cuda": torch.version.cuda,
    }
