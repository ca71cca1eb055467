"""Docstrings and comments of fields as the API reference shows them, read without importing torch."""

import re
from typing import Any

from griffe import Attribute, Docstring, Extension, Object

DOCTEST = re.compile(r"^ *>>> .*(?:\n.+)*", flags=re.MULTILINE)
LABEL = re.compile(r"^(Raises|Source): ", flags=re.MULTILINE)
COMMENT = re.compile(r"^[^#]+  # (.+)$")


def as_markdown(docstring: str) -> str:
    """Examples as code blocks; what is raised, and the source, as paragraphs of their own."""
    labelled = LABEL.sub(r"\n**\1:** ", docstring)
    return DOCTEST.sub(lambda example: f"```pycon\n{dedented(example[0])}\n```", labelled)


def dedented(example: str) -> str:
    """The lines of an example without the indentation of its first line."""
    indent = len(example) - len(example.lstrip())
    return "\n".join(line[indent:] for line in example.splitlines())


class Docstrings(Extension):
    """Prepares every docstring, and takes the comment beside a field as its docstring."""

    def on_attribute(self, *, attr: Attribute, **_: Any) -> None:
        """The comment at the end of the field's line."""
        found = COMMENT.match(attr.source)
        if attr.docstring is None and attr.parent.is_class and found:
            attr.docstring = Docstring(found[1], parent=attr)

    def on_object(self, *, obj: Object, **_: Any) -> None:
        """The docstring of any object."""
        if obj.docstring is not None:
            obj.docstring.value = as_markdown(obj.docstring.value)
