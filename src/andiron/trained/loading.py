"""`andiron.load`: loads a run folder as a `Run` with its network; executes nothing in it."""

import dataclasses
from collections.abc import Sequence
from pathlib import Path

from andiron import errors, serialization
from andiron.assembly import components, devices, network, target_kinds
from andiron.assembly.network import SizeLimit
from andiron.config import trust as trusted_names, user_files
from andiron.config.schema import Train
from andiron.config.trust import Trust
from andiron.data import described
from andiron.data.described import Described
from andiron.models import zoo
from andiron.plain.states import State
from andiron.run import named_folder, run_record, status
from andiron.run_folder import RunFolder
from andiron.trained import chosen_weights, recorded_data
from andiron.trained.trained_run import Run

NOT_BUILT = ("andiron.writers.WandbWriter", "andiron.writers.MlflowWriter")


@errors.preventing("nothing was loaded")
def load(
    path: str | Path,
    *,
    weights: str = "last",
    trust: Sequence[str] | Trust = (),
    device: str | None = None,
) -> Run:
    """The run in the folder `path`, or the newest run for `latest`, with its trained network.

    `weights` is `last`, `best` (the best checkpoint), or the name of an average such as `ema`.
    `trust` lists packages whose classes the folder may name, in addition to the classes that
    `conf/` names. `device` defaults to that of the run's configuration. Nothing is written,
    downloaded or cached.
    Raises: RunFolderError for a missing run or missing weights; DataError for damaged files;
    ConfigError for a configuration with untrusted classes; DeviceError.
    """
    folder = named_folder.run_folder_of(path)
    trusted = trust if isinstance(trust, Trust) else _trust_of_caller(trust)
    config = _recorded_config(folder, trusted)
    buildable = dataclasses.replace(config, start_from=None, compile=False, writers=None)
    target_kinds.check(buildable, trusted)
    on = devices.resolve(config.device if device is None else device)
    data = _described_data(folder, buildable)
    file = chosen_weights.file_of(folder, buildable, weights, data)
    size_limit = SizeLimit.of(serialization.load_tensors(file), str(file))
    with components.unwritten(), zoo.pretrained_unread():
        try:
            model = network.model(buildable, data, size_limit).to(on)
        except Exception as error:
            problem = f"{folder.path}: the model on record cannot be built for the data on record"
            errors.explain(error, problem, "restore config.json and data.json from a copy")
            raise
    serialization.load_file(model, file)
    return Run(folder, config, model.eval(), weights, data, on)


def _trust_of_caller(packages: Sequence[str]) -> Trust:
    packages = [packages] if isinstance(packages, str) else packages
    user_trust = trusted_names.of_user([user_files.default_conf_dir()], packages)
    return dataclasses.replace(user_trust, spelling="trust=['{}']")


def _recorded_config(folder: RunFolder, trusted: Trust) -> Train:
    """The recorded configuration; may name writers that send data elsewhere: not built here."""
    said = trusted.said | {("writers", name) for name in NOT_BUILT}
    return run_record.config(folder, dataclasses.replace(trusted, said=said))


def _described_data(folder: RunFolder, config: Train) -> Described:
    """The recorded description of the data; read from the data if it lacks the preprocessing."""
    run_status = status.read(folder)
    if not folder.data.exists() and run_status.get("status") == State.FAILED:
        reason = str(run_status.get("reason")).partition("\n")[0]
        raise errors.RunFolderError(
            f"{folder.path}: the run failed before it trained ({reason[:500]}); name another run"
        )
    plain = run_record.read_json(folder, folder.data)
    name = str(config.data["_target_"]).rpartition(".")[2]
    if not isinstance(plain, dict):
        raise errors.DataError(f"{folder.data}: is not a JSON object; restore it from a copy")
    recorded = recorded_data.from_plain(f"{folder.data}", plain)
    if recorded is not None:
        return dataclasses.replace(recorded, name=name)
    with components.unwritten():
        return described.of_splits(components.data(config))
