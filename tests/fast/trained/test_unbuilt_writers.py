"""A run that is read builds no writer that sends to a server."""

from andiron import writers
from andiron.config.trust import LISTED
from andiron.trained import loading


def test_every_writer_that_is_not_listed_is_not_built():
    named = {name for name in writers.__all__ if name.endswith("Writer")}
    unlisted = named - {*LISTED["writers"]["andiron.writers"]}
    assert {*loading.NOT_BUILT} == {f"andiron.writers.{name}" for name in unlisted} != set()
