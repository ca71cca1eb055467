"""`andiron.load`: loads a run folder as a `Run` with its network; executes nothing in it."""

import dataclasses
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from torch import nn

from andiron import errors, serialization
from andiron.data import ArrayBatcher
from andiron.data.splitting import described
from andiron.data.splitting.described import Described
from andiron.models import zoo
from andiron.plain.states import State
from andiron.protocols import ValidStep
from andiron.run_folder import RunFolder
from andiron.shell.assembly import components, devices, network, target_kinds
from andiron.shell.assembly.network import SizeLimit
from andiron.shell.config import project, trust as trusted_names
from andiron.shell.config.schema import FROM_PYTHON, Train
from andiron.shell.config.trust import Trust
from andiron.shell.run import named_folder, run_record, status
from andiron.wings.trained import chosen_weights, from_python, recorded_data
from andiron.wings.trained.from_python import Unrecorded
from andiron.wings.trained.trained_run import Run


@errors.preventing("nothing was loaded")
def load(
    path: str | Path,
    *,
    weights: str = "last",
    model: nn.Module | None = None,
    trust: Sequence[str] | Trust = (),
    device: str | None = None,
) -> Run:
    """The run in the folder `path`, or the newest run for `latest`, with its trained network.

    `weights` is `last`, `best` (the best checkpoint), or the name of an average such as `ema`.
    `model` is a network or a task with a network to load them into, for a run started from Python
    whose own cannot be made again from its record. `trust` lists packages whose classes the folder
    may name, in addition to the classes that `conf/` names. `device` defaults to that of the run's
    configuration. Nothing is written, downloaded or cached.
    Raises: RunFolderError for a missing run or missing weights; DataError for damaged files;
    ConfigError for a configuration with untrusted classes, or without the network; DeviceError;
    MismatchError if the weights do not fit `model`.
    """
    folder = named_folder.run_folder_of(path)
    trusted = trust if isinstance(trust, Trust) else _trust_of_caller(trust)
    config, unrecorded = _recorded_config(folder, trusted)
    unbuilt: dict[str, Any] = {"start_from": None, "compile": False, "writers": None}
    if unrecorded is not None:  # the other components are not built
        unbuilt |= {"optimizer": {}, "scheduler": {}}
        unbuilt |= dict.fromkeys(("averages", "early_stopping", "gradients"))
    buildable = dataclasses.replace(config, **unbuilt)
    target_kinds.check(dataclasses.asdict(buildable), trusted)
    on = devices.resolve(config.device if device is None else device)
    data = _described_data(folder, buildable)
    file = chosen_weights.file_of(folder, buildable, weights, data)
    size_limit = SizeLimit.of(serialization.load_tensors(file), str(file))
    with components.unwritten(), zoo.pretrained_unread():
        try:
            if unrecorded is None and model is None:
                task = network.model(buildable, data, size_limit)
                components.add_adapters(buildable, task, size_limit)
            elif isinstance(model, ValidStep):
                task = model
            else:
                _check_recorded(folder, unrecorded, is_given=model is not None)
                task = from_python.task_of(buildable, size_limit, model)
        except Exception as error:
            problem = f"{folder.path}: the model on record cannot be built for the data on record"
            errors.explain(error, problem, "restore config.json and data.json from a copy")
            raise
    serialization.load_file(task.to(on), file)
    missing = {} if unrecorded is None else unrecorded.reasons
    return Run(folder, config, task.eval(), weights, data, on, file, trusted, missing)


def _trust_of_caller(packages: Sequence[str]) -> Trust:
    packages = [packages] if isinstance(packages, str) else packages
    user_trust = trusted_names.of_user(project.shipped_conf_dirs(), packages)
    return dataclasses.replace(user_trust, spelling="trust=['{}']")


def _check_recorded(folder: RunFolder, unrecorded: Unrecorded | None, *, is_given: bool) -> None:
    """Refuses a run whose code made a task that its record cannot make again.

    Raises: RunFolderError.
    """
    for option in ("task", "loss") if is_given else ("task", "model", "loss"):
        if unrecorded is not None and option in unrecorded.reasons:
            part = "network" if option == "model" else "task with its network"
            raise errors.RunFolderError(
                f"{folder.path}: the {option} that its code ({unrecorded.built_at}) made cannot "
                f"be made again from the record: {unrecorded.reasons[option]}; or pass the {part}: "
                f"andiron.load({str(folder.path)!r}, model=...)"
            )


def _recorded_config(folder: RunFolder, trusted: Trust) -> tuple[Train, Unrecorded | None]:
    """The recorded configuration; may name writers that send data elsewhere: not built here.

    For a run started from Python, also its components that cannot be made again.
    """
    plain = run_record.read_json(folder, folder.config)
    if FROM_PYTHON in plain:
        return from_python.parsed(folder.config, plain, trusted)
    return run_record.config(folder, dataclasses.replace(trusted, builds_writers=False)), None


def _described_data(folder: RunFolder, config: Train) -> Described:
    """The recorded description of the data; read from the data if it lacks the preprocessing."""
    run_status = status.read(folder)
    if not folder.data.exists() and run_status.get("status") == State.FAILED:
        reason = str(run_status.get("reason")).partition("\n")[0]
        raise errors.RunFolderError(
            f"{folder.path}: the run failed before it trained ({reason[:500]}); name another run"
        )
    plain = run_record.read_json(folder, folder.data)
    name = str(config.data.get("_target_", "data")).rpartition(".")[2]
    recorded = recorded_data.from_plain(f"{folder.data}", plain)
    if recorded is not None:
        return dataclasses.replace(recorded, name=name, options=config.data)
    if not config.data:  # a data set and a batcher of the user's own code
        return Described(name, ArrayBatcher(), plain, max(config.batch_size, 1))
    with components.unwritten():
        made = described.of_splits(components.data(config))
    return dataclasses.replace(made, options=config.data)
