"""What the folder of a run records about it: at its start, and each time it is resumed."""

import dataclasses
import json
import logging
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import torch

from andiron import errors, files
from andiron.config import schema
from andiron.config.leaves import by_name, differences, leaves
from andiron.config.schema import Train
from andiron.data import Splits, described
from andiron.markdown import fenced
from andiron.optim import group_table
from andiron.protocols import Sessions
from andiron.run import provenance, run_record
from andiron.run_folder import RunFolder

DECISIVE = (  # facts of code and machine that results may differ with, beside the packages
    "git.revision", "hardware.threads", "hardware.device", "hardware.device_name",
    "hardware.cuda", "python",
)  # fmt: skip
MOST_PATCH_BYTES = 64 * 2**20
Plain = bool | int | float | str
log = logging.getLogger("andiron")


def record_start(
    config: Train,
    folder: RunFolder,
    splits: Splits,
    *,
    device: torch.device,
    groups: dict[str, Any],
    session: Sessions,
) -> None:
    """Writes provenance, data facts and parameter owners, as files and to `session`."""
    origin, patch = origin_of(config, splits, device)
    as_json = files.as_indented_json
    contents = {
        folder.provenance: as_json(origin),
        folder.data: as_json(described.as_plain(splits)),
        folder.param_groups: as_json(groups),
    }
    run_record.write(folder, contents | ({folder.uncommitted: patch} if patch else {}))
    texts = {
        "config": fenced(json.dumps(dataclasses.asdict(config), indent=2), "json"),
        "param_groups": group_table.as_markdown(groups),
        "provenance": fenced(json.dumps(origin, indent=2), "json"),
    }
    session.start_session(hyperparameters(config), texts)


def check_data(folder: RunFolder, splits: Splits, changes: Mapping[str, list[Any]]) -> None:
    """Refuses data other than the run was trained on, or other parts of them.

    Raises: DataError if the checksums differ, or the sizes although no change of the data is asked.
    """
    origin = provenance.read(folder)
    recorded = origin["data"]["sha256"]
    if recorded != splits.fingerprint:
        raise errors.DataError(
            f"data {splits.name}: SHA-256 is {splits.fingerprint}, and the run in {folder.path} "
            f"was trained on {recorded}: it cannot be resumed with other data; restore the data, "
            "or start another run from its weights with start_from=<run folder>"
        )
    newest = [each["data"] for each in (origin, *origin["resumes"]) if "data" in each][-1]
    sizes, now = newest.get("sizes") if isinstance(newest, dict) else None, _sizes(splits)
    is_asked = any(name.partition(".")[0] == "data" for name in changes)
    if sizes not in (None, now) and not is_asked:
        raise errors.DataError(
            f"data {splits.name}: its splits have {now} samples, and the run in {folder.path} was "
            f"trained with {sizes}; use the same split options"
        )


def record_resume(
    config: Train,
    folder: RunFolder,
    splits: Splits,
    *,
    device: torch.device,
    updates: int,
    changes: Mapping[str, list[Any]],
) -> None:
    """Adds a resume from `updates` to the record: its changes, command, code and machine."""
    before = provenance.read(folder)
    resumes = before["resumes"]
    origin, patch = origin_of(config, splits, device)
    entry = {
        "updates": updates,
        "at": datetime.now(UTC).isoformat(timespec="seconds"),
        "changes": dict(changes),
        **{
            name: value
            for name, value in origin.items()
            if name not in ("seed", "data") and value != before.get(name)
        },
    }
    changed = _decisive(before, origin)
    contents: dict[Path, bytes] = {folder.config: config.as_json()}
    if patch != _last_patch(folder, resumes):
        changed.append("uncommitted changes to the code")
        path = folder.patch(len(resumes) + 1)
        entry["patch"] = path.name if patch else None
        if patch:
            contents[path] = patch
    if changed:
        log.warning(
            "the environment changed since this run last started; "
            "bit-identical results are not guaranteed: %s",
            ", ".join(changed),
        )
    resumed = {**before, "resumes": [*resumes, entry]}
    run_record.write(folder, {**contents, folder.provenance: files.as_indented_json(resumed)})


def hyperparameters(config: Train) -> dict[str, Plain]:
    """What distinguishes one run from another: numbers, and each node's class and arguments, flat.

    A node's class stands under the name of the node. A schedule's copies of `lr` are left out.
    """
    flat: dict[str, Plain] = {}
    for path, value in leaves(schema.hyperparameters(config)):
        is_copy = len(path) == 2 and path[0] == "scheduler" and value == config.lr
        if value is None or value == {} or is_copy:
            continue
        if path[-1] == "_target_":
            flat[".".join(path[:-1])] = value.rpartition(".")[2]
        else:
            flat[".".join(path)] = value if isinstance(value, Plain) else json.dumps(value)
    return flat


def _decisive(before: Mapping[str, Any], now: Mapping[str, Any]) -> list[str]:
    """The differences in code, versions and machine that can change results."""
    return [
        f"{name.rpartition('.')[2]} {was} -> {is_now}"
        for name, (was, is_now) in by_name(differences(before, now)).items()
        if name in DECISIVE or name.startswith("packages.")
    ]


def origin_of(
    config: Train, splits: Splits, device: torch.device
) -> tuple[dict[str, Any], bytes]:
    """The content of provenance.json, and the patch of what is not committed."""
    data = {"name": splits.name, "sha256": splits.fingerprint, "sizes": _sizes(splits)}
    origin, patch = provenance.gather(seed=config.seed, data=data, device=device)
    return origin, patch.encode(errors="surrogateescape")


def _sizes(splits: Splits) -> dict[str, int]:
    return {part: len(getattr(splits, part)) for part in ("train", "valid", "test")}


def _last_patch(folder: RunFolder, resumes: list[dict[str, Any]]) -> bytes:
    """The patch of uncommitted code when the run last started or resumed; may be empty."""
    names = [entry["patch"] for entry in resumes if "patch" in entry]
    if names and not (isinstance(names[-1], str) and folder.owns(names[-1])):
        return b""
    return read_patch(folder.path / names[-1] if names else folder.uncommitted)


def read_patch(path: Path) -> bytes:
    """The content of a patch on record; empty if there is none.

    Raises: DataError for one that is larger than a patch is, or no file.
    """
    try:
        return files.read_bytes(path, MOST_PATCH_BYTES)
    except FileNotFoundError:
        return b""
    except (OSError, ValueError) as error:
        raise errors.DataError(f"{path}: cannot be read ({error}); restore it") from error
