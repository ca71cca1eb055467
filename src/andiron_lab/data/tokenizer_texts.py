"""The texts of a tokenizer's tokens, by the package tokenizers, from a tokenizer.json on record."""

import functools
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from andiron import errors
from andiron.data.splitting import fingerprint
from andiron.disk import files
from andiron.recording import keep_arguments

MOST_BYTES = 2**27  # of a tokenizer.json; that of Llama 3 has 17 MB
UNKNOWN = "\N{REPLACEMENT CHARACTER}"
# of byte-level tokenizers: a printable character for each byte
LETTERS = {*map(chr, (*range(33, 127), *range(161, 173), *range(174, 324)))}


@keep_arguments
class TokenizerTexts(Sequence[str]):
    """The vocabulary of a tokenizer.json: the name of each token, and texts as tokens and back.

    Raises: DataError if the file is missing or has another SHA-256, or the package is missing.
    """

    def __init__(self, path: str, sha256: str):
        if not Path(path).is_file() or fingerprint.of_file(Path(path)) != sha256:
            raise errors.DataError(
                f"{path}: is missing, or another tokenizer than the one on record; restore the file"
            )
        self.tokenizer = parsed(Path(path))
        names = self.tokenizer.get_vocab(with_added_tokens=True)
        self._names: dict[int, str] = {number: name for name, number in names.items()}

    def __len__(self) -> int:
        return max(self._names) + 1

    def __getitem__(self, token: Any) -> Any:
        """The name of a token, such as `Ġthe` for a byte-level one; unique."""
        if not -len(self) <= token < len(self):
            raise IndexError(f"token {token} of {len(self)}")
        return self._names.get(token % len(self), f"<{token % len(self)}>")

    def __contains__(self, text: object) -> bool:
        return bool(self.tokenizer.encode(str(text), add_special_tokens=False).ids)

    def encode(self, text: str) -> list[int]:
        """The tokens of a text, without special ones around it.

        Raises: ValueError if there is none.
        """
        tokens: list[int] = self.tokenizer.encode(text, add_special_tokens=False).ids
        if not tokens:
            raise ValueError(f"{text[:40]!r} has no token of this tokenizer; give another text")
        return tokens

    def decode(self, tokens: Sequence[int]) -> str:
        """The text of the tokens, special ones too."""
        text: str = self.tokenizer.decode([*tokens], skip_special_tokens=False)
        return text

    def pieces(self, tokens: Iterator[int], after: Sequence[int] = ()) -> Iterator[str]:
        """The text of the tokens, each piece as soon as its characters are whole.

        `after` stand before them: some decoders drop a space at the beginning of a text.
        """
        from tokenizers.decoders import DecodeStream

        stream = DecodeStream(skip_special_tokens=False)
        for token in after:
            stream.step(self.tokenizer, token)
        for token in tokens:
            yield stream.step(self.tokenizer, token) or ""

    @property
    def bytes_per_token(self) -> list[int]:
        """The number of bytes of each token's text, at least 1; a special token counts as one.

        Exact for byte-level tokenizers; for others, of the token's text alone.
        """
        special = {
            number for number, token in self.tokenizer.get_added_tokens_decoder().items()
            if token.special
        }  # fmt: skip
        return [
            1 if number in special else max(1, self._num_bytes(number))
            for number in range(len(self))
        ]

    def _num_bytes(self, token: int) -> int:
        name = self._names.get(token, "")
        if self._is_byte_level and LETTERS.issuperset(name):
            return len(name)
        return len(self.decode([token]).replace(UNKNOWN, "?").encode())

    @functools.cached_property
    def _is_byte_level(self) -> bool:
        return "ByteLevel" in repr(self.tokenizer.decoder)


def record_of(path: Path, sha256: str) -> dict[str, str]:
    """The facts that name a tokenizer.json: its path and SHA-256."""
    return {"tokenizer_path": str(path.absolute()), "tokenizer_sha256": sha256}


def of_record(record: Any) -> TokenizerTexts:
    """The tokenizer whose path and SHA-256 are among the facts of a data set.

    Raises: DataError as TokenizerTexts.
    """
    return _loaded(record["tokenizer_path"], record["tokenizer_sha256"])


@functools.lru_cache(maxsize=4)
def _loaded(path: str, sha256: str) -> TokenizerTexts:
    return TokenizerTexts(path, sha256)


def parsed(path: Path) -> Any:
    """The tokenizer in a tokenizer.json. Raises: DataError."""
    try:
        from tokenizers import Tokenizer
    except ImportError as error:
        raise errors.DataError(
            f"{path}: the package tokenizers reads it: pip install 'andiron[tokens]'"
        ) from error
    try:
        content = files.read_bytes(path, MOST_BYTES).decode()
    except (OSError, ValueError) as error:
        problem = f"{path}: cannot be read ({error}); name a tokenizer.json"
        raise errors.DataError(problem) from error
    try:
        return Tokenizer.from_str(content)
    except Exception as error:  # the package raises no other class
        raise errors.DataError(
            f"{path}: is no tokenizer.json ({errors.first_line(error)})"
        ) from error
