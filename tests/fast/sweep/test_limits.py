"""The limits of a sweep's jobs, as options of the launcher."""

import pytest

from andiron import errors
from andiron.config import violations
from andiron.sweep.scheduling import Limits


def checked(**given):
    return violations.checked(Limits, given, prefix="hydra.launcher.")


def test_sound_limits_are_taken_as_they_are_given():
    assert checked(jobs=2, job_minutes=60, job_gib=0.5) == Limits(2, 0, 60, 0.5, 30)


def test_limits_that_limit_nothing_or_everything_are_refused_together():
    wrong = {"jobs": 0, "retries": -1, "job_minutes": 0, "job_gib": "8", "grace_seconds": None}
    with pytest.raises(errors.ConfigError) as refused:
        checked(**wrong)
    assert [each.partition("=")[0] for each in refused.value.problems] == [
        f"hydra.launcher.{name}" for name in wrong
    ]
