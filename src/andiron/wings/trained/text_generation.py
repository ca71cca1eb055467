"""Text that a trained language model continues, piece by piece.

>>> import torch
>>> from andiron.models import GPT
>>> from andiron.tasks import LanguageModel
>>> network = GPT(2, 8, layers=1, heads=1, dim=4)
>>> model = LanguageModel(network, vocabulary=["a", "é"], prompt="a")
>>> len("".join(pieces(model, "aé", 20)))
20
"""

import codecs
from collections.abc import Iterator, Sequence

from torch import nn

from andiron import errors
from andiron.plain.token_texts import BYTES, Tokenizer, Vocabulary, encoded, start_of
from andiron.tasks.language import LanguageModel


def pieces(
    model: nn.Module,
    prompt: str,
    length: int,
    *,
    temperature: float = 1.0,
    top_k: int | None = None,
    seed: int = 0,
) -> Iterator[str]:
    """The text of the next `length` tokens after `prompt`, each piece as soon as it is known.

    A character of several bytes comes whole; invalid UTF-8 becomes replacement characters.
    A network without `stream` gives all at once. The same seed gives the same tokens.
    Raises: DataError if the model generates no text, or the settings or the prompt do not fit it.
    """
    task = _of_text(model)
    if length < 0:
        raise errors.DataError(f"length={length}: should be 0 tokens or more")
    if not -(2**63) <= seed < 2**64:  # torch's
        raise errors.DataError(f"seed={seed}: should be a whole number of 64 bits")
    try:
        start = encoded(prompt, task.vocabulary)
        tokens = task.continued(start, length, seed, temperature=temperature, top_k=top_k)
        yield from _texts(tokens, start, task.vocabulary)
    except ValueError as error:
        raise errors.DataError(str(error)) from error


def usual_prompt(model: nn.Module) -> str:
    """A line break, or the first character of a vocabulary without one; raises as `pieces`."""
    return start_of(_of_text(model).vocabulary)


def _of_text(model: nn.Module) -> LanguageModel:
    if not isinstance(model, LanguageModel):
        problem = f"{type(model).__name__} generates no text"
        raise errors.DataError(f"{problem}; choose a run with task=language_model")
    if not model.has_generate:
        problem = f"{type(model.network).__name__} has no generate(tokens, number, ...)"
        raise errors.DataError(f"{problem}; add one, as andiron.models.GPT has")
    if not model.has_text:
        raise errors.DataError("the data did not give the text of its tokens, only their lengths")
    return model


def _texts(
    tokens: Iterator[int], start: Sequence[int], vocabulary: Vocabulary
) -> Iterator[str]:
    if isinstance(vocabulary, Tokenizer):
        yield from vocabulary.pieces(tokens, start)
        return
    number = BYTES if vocabulary is None else len(vocabulary)
    decoder = codecs.getincrementaldecoder("utf-8")(errors="replace")
    for token in tokens:
        if token >= number:
            raise ValueError(f"token {token} was drawn, and {number} tokens have a known text")
        yield decoder.decode(bytes([token])) if vocabulary is None else vocabulary[token]
    yield decoder.decode(b"", final=True)
