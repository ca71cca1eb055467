"""Whether what `hydra/sweeper=optuna` needs is installed; nothing of it is imported."""

from andiron import errors

CHOICE = "hydra/sweeper=optuna"
MAJORS = ("4", "5")
FOREIGN = "hydra-optuna-sweeper"
INSTALL = "pip install andiron[optuna]"


def check(chosen: str = CHOICE) -> None:
    """Refuses what was chosen where optuna is missing, of another version, or another sweeper's.

    Raises: ConfigError.
    """
    foreign, optuna = _version(FOREIGN), _version("optuna")
    if foreign is not None:
        # two plugins cannot have one name, and this one needs optuna 2, whose storage fails with
        # the SQLAlchemy of today
        why = f"{FOREIGN} {foreign} has the same name, and needs optuna 2"
        remedy = f"pip uninstall {FOREIGN}; {INSTALL}"
    elif optuna is None:
        why, remedy = "optuna is not installed", INSTALL
    elif optuna.partition(".")[0] not in MAJORS:
        why, remedy = f"needs optuna {' or '.join(MAJORS)}, and {optuna} is installed", INSTALL
    else:
        return
    raise errors.ConfigError([f"{chosen}: {why}; {remedy}"])


def _version(package: str) -> str | None:
    from importlib import metadata  # here: few commands search, and it imports for some time

    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None
