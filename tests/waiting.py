"""Waiting for what another thread or process is about to do."""

import time

SECONDS_AT_MOST = 240


def until(question):
    """The first answer that is not empty; asked once more, it may be another one."""
    deadline = time.monotonic() + SECONDS_AT_MOST
    while not (answer := question()):
        assert time.monotonic() < deadline, f"no answer within {SECONDS_AT_MOST} seconds"
        time.sleep(0.01)
    return answer
