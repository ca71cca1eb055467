"""Lines about loops that take long: none in the first ten seconds, then ever fewer."""

import logging
import time
from collections.abc import Iterable, Iterator
from typing import TypeVar

Item = TypeVar("Item")
FIRST_SECONDS = 10.0  # before the first line; each interval is twice the one before
log = logging.getLogger("andiron")


def watched(items: Iterable[Item], what: str, total: int | None = None) -> Iterator[Item]:
    """The items; while they take long, logs how many of the `total` were used."""
    seconds, begun = FIRST_SECONDS, time.monotonic()
    for number, item in enumerate(items, 1):
        yield item
        if time.monotonic() - begun > seconds:
            seconds *= 2
            log.info("%s: %s%s", what, f"{number:,}", "" if total is None else f" of {total:,}")
