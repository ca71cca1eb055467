"""Loads the weights of another run or library to start from."""

import dataclasses
import logging
import shlex
from functools import partial
from pathlib import Path
from typing import Any

from torch import nn

from andiron import errors, serialization
from andiron.checkpoint import LocalStore, Store, contents, directory
from andiron.checkpoint.on_disk import manifest
from andiron.plain.readable import joined
from andiron.run_folder import RunFolder
from andiron.serialization import matching
from andiron.shell.assembly import configured_store
from andiron.shell.config import project, trust
from andiron.shell.config.quoting import quoted
from andiron.shell.config.schema import Train
from andiron.shell.config.trust import Trust
from andiron.shell.run import run_record

SIDES = ("only the model has", "only the file has", "both have, in other shapes,")
log = logging.getLogger("andiron")


def load(config: Train, shards: list[Path], model: nn.Module) -> dict[str, Any]:
    """Loads the tensors of the files that fit `model` by name and shape; returns their record.

    A file may be any record, also in Burn's layout.
    Raises, before a tensor is changed: ConfigError if nothing fits, names are left on both sides,
    or integers or complex numbers stand for floats; DataError for a file that is damaged, or
    changed since a run or a checkpoint was written.
    """
    given, path = as_mapping(config), shards[0]
    folder = RunFolder(path.parent)
    if folder.manifest.exists() and folder.config.exists():
        run_record.check(folder, path)
    elif contents.is_own(path.name) and (path.parent / contents.MANIFEST).exists():
        manifest.verified(path.parent)
    record, checksums = serialization.read_weights(shards, serialization.most_numbers(model))
    try:
        found = serialization.load_record(
            model,
            record,
            path,
            partial=True,
            rename=given.get("rename"),
            exclude=given.get("except", ()),
            judge=partial(_judge, given, path),
            remedy=lambda old, new: _line(
                given["path"], rf"rename: {{\A{old}: {quoted(new)}}}"
            ),
        )
    except ValueError as error:
        raise errors.ConfigError([f"start_from={error}"]) from error
    fresh = dict.fromkeys(found.missing, "is missing") | found.unfit
    others = f"; initialised randomly: {matching.shown(fresh)}" if fresh else ""
    log.info("weights from %s: %d tensors%s", path, len(found.fitting), others)
    if found.prefix != ("", ""):
        log.info("  all its names have %r in place of %r", *found.prefix)
    return {
        "files": checksums,
        "prefix": [*found.prefix],
        "loaded": [*found.fitting],
        "left": [*found.unexpected],
        "new": [*fresh],
        "except": [*found.excluded],
    }


def as_mapping(config: Train) -> dict[str, Any]:
    """The option with its path alone, or as it is."""
    given = config.start_from or ""
    return {"path": given} if isinstance(given, str) else given


def _judge(given: dict[str, Any], path: Path, found: serialization.Differences) -> None:
    """Refuses weights of another model; see `load`."""
    kinds = {name: found.unfit[name] for name in found.other_kind}
    if kinds:
        raise ValueError(f"{path}: {matching.shown(kinds)}; give a file of this model")
    missing = [name for name in found.missing if name not in found.excluded]
    differing = [missing, found.unexpected, [*found.unfit]]
    is_whole = not any(differing) if "partial" in given else not all(differing[:2])
    if is_whole or given.get("partial"):
        return
    words = (
        f"{side} {len(names):,}: {joined(names, matching.MOST_NAMES)}"
        for side, names in zip(SIDES, differing, strict=True)
        if names
    )
    raise ValueError(
        f"{path}: {'; '.join(words)}; if they start new or are left out: "
        f"{_line(given['path'], 'partial: true')}; if they have other names: "
        f"{_line(given['path'], 'rename: {OLD: NEW}')}"
    )


def _line(path: str, option: str) -> str:
    """The option on the command line, with one more."""
    return shlex.quote(f"start_from={{path: {quoted(path)}, {option}}}")


def weights_of(config: Train, trusted: Trust | None = None) -> list[Path]:
    """The files that `start_from` names, checked as far as possible before there are data.

    The weights of a run's folder are the trained ones, or the newest checkpoint's in its store.
    That run may name what `trusted` allows, by default what the user's `config` names.
    Raises: ConfigError or DataError for a missing file or one of another format; ConfigError for a
    file of torch.save that a run's folder names, and `trusted` does not.
    """
    path = Path(as_mapping(config)["path"])
    folder = RunFolder(path)
    is_run = folder.manifest.exists() or folder.checkpoints.exists()
    file = None if is_run else serialization.file_of_weights(path)
    if file is None:
        own = trust.of_user(project.config_dirs(), config.trust)
        allowed = trusted or own.with_config(dataclasses.asdict(config))
        file = _weights_in(folder, allowed)
    shards = serialization.shards_of(file)
    is_pickled = any(map(serialization.is_of_torch, shards))
    if is_pickled and trusted is not None and str(path) not in trusted.packages:
        raise errors.ConfigError(
            [
                f"start_from={path}: recorded in a run folder, and read by "
                "torch.load(weights_only=True); allow it for this file with "
                f"{trusted.spelling.format(path)}"
            ]
        )
    return shards


def _weights_in(folder: RunFolder, trusted: Trust) -> Path:
    """The trained weights of a run, or else of its newest checkpoint."""
    if folder.model.exists():
        return folder.model
    store: Store = LocalStore(folder.checkpoints)
    if folder.config.exists():
        config = run_record.config(folder, trusted)
        store = configured_store.store(config.checkpoint, folder.checkpoints, trusted)
    if not directory.names(store):
        return folder.model
    path, _ = directory.newest_whole(store, run_record.identity(folder))
    return path / contents.MODEL
