"""`hydra/sweeper=optuna` in this process: what it refuses, and a search by Hydra's own launcher."""

import configparser
import contextlib
import re
from importlib import metadata
from pathlib import Path

import pytest

from andiron import errors
from andiron_lab.search import optuna_package

ROOT = Path(__file__).resolve().parents[3]
SEARCH = ("-m", "hydra/sweeper=optuna", "hydra.sweep.dir=search")
BASIC = ("hydra/launcher=basic",)


@pytest.mark.parametrize(
    ("arguments", "problem"),
    {
        "nothing to search": (["lr=0.1"], "hydra.sweeper: no option is searched; give one"),
        "a value out of range": (["lr=interval(-1,1)"], "lr=-1.0: should be greater than 0"),
        "an invalid choice": (["optimizer=adam,sdg"], "optimizer=sdg: no such optimizer; did"),
        "a tag": (["lr=tag(ln,range(3))"], "lr=tag(ln,range(3)): cannot be searched: tag ln"),
        "an unknown sampler": (["lr=interval(1e-3,1)", "hydra.sweeper.sampler=gp"],
                               "hydra.sweeper.sampler=gp: should be 'tpe', 'random' or 'qmc'"),
        "a pruner that cannot stop a run": (["lr=interval(1e-3,1)", "hydra.sweeper.pruner=median"],
                                            "hydra.sweeper.pruner=median: this launcher cannot "
                                            "stop one run alone; choose"),
        "a pruner that sees nothing": (["lr=interval(1e-3,1)", "hydra.sweeper.pruner=median",
                                        "writers=tensorboard", "hydra/launcher=andiron"],
                                       "hydra.sweeper.pruner=median: reads metrics.jsonl, which "
                                       "is not written; choose"),
        "an unmeasured objective": (["lr=interval(1e-3,1)", "objective=valid/f1"],
                                    "objective=valid/f1: no metric of the configuration that "
                                    "says which value is best"),
    }.values(),
)  # fmt: skip
def test_an_invalid_search_is_refused(command, here, arguments, problem):
    launcher = BASIC if "hydra/launcher=andiron" not in arguments else ()
    ended = command(*SEARCH, *launcher, *arguments)

    assert ended.code == 2
    (line,) = ended.problems
    assert line.startswith(problem)


@pytest.mark.parametrize(("versions", "problem"), [
    ({}, "optuna is not installed; pip install andiron[optuna]"),
    ({"optuna": "6.0"}, "needs optuna 4 or 5, and 6.0 is installed; pip install andiron[optuna]"),
    ({"optuna": "2.10.1", "hydra-optuna-sweeper": "1.3.0"},
     "hydra-optuna-sweeper 1.3.0 has the same name, and needs optuna 2; pip uninstall "
     "hydra-optuna-sweeper; pip install andiron[optuna]"),
])  # fmt: skip
def test_another_optuna_is_refused(command, monkeypatch, versions, problem):
    def version(package):
        if package not in versions:
            raise metadata.PackageNotFoundError(package)
        return versions[package]

    monkeypatch.setattr(metadata, "version", version)

    ended = command(*SEARCH, *BASIC, "lr=interval(1e-3,1)")

    assert (ended.code, ended.problems) == (2, [f"hydra/sweeper=optuna: {problem}"])


@pytest.mark.parametrize("major", [3, 4, 5, 6])
def test_the_accepted_major_versions_equal_the_extra(monkeypatch, major):
    setup = configparser.ConfigParser()
    setup.read(ROOT / "setup.cfg", encoding="utf-8")
    extra = setup["options.extras_require"]["optuna"]
    lowest, limit = re.search(r"optuna>=(\d+)\.\d+,<(\d+)", extra).groups()
    versions = {"optuna": f"{major}.9.0"}
    monkeypatch.setattr(optuna_package, "_version", versions.get)

    admitted = int(lowest) <= major < int(limit)
    with contextlib.nullcontext() if admitted else pytest.raises(errors.ConfigError):
        optuna_package.check()


def test_hydras_launcher_runs_the_trials_and_names_the_failed_one(command, here):
    search = (*SEARCH, *BASIC, "hydra.sweeper.n_trials=6", "hydra.sweeper.storage=journal")

    ended = command(*search, "lr=1e-3,1e9", "optimizer=sgd")

    assert ended.code == 1 and "search/" in ended.errors and "lr=1000000000.0" in ended.errors
    assert "study.jsonl" in {path.name for path in (here / "search").iterdir()}
