"""From the command line to checked configurations: Hydra composes, the schema checks, and mistakes are explained."""

import os
from collections.abc import Callable
from pathlib import Path

import hydra
from hydra.core.hydra_config import HydraConfig
from hydra.errors import HydraException
from hydra.types import RunMode
from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException

from andiron import errors
from andiron.config import diagnosis, schema

Task = Callable[[schema.Train, Path, dict[str, str]], None]


def run(task: Task, conf_dir: Path, arguments: list[str]) -> None:
    """Calls `task(config, run_dir, hydra_record)` for the run, or for every run of a `-m` sweep.

    `hydra_record` holds Hydra's own account of the composition, by file name. `arguments` is what the command line
    said; Hydra reads it from `sys.argv` by itself, it is here only to explain mistakes. One failed run of a sweep
    does not keep the others from running.
    Raises: ConfigError with everything that is wrong with the command line or the config; what a single run raised;
    SweepError for a sweep with failed runs.
    """
    os.environ["HYDRA_FULL_ERROR"] = "1"  # Hydra then raises what it found instead of printing and leaving
    failures: list[Exception] = []

    def composed(config: DictConfig) -> None:
        run_dir = Path(HydraConfig.get().runtime.output_dir)
        try:
            task(_checked(config, run_dir), run_dir, _hydra_record(config))
        except Exception as error:  # raised again below: Hydra would print over it, and end a sweep's report at the first
            failures.append(_named(error, run_dir) if HydraConfig.get().mode is RunMode.MULTIRUN else error)

    try:
        hydra.main(version_base="1.3", config_path=str(conf_dir), config_name="train")(composed)()
    except (HydraException, OmegaConfBaseException, ValueError) as error:
        raise errors.ConfigError(diagnosis.explain(arguments, conf_dir, error)) from error
    except OSError as error:  # from making the folder
        option = "hydra.sweep.dir" if {"-m", "--multirun"} & {*arguments} else "hydra.run.dir"
        raise errors.RunFolderError(
            f"{os.path.abspath(error.filename)} cannot be made ({error.strerror}); choose another place with {option}=..."
        ) from error
    if len(failures) == 1:
        raise failures[0]
    if failures:
        raise errors.SweepError("\n".join(map(str, failures)))


def _named(error: Exception, run_dir: Path) -> errors.SweepError:
    """The error of one run of a sweep, with the run it belongs to."""
    overrides = [str(text) for text in OmegaConf.to_container(HydraConfig.get().overrides.task)]  # type: ignore[union-attr]
    named = errors.SweepError(f"{run_dir} ({' '.join(overrides)}): {error or type(error).__name__}")
    named.__cause__ = error
    return named


def _checked(config: DictConfig, run_dir: Path) -> schema.Train:
    found = diagnosis.problems(config)
    if found:
        if not any(run_dir.iterdir()):  # made by Hydra, and nothing will come to fill it
            run_dir.rmdir()
        raise errors.ConfigError(found)
    return schema.with_absolute_paths(schema.Train(**diagnosis.plain(config)))


def _hydra_record(config: DictConfig) -> dict[str, str]:
    hydra_config = HydraConfig.get()
    return {
        "config.yaml": OmegaConf.to_yaml(config),
        "hydra.yaml": OmegaConf.to_yaml(OmegaConf.create({"hydra": hydra_config})),
        "overrides.yaml": OmegaConf.to_yaml(hydra_config.overrides.task),
    }
