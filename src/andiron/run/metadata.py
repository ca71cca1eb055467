"""What a run's folder tells of it: before its first update, and each time it is taken up again."""

import dataclasses
import json
import logging
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import torch

from andiron import errors, files
from andiron.run import hyperparameters
from andiron.config.schema import Train
from andiron.data import Splits
from andiron.optim import group_table
from andiron.run import provenance
from andiron.writers import TensorBoardWriter

PROVENANCE = "provenance.json"
DECISIVE = ("threads", "device", "device_name", "cuda")  # of the hardware
log = logging.getLogger("andiron")


def begin(
    config: Train,
    run_dir: Path,
    splits: Splits,
    *,
    device: torch.device,
    groups: dict[str, Any],
    tensorboard: TensorBoardWriter,
) -> None:
    """Where the run comes from, its data's facts and who owns which parameter, as files and as pages in TensorBoard."""
    origin, patch = _origin(config, splits, device)
    if patch:
        (run_dir / "dirty.patch").write_bytes(patch)
    files.write_json(run_dir / PROVENANCE, origin)
    files.write_json(run_dir / "data.json", dict(splits.facts))
    files.write_json(run_dir / "param_groups.json", groups)
    texts = {
        "config": _fenced(dataclasses.asdict(config)),
        "param_groups": group_table.as_markdown(groups),
        "provenance": _fenced(origin),
    }
    tensorboard.start_session(hyperparameters.of(config), texts)


def check_data(run_dir: Path, splits: Splits) -> None:
    """Refuses other data than the run has been trained on.

    Raises: DataError if the checksums differ.
    """
    recorded = _recorded(run_dir)["data"]["sha256"]
    if recorded != splits.fingerprint:
        raise errors.DataError(
            f"data {splits.name}: SHA-256 is {splits.fingerprint}, and the run in {run_dir} was trained on {recorded}: "
            "it cannot go on with other data; restore them, or start another run, with start_from=<run folder> for its weights"
        )


def go_on(
    config: Train,
    run_dir: Path,
    splits: Splits,
    *,
    device: torch.device,
    updates: int,
    changes: Mapping[str, list[Any]],
) -> None:
    """Adds to the record that the run goes on from `updates` with these changes, and by which command, code and machine."""
    before = _recorded(run_dir)
    origin, patch = _origin(config, splits, device)
    number = len(before.get("resumes", [])) + 1
    now = {
        name: value
        for name, value in origin.items()
        if name not in ("seed", "data") and value != before.get(name)
    }
    other = [f"{name} {was} -> {is_now}" for name, was, is_now in _decisive(before, origin)]
    is_patched_anew = patch != _last_patch(run_dir, before)
    if is_patched_anew:
        other.append("what is not committed of the code")
    if other:
        log.warning(
            "other than before, so that the same bits are not to be expected: %s", ", ".join(other)
        )
    entry = {
        "updates": updates,
        "at": datetime.now(UTC).isoformat(timespec="seconds"),
        "changes": dict(changes),
        **now,
    }
    if is_patched_anew:
        entry["patch"] = f"dirty-{number}.patch" if patch else None
        if patch:
            (run_dir / f"dirty-{number}.patch").write_bytes(patch)
    files.write_json(
        run_dir / PROVENANCE, {**before, "resumes": [*before.get("resumes", []), entry]}
    )
    config.save(run_dir / "config.json")


def _decisive(before: Mapping[str, Any], now: Mapping[str, Any]) -> Iterator[tuple[str, Any, Any]]:
    """What differs of that which decides about bits: code, versions, and the machine but for its name."""
    for name, keys in (
        ("git", ("revision",)),
        ("packages", now["packages"]),
        ("hardware", DECISIVE),
    ):
        was, is_now = before.get(name) or {}, now[name] or {}
        yield from (
            (key, was.get(key), is_now.get(key)) for key in keys if was.get(key) != is_now.get(key)
        )
    if before.get("python") != now["python"]:
        yield "python", before.get("python"), now["python"]


def _last_patch(run_dir: Path, before: Mapping[str, Any]) -> bytes:
    """What was not committed when the run was started or taken up last; empty if that was nothing."""
    *_, name = (
        "dirty.patch",
        *(entry["patch"] for entry in before.get("resumes", []) if "patch" in entry),
    )
    return (run_dir / name).read_bytes() if name and (run_dir / name).is_file() else b""


def _origin(config: Train, splits: Splits, device: torch.device) -> tuple[dict[str, Any], bytes]:
    """What `provenance.json` says, and the patch of what is not committed."""
    sizes = {part: len(getattr(splits, part)) for part in ("train", "valid", "test")}
    data = {"name": splits.name, "sha256": splits.fingerprint, "sizes": sizes}
    origin, patch = provenance.gather(seed=config.seed, data=data, device=device)
    return origin, patch.encode(errors="surrogateescape")


def _recorded(run_dir: Path) -> dict[str, Any]:
    """The record so far.

    Raises: DataError if it is damaged.
    """
    try:
        found = files.read_json(run_dir / PROVENANCE)
    except (OSError, ValueError, RecursionError) as error:
        raise errors.DataError(
            f"{run_dir / PROVENANCE}: missing or damaged ({error}); restore it from a copy"
        ) from error
    data, resumes = (
        (found.get("data"), found.get("resumes", [])) if isinstance(found, dict) else (None, None)
    )
    is_listed = isinstance(resumes, list) and all(isinstance(entry, dict) for entry in resumes)
    if not isinstance(data, dict) or "sha256" not in data or not is_listed:
        raise errors.DataError(
            f"{run_dir / PROVENANCE}: damaged: it has no data's checksum, or no list of resumes; restore it"
        )
    return dict(found)


def _fenced(value: Any) -> str:
    return f"```json\n{json.dumps(value, indent=2)}\n```"
