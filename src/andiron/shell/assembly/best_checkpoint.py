"""The best checkpoint of a run, by the values that its newest one lists."""

from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

from andiron.checkpoint import Saved, contents, strategies
from andiron.checkpoint.checkpointer import KEPT_WITH_IT
from andiron.checkpoint.on_disk import manifest
from andiron.learner.extras import state_format
from andiron.shell.assembly import configured_learner
from andiron.shell.config.schema import Train


def state_of(folder: Path) -> dict[str, Any]:
    """The checked state in the folder of a checkpoint.

    Raises: DataError.
    """
    file = folder / contents.STATE
    return state_format.checked(manifest.read_json(file), str(file))


def best(
    config: Train, offered: Mapping[str, object], newest: Path, names: Collection[str]
) -> tuple[Saved | None, str]:
    """The best of the checkpoints `names`, and the average that was measured ("" if none).

    `newest` is the folder of the newest one; metrics are built of the facts `offered`.
    """
    metrics = configured_learner.measured(config.metrics, offered).values()
    strategy = configured_learner.checkpointing(config.checkpoint or {}, [*metrics]).strategy
    listed = map(Saved.from_plain, state_of(newest).get(KEPT_WITH_IT, []))
    present = [saved for saved in listed if saved.name in names]
    return strategies.best(strategy, present), strategies.judged_average(strategy)
