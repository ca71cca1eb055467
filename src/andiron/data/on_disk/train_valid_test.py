"""The names of folders and files that say which part of the data is in them."""

import re

PARTS = ("train", "valid", "test")
MEANINGS = {  # of a name without WORDS
    "train": "train", "training": "train", "valid": "valid", "validation": "valid", "val": "valid",
    "dev": "valid", "eval": "valid", "evaluation": "valid", "validate": "valid", "test": "test",
    "testing": "test",
}  # fmt: skip
OTHERS = ", ".join(name for name in MEANINGS if name not in PARTS)
WORDS = re.compile("[^a-z]|set|seg|data|images?")


def part_of(name: str) -> str | None:
    """The part that a name means, such as test for `Test-Images`; None for another name."""
    return MEANINGS.get(WORDS.sub("", name.lower()))
