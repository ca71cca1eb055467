"""When `python train.py` starts the process from which the jobs of a sweep are forked."""

import os
import sys

import pytest

from andiron.plain import processor
from andiron.shell.cli import command_line
from andiron.shell.training import train
from andiron.wings.sweep import job_process, shares


@pytest.mark.parametrize(
    ("arguments", "environment", "started"),
    [
        (["-m", "seed=1,2", "jobs=2"], {}, ["2"]),
        (["seed=1,2", "jobs=3", "--multirun"], {}, ["1"]),
        (["-m", "seed=1,2", "jobs=2"], {shares.THREADS: "5"}, ["5"]),
        (["-m", "seed=1,2"], {shares.THREADS: "5"}, ["5"]),
        (["-m", "seed=1,2", "jobs=1"], {}, [None]),
        (["-m", "seed=1,2"], {}, []),  # a file may say how many
        (["-m", "seed=1,2", "jobs=2,3"], {}, []),
        (["-m", "seed=1,2", "jobs=2", "jobs=3"], {}, []),
        (["-m", "seed=1,2", "jobs=2", "hydra/launcher=basic"], {}, []),
        (["-m", "seed=1,2", "jobs=2", "hydra.launcher.jobs=1"], {}, []),
        (["-m", "seed=1,2", "jobs=2", "hydra.launcher.retries=1"], {}, ["2"]),
        (["-m", "seed=1,2", "jobs=2", "--config-dir", "mine"], {}, []),
        (["seed=1", "jobs=2"], {}, []),
        (["--help"], {shares.THREADS: "5"}, []),
    ],
)
def test_it_is_started_if_the_arguments_determine_its_threads(
    arguments, environment, started, monkeypatch
):
    found, called = [], []
    monkeypatch.setattr(processor, "cores", lambda: 4)
    monkeypatch.setattr(sys, "argv", ["train.py", *arguments])
    monkeypatch.setattr(os, "environ", environment)
    monkeypatch.setattr(job_process, "start_clean_process", found.append)
    monkeypatch.setattr(command_line, "main", lambda *parts, **options: called.append(parts[2]))

    assert train.main() == 0
    assert called == [arguments]
    assert found == started
