"""Deterministic kernels: what is set, what is refused, and that the settings end with the run."""

import pytest
import torch
from torch.backends import cudnn

from andiron import errors
from andiron.shell.assembly import devices

PLACES, VALUES = torch.tensor([0]), torch.tensor([1.0])


def settings():
    """The settings of the whole process."""
    return torch.are_deterministic_algorithms_enabled(), cudnn.deterministic, cudnn.benchmark


def put():
    torch.zeros(3).put_(PLACES, VALUES)  # of two equal places, either value may stay


@pytest.fixture
def workspace(monkeypatch):
    """The environment without cuBLAS's setting, as it is put back."""
    monkeypatch.setenv("CUBLAS_WORKSPACE_CONFIG", "")
    monkeypatch.delenv("CUBLAS_WORKSPACE_CONFIG")
    return devices.os.environ


def test_deterministic_settings_are_made_and_undone(monkeypatch, workspace):
    monkeypatch.setattr(cudnn, "benchmark", True)
    before = settings()

    with devices.deterministic(True):
        assert settings() == (True, True, False)
        assert workspace["CUBLAS_WORKSPACE_CONFIG"] == ":4096:8"

    assert settings() == before == (False, False, True)


def test_a_workspace_that_the_user_chose_stays(monkeypatch, workspace):
    monkeypatch.setenv("CUBLAS_WORKSPACE_CONFIG", ":16:8")

    with devices.deterministic(True):
        assert workspace["CUBLAS_WORKSPACE_CONFIG"] == ":16:8"


def test_nothing_is_set_or_refused_when_off(workspace):
    before = settings()

    with devices.deterministic(False):
        put()
        assert settings() == before and "CUBLAS_WORKSPACE_CONFIG" not in workspace


def test_an_operation_without_a_deterministic_kernel_is_named(workspace):
    with pytest.raises(errors.MismatchError) as refused:
        with devices.deterministic(True):
            put()

    assert str(refused.value) == (
        "deterministic=true: torch has no deterministic kernel for put_ on this device; give "
        "deterministic=false, or replace the layer or loss that uses it"
    )
    assert settings()[0] is False


@pytest.mark.parametrize("error", [RuntimeError("shapes differ"), errors.MismatchError("widths")])
def test_other_errors_stay_as_they_are(workspace, error):
    with pytest.raises(type(error)) as raised:
        with devices.deterministic(True):
            raise error

    assert raised.value is error
