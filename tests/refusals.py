"""The words with which a call is refused."""

from collections.abc import Callable

import pytest


def message_of(
    kind: type[Exception], call: Callable[..., object], /, *arguments, **options
) -> str:
    """The message of the error of this class that the call raises; without one the test fails."""
    with pytest.raises(kind) as raised:
        call(*arguments, **options)
    return str(raised.value.args[0] if isinstance(raised.value, KeyError) else raised.value)


def lacking(words: str, message: str) -> list[str]:
    """The parts of `words`, divided by ` ... `, that the message has not: none if it is right."""
    return [part for part in words.split(" ... ") if part not in message]
