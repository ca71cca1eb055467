"""The record of a run in its folder, written at its start and at each resume."""

import json
import logging
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import torch

from andiron import errors
from andiron.data import Splits
from andiron.data.splitting import described
from andiron.data.splitting.described import Described
from andiron.disk import files
from andiron.optim.owners import group_table
from andiron.plain import readable
from andiron.plain.markdown import fenced
from andiron.protocols import Sessions
from andiron.run_folder import RunFolder
from andiron.shell.config import schema
from andiron.shell.config.leaves import Changes, leaves
from andiron.shell.run import provenance, run_record
from andiron.shell.run.code_origin import Gathered, Gathering, Patches

DECISIVE = re.compile(  # parts of the code and the machine that can change results
    r"(git|projects\..+)\.(revision|uncommitted)|modules\..+|packages\..+|python"
    r"|hardware\.(threads|device|device_name|cuda)"
)
MOST_NAMED = 20  # changes in a warning; `rerun` and `runs diff` list all
Plain = bool | int | float | str
Files = Mapping[Path, bytes]
log = logging.getLogger("andiron")


@dataclass(frozen=True)
class Facts:
    """The facts of a run for its record; `plain` are its options, as in config.json."""

    plain: Mapping[str, Any]
    splits: Splits | Described
    device: torch.device
    groups: dict[str, Any]
    processes: int
    code: Gathering | None = None  # if it is gathered beside
    started: Mapping[str, Any] = field(default_factory=dict)  # the weights of `start_from`

    def origin(self) -> Gathered:
        """The content of provenance.json as of now, and patches by file name; waits for git."""
        splits = self.splits
        data: dict[str, Any] = {"name": splits.name, "sha256": None}
        if isinstance(splits, Splits):
            data |= {"sha256": splits.fingerprint, "sizes": _sizes(splits)}
            if splits.more_fingerprints:
                data["valid_sets"] = dict(splits.more_fingerprints)
        code, patches = (self.code or Gathering())()
        seed, world = self.plain["seed"], self.processes
        known = provenance.surroundings(seed, data, self.device, world) | dict(self.started)
        return {name: known[name] for name in ("command", "andiron")} | code | known, patches


def record_start(folder: RunFolder, facts: Facts, session: Sessions, others: Files) -> None:
    """Writes provenance, data facts and parameter owners, as files and to `session`.

    Writes `others` with them.
    """
    origin, patches = facts.origin()
    contents = {
        folder.provenance: origin,
        folder.data: described.as_plain(facts.splits),
        folder.param_groups: facts.groups,
    }
    texts = {
        "config": _as_page(facts.plain),
        "param_groups": group_table.as_markdown(facts.groups),
        "provenance": _as_page(origin),
    }
    run_record.write(folder, {**others, **_as_files(folder, contents, patches)})
    session.start_session(hyperparameters(facts.plain), texts)


def check_data(folder: RunFolder, splits: Splits, changes: Changes) -> None:
    """Refuses data or splits other than those the run was trained on.

    Raises: DataError if the checksums differ, or the sizes do without a change of data options.
    """
    origin = provenance.read(folder)
    recorded = origin["data"]["sha256"]
    if recorded != splits.fingerprint:
        raise errors.DataError(
            f"data {splits.name}: SHA-256 is {splits.fingerprint}, and the run in {folder.path} "
            f"was trained on {recorded}: it cannot be resumed with other data; restore the data, "
            "or start another run from its weights with start_from=<run folder>"
        )
    newest = [entry["data"] for entry in (origin, *origin["resumes"]) if "data" in entry][-1]
    newest = newest if isinstance(newest, dict) else {}
    for name, checksum in splits.more_fingerprints.items():
        sets = newest.get("valid_sets")
        recorded = sets.get(name, checksum) if isinstance(sets, dict) else checksum
        if recorded != checksum:
            raise errors.DataError(
                f"data {splits.name}: SHA-256 of validation set {name} is {checksum}, and the run "
                f"in {folder.path} was measured on {recorded}; restore it, or give the new data "
                "another name"
            )
    sizes, now = newest.get("sizes"), _sizes(splits)
    if sizes not in (None, now) and not _is_of_data(changes):
        raise errors.DataError(
            f"data {splits.name}: its splits have {now} samples, and the run in {folder.path} was "
            f"trained with {sizes}; use the same split options"
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


def resumed(folder: RunFolder, facts: Facts, updates: int, changes: Changes) -> Files:
    """The record with a resume from `updates`: its changes, command, code and machine.

    Write it after the next update: until then the options have applied to nothing.
    """
    before = provenance.read(folder)
    resumes = before["resumes"]
    origin, patches = facts.origin()
    others = {
        name: value
        for name, value in origin.items()
        if name != "seed" and value != before.get(name)
    }
    at = datetime.now(UTC).isoformat(timespec="seconds")
    entry = {"updates": updates, "at": at, "changes": dict(changes), **others}
    _warn_of_differences(facts, origin, {**before, **(resumes[-1] if resumes else {})})
    contents = {
        folder.config: facts.plain,
        folder.provenance: {**before, "resumes": [*resumes, entry]},
        **({folder.param_groups: facts.groups} if changes else {}),
    }
    return _as_files(folder, contents, patches)


def _warn_of_differences(
    facts: Facts, origin: Mapping[str, object], last: Mapping[str, object]
) -> None:
    """Warns of processes, code, versions and a machine that differ from the `last` session's."""
    earlier = last.get("processes", facts.processes)
    if earlier != facts.processes and facts.plain.get("slices") is None:
        log.warning(
            "%d processes trained this run so far, and %d do now: its dropout masks change with "
            "the number; with slices=8 they would not",
            earlier,
            facts.processes,
        )
    changed = _decisive_differences(last, origin)
    if changed:
        log.warning(
            "the environment changed since this run last started; "
            "bit-identical results are not guaranteed: %s",
            readable.joined(changed, MOST_NAMED),
        )


def hyperparameters(plain: Mapping[str, object]) -> dict[str, Plain]:
    """The flat hyperparameters of a run: numbers, and each node's class and arguments.

    A node's class has the name of the node. A schedule's copies of `lr` are left out.
    """
    flat = {}
    for path, value in leaves(schema.hyperparameters(plain)):
        is_copy = len(path) == 2 and path[0] == "scheduler" and value == plain.get("lr")
        if value is None or value == {} or value != value or is_copy:  # NaN differs from itself
            continue
        if path[-1] == "_target_":
            flat[".".join(path[:-1])] = value.rpartition(".")[2]
        else:
            flat[".".join(path)] = value if isinstance(value, Plain) else json.dumps(value)
    return flat


def _decisive_differences(before: Mapping[str, object], now: Mapping[str, object]) -> list[str]:
    """The differences in code, versions and machine that can change results."""
    return [
        f"{name.partition('.')[2] or name} {was} -> {is_now}"
        for name, (was, is_now) in provenance.differences(before, now).items()
        if DECISIVE.fullmatch(name)
    ]


def _sizes(splits: Splits) -> dict[str, int]:
    return {part: len(dataset) for part, dataset in splits.by_name.items()}


def _as_page(plain: Mapping[str, object]) -> str:
    return fenced(json.dumps(plain, indent=2), "json")


def _as_files(folder: RunFolder, contents: Mapping[Path, object], patches: Patches) -> Files:
    as_json = {path: files.as_indented_json(content) for path, content in contents.items()}
    return as_json | {folder.path / name: patch for name, patch in patches.items()}
