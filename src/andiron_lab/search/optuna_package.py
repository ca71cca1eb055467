"""Checks the packages that `hydra/sweeper=optuna` needs, without importing them."""

from andiron import errors

CHOICE = "hydra/sweeper=optuna"
MAJORS = ("4", "5")
FOREIGN = "hydra-optuna-sweeper"
INSTALL = "pip install andiron[optuna]"


def check(chosen: str = CHOICE) -> None:
    """Refuses `chosen` if optuna is missing or of another version, or another plugin has its name.

    Raises: ConfigError.
    """
    foreign, optuna = _version(FOREIGN), _version("optuna")
    if foreign is not None:
        # two plugins cannot share a name, and that one needs optuna 2, whose storage fails with
        # current SQLAlchemy
        reason = f"{FOREIGN} {foreign} has the same name, and needs optuna 2"
        remedy = f"pip uninstall {FOREIGN}; {INSTALL}"
    elif optuna is None:
        reason, remedy = "optuna is not installed", INSTALL
    elif optuna.partition(".")[0] not in MAJORS:
        reason, remedy = f"needs optuna {' or '.join(MAJORS)}, and {optuna} is installed", INSTALL
    else:
        return
    raise errors.ConfigError(f"{chosen}: {reason}; {remedy}")


def _version(package: str) -> str | None:
    from importlib import metadata  # here: few commands search, and the import is slow

    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None
