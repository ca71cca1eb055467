"""Mirrors the checkpoints of a run at any address of fsspec, and fetches them from there."""

from andiron_lab.mirror.fetching import fetched
from andiron_lab.mirror.remote_run import check, check_recorded
from andiron_lab.mirror.uploads import accompanying, mirrored

__all__ = ["accompanying", "check", "check_recorded", "fetched", "mirrored"]
