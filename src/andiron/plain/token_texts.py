"""Texts as tokens and back: characters of a vocabulary, bytes, or by a tokenizer.

>>> decoded(encoded("to be", None))
'to be'
>>> decoded([1, 0, 1], vocabulary=["an", "b"])
'banb'
"""

from collections.abc import Iterator, Sequence
from typing import Protocol, runtime_checkable

BYTES = 256  # the tokens there are without a vocabulary
Vocabulary = Sequence[str] | None  # the text of each token; None: bytes


@runtime_checkable
class Tokenizer(Protocol):
    """A vocabulary whose texts are not divided, or joined, token by token."""

    def encode(self, text: str) -> list[int]: ...

    def decode(self, tokens: Sequence[int]) -> str: ...

    def pieces(self, tokens: Iterator[int], after: Sequence[int] = ()) -> Iterator[str]: ...


def decoded(tokens: Sequence[int], vocabulary: Vocabulary = None) -> str:
    """The text of the tokens; without a `vocabulary` of their texts, a token is a byte."""
    if isinstance(vocabulary, Tokenizer):
        return vocabulary.decode(tokens)
    if vocabulary is not None:
        return "".join(vocabulary[token] for token in tokens)
    return bytes(tokens).decode(errors="replace")


def start_of(vocabulary: Vocabulary) -> str:
    """A line break, or the first character of a vocabulary that has none."""
    return "\n" if vocabulary is None or "\n" in vocabulary else vocabulary[0]


def encoded(text: str, vocabulary: Vocabulary, name: str = "prompt") -> list[int]:
    """The tokens of a text.

    Raises: ValueError with its `name` and the characters that the vocabulary lacks, or for no text.
    """
    if not text:
        raise ValueError(f"{name}: should have at least one character, such as a line break")
    if vocabulary is None:
        return [*text.encode()]
    if isinstance(vocabulary, Tokenizer):
        return vocabulary.encode(text)
    numbers = {token: number for number, token in enumerate(vocabulary)}
    unknown = sorted({*text} - numbers.keys())
    if unknown:
        raise ValueError(
            f"{name}={text[:40]!r}: the vocabulary has no {', '.join(map(repr, unknown[:10]))}; "
            "use characters that it has"
        )
    return [numbers[character] for character in text]
