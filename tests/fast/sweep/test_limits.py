"""The limits of a sweep's jobs, as options of the launcher."""

import sys

import pytest

from andiron import errors
from andiron.shell.config import violations
from andiron.wings.sweep import job_process
from andiron.wings.sweep.scheduling import Limits


def checked(**given):
    return violations.checked(Limits, given, prefix="hydra.launcher.")


def test_valid_limits_are_kept():
    assert checked(jobs=2, job_minutes=60, job_gib=0.5) == Limits(2, 0, 60, 0.5, 30)


def test_all_invalid_limits_are_reported_together():
    wrong = {"jobs": 0, "retries": -1, "job_minutes": 0, "job_gib": "8", "grace_seconds": None}
    with pytest.raises(errors.ConfigError) as refused:
        checked(**wrong)
    assert [each.partition("=")[0] for each in refused.value.problems] == [
        f"hydra.launcher.{name}" for name in wrong
    ]


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux limits memory")
def test_a_memory_limit_below_the_use_of_torch_names_the_remedy():
    limit = job_process.resource.RLIMIT_DATA
    before = job_process.resource.getrlimit(limit)

    problem = job_process._limit_memory(2**20)

    assert problem.startswith("the memory limit is 0.00 GiB, and torch alone takes ")
    assert problem.endswith("give a higher hydra.launcher.job_gib")
    assert job_process.resource.getrlimit(limit) == before
