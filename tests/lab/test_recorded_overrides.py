"""The overrides that a run folder may have, which a fork composes again."""

import pytest

from andiron import errors
from andiron_lab.forks import recorded_overrides


def test_a_recorded_override_may_refer_to_options_but_call_no_resolver(tmp_path):
    def check(*overrides):
        recorded_overrides.check(tmp_path / "overrides.yaml", list(overrides), {})

    check("+dims=48", "model.hidden=[${dims},${sizes.small}]", "lr=${rate}")
    for refused in ("lr=${oc.env:SECRET}", "lr=${hydra:job.name}"):
        with pytest.raises(errors.RunFolderError, match="than of options and variables"):
            check("+dims=48", refused)
