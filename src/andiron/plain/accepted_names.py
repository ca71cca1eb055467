"""Names that another tool or a file system accepts, made from a user's texts.

>>> name = AcceptedNames("the tool", "[<>]", most=20)
>>> name("30"), name("<30"), name(">30"), name("a long name of a class")
('30', '_30-e20213f6', '_30-e2f1750d', 'a long name-05173aa9')
"""

import hashlib
import logging
import re

MARK = 8  # hexadecimal digits: 1,000 names that are alike but for refused signs stay apart
log = logging.getLogger("andiron")


class AcceptedNames:
    """Makes names for `place` from texts, which stay different, and logs each change once.

    A text with a match of `refused`, or of more than `most` letters, gets a checksum: the same in
    every process, so that a resumed run continues its names.
    """

    def __init__(self, place: str, refused: str, most: int = 10**9):
        self._place, self._refused, self._most = place, re.compile(refused), most
        self._names: dict[str, str] = {}

    def __call__(self, text: str) -> str:
        """The name of a text."""
        if text not in self._names:
            self._names[text] = name = self._made(text)
            if name != text:
                log.info("%s: %r is named %r", self._place, text, name)
        return self._names[text]

    def _made(self, text: str) -> str:
        like = self._refused.sub("_", text)
        if like == text and len(text) <= self._most:
            return text
        mark = hashlib.sha256(text.encode(errors="surrogatepass")).hexdigest()[:MARK]
        return f"{like[: self._most - MARK - 1]}-{mark}"
