"""Another run's weights to start from, in place of freshly initialised ones."""

import logging
from pathlib import Path

from torch import nn

from andiron import checkpoint, errors, serialization
from andiron.checkpoint import contents, manifest
from andiron.run import run_record
from andiron.run_folder import RunFolder

log = logging.getLogger("andiron")


def load(path: Path, model: nn.Module) -> None:
    """Loads what fits by name and shape into `model`, and logs what does not.

    The weights of a run's folder are the trained ones, or those of its newest checkpoint. A file
    may be any record; one that says it has Burn's layout is read so.
    Raises: ConfigError if nothing fits, or integers or complex numbers stand for floats; DataError
    for a file that is missing, damaged, or changed since a run or a checkpoint was written.
    """
    path = _weights_in(RunFolder(path)) if path.is_dir() else path
    folder = RunFolder(path.parent)
    if folder.holds_run():
        run_record.check(folder, path)
    elif contents.is_own(path.name) and (path.parent / contents.MANIFEST).exists():
        manifest.verified(path.parent)
    try:
        found = serialization.load_file(model, path, partial=True)
    except ValueError as error:
        raise errors.ConfigError([f"start_from={error}"]) from error
    if found.other_kind:
        listed = "; ".join(f"{name!r} {found.unfit[name]}" for name in found.other_kind)
        raise errors.ConfigError([f"start_from={path}: {listed}; give a file of this model"])
    left = [f"{name!r} is missing" for name in found.missing]
    left += [f"{name!r} {reason}" for name, reason in found.unfit.items()]
    others = f"; initialised randomly: {', '.join(left)}" if left else ""
    log.info("weights from %s: %d tensors%s", path, len(found.fitting), others)


def _weights_in(folder: RunFolder) -> Path:
    """The trained weights of a run, or else those of its newest checkpoint."""
    if folder.model.exists() or not checkpoint.names(folder.checkpoints):
        return folder.model
    path, _ = checkpoint.newest_whole(folder.checkpoints, run_record.identity(folder))
    return path / contents.MODEL
