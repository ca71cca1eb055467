"""From the command line to checked configurations: Hydra composes, the schema checks, and mistakes are explained."""

import dataclasses
import os
import sys
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
from andiron.run import resume_arguments, resume_policy
from andiron.run.resume_arguments import Recorded

FOLDERS = ("hydra.run.dir=", "hydra.sweep.dir=")
Task = Callable[[schema.Train, Path, dict[str, str]], None]


def run(task: Task, conf_dir: Path, arguments: list[str], *, resumes: bool = False) -> None:
    """Calls `task(config, run_dir, hydra_record)` for the run, or for every run of a `-m` sweep.

    `hydra_record` holds Hydra's own account of the composition, by file name. `arguments` is what the command line said.
    One failed run of a sweep does not keep the others from running. With `resume=<run folder>` among them, which only
    `resumes` permits, the config is the folder's record, with what the other arguments change in it.
    Raises: ConfigError with everything that is wrong with the command line or the config; what a single run raised;
    SweepError for a sweep with failed runs.
    """
    if not resumes:
        resume_arguments.refuse(arguments)
    found = resume_arguments.named(arguments)
    if found is not None and found.is_enough:
        task(dataclasses.replace(found.config, **found.instructions), found.folder, {})
        return
    os.environ["HYDRA_FULL_ERROR"] = (
        "1"  # Hydra then raises what it found instead of printing and leaving
    )
    failures: list[Exception] = []
    composing = arguments if found is None else found.arguments
    as_called, sys.argv = sys.argv, [sys.argv[0], *composing]  # Hydra reads them there

    def composed(config: DictConfig) -> None:
        sys.argv = as_called
        run_dir = Path(HydraConfig.get().runtime.output_dir)
        try:
            task(_checked(config, run_dir, found), run_dir, _hydra_record(config))
        except Exception as error:  # raised again below: Hydra would print over it, and end a sweep's report at the first
            failures.append(
                _named(error, run_dir) if HydraConfig.get().mode is RunMode.MULTIRUN else error
            )

    try:
        hydra.main(version_base="1.3", config_path=str(conf_dir), config_name="train")(composed)()
    except (HydraException, OmegaConfBaseException, ValueError) as error:
        raise errors.ConfigError(diagnosis.explain(composing, conf_dir, error)) from error
    except OSError as error:  # from making the folder
        option = "hydra.sweep.dir" if {"-m", "--multirun"} & {*arguments} else "hydra.run.dir"
        raise errors.RunFolderError(
            f"{os.path.abspath(error.filename)} cannot be made ({error.strerror}); choose another place with {option}=..."
        ) from error
    finally:
        sys.argv = as_called
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


def _checked(config: DictConfig, run_dir: Path, found: Recorded | None) -> schema.Train:
    problems = diagnosis.problems(config)
    said = HydraConfig.get().overrides.hydra
    if (
        not problems
        and config.resume == "auto"
        and not any(each.startswith(FOLDERS) for each in said)
    ):
        remedy = "say hydra.run.dir=<folder> too, the same at every start; or hydra.sweep.dir for a sweep"
        problems = [
            f"resume=auto: without a folder of its own each start of this command would be another run; {remedy}"
        ]
    if problems:
        if found is None and not any(
            run_dir.iterdir()
        ):  # made by Hydra, and nothing will come to fill it
            run_dir.rmdir()
        raise errors.ConfigError(problems)
    if found is not None:
        return _changed(found, config)
    return schema.with_absolute_paths(schema.Train(**diagnosis.plain(config)))


def _changed(found: Recorded, config: DictConfig) -> schema.Train:
    """The recorded config with what the overrides beside `resume` change: conf/ may have changed as well since."""
    before = hydra.compose("train", overrides=found.recorded)
    own = resume_policy.changes(diagnosis.plain(before), diagnosis.plain(config))
    plain = resume_policy.applied(dataclasses.asdict(found.config), own)
    problems = schema.problems(plain)
    if problems:
        raise errors.ConfigError(problems.values())
    return schema.with_absolute_paths(
        dataclasses.replace(schema.Train(**plain), **found.instructions)
    )


def _hydra_record(config: DictConfig) -> dict[str, str]:
    hydra_config = HydraConfig.get()
    return {
        "config.yaml": OmegaConf.to_yaml(config),
        "hydra.yaml": OmegaConf.to_yaml(OmegaConf.create({"hydra": hydra_config})),
        "overrides.yaml": OmegaConf.to_yaml(hydra_config.overrides.task),
    }
