"""Loads another run's weights to start from."""

import dataclasses
import logging
from pathlib import Path

from torch import nn

from andiron import errors, serialization
from andiron.checkpoint import LocalStore, Store, contents, directory
from andiron.checkpoint.on_disk import manifest
from andiron.run_folder import RunFolder
from andiron.serialization.matching import shown
from andiron.shell.assembly import configured_store
from andiron.shell.config import trust
from andiron.shell.config.schema import Train
from andiron.shell.config.trust import Trust
from andiron.shell.run import code_origin, run_record

log = logging.getLogger("andiron")


def load(path: Path, model: nn.Module) -> None:
    """Loads the tensors of a file that fit `model` by name and shape, and logs the others.

    A file may be any record, also in Burn's layout.
    Raises: ConfigError if nothing fits, or integers or complex numbers stand for floats; DataError
    for a file that is damaged, or changed since a run or a checkpoint was written.
    """
    folder = RunFolder(path.parent)
    if folder.manifest.exists() and folder.config.exists():
        run_record.check(folder, path)
    elif contents.is_own(path.name) and (path.parent / contents.MANIFEST).exists():
        manifest.verified(path.parent)
    try:
        differences = serialization.load_file(model, path, partial=True)
    except ValueError as error:
        raise errors.ConfigError([f"start_from={error}"]) from error
    if differences.other_kind:
        listed = shown({name: differences.unfit[name] for name in differences.other_kind})
        raise errors.ConfigError([f"start_from={path}: {listed}; give a file of this model"])
    left = dict.fromkeys(differences.missing, "is missing") | differences.unfit
    others = f"; initialised randomly: {shown(left)}" if left else ""
    log.info("weights from %s: %d tensors%s", path, len(differences.fitting), others)
    if differences.prefix != ("", ""):
        log.info("  all its names have %r in place of %r", *differences.prefix)


def weights_file(config: Train, trusted: Trust | None = None) -> Path:
    """The file that `start_from` names, checked as far as possible before there are data.

    The weights of a run's folder are the trained ones, or the newest checkpoint's in its store.
    That run may name what `trusted` allows, by default what the user's `config` names.
    Raises: ConfigError or DataError for a missing file or one of another format.
    """
    path = Path(str(config.start_from))
    if path.is_dir():
        own = trust.of_user(code_origin.config_dirs(), config.trust)
        allowed = trusted or own.with_config(dataclasses.asdict(config))
        path = _weights_in(RunFolder(path), allowed)
    serialization.check(path)
    return path


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
