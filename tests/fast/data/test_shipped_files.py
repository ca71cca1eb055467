"""The data sets that come with the package: their files, and what happens if they are not whole."""

import hashlib
import importlib

import pytest

from andiron import errors
from refusals import message_of


@pytest.fixture(params=["digits", "diabetes"])
def shipped(request):
    """The module of a data set, and the function that reads it."""
    module = importlib.import_module(f"andiron.data.sources.{request.param}")
    return module, getattr(module, request.param)


def test_the_file_has_the_recorded_checksum(shipped):
    module, _ = shipped
    assert hashlib.sha256(module.FILE.read_bytes()).hexdigest() == module.SHA256


def test_a_damaged_or_missing_file_is_refused(shipped, tmp_path, monkeypatch):
    module, read = shipped
    content = bytearray(module.FILE.read_bytes())
    content[-1] ^= 1
    file = tmp_path / module.FILE.name
    monkeypatch.setattr(module, "FILE", file)
    assert message_of(errors.DataError, read, valid=0.1, split_seed=0) == (
        f"{file}: the data shipped with andiron are missing; install the package again"
    )
    file.write_bytes(content)
    assert message_of(errors.DataError, read, valid=0.1, split_seed=0) == (
        f"{file}: SHA-256 is {hashlib.sha256(content).hexdigest()}, not {module.SHA256}: the file "
        "is damaged; restore it from the repository or install the package again"
    )
