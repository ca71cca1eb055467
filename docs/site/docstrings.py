"""What the reference of the Python modules shows, read from src without importing it."""

import ast
import re
from typing import Any

from griffe import Attribute, Docstring, ExprCall, Extension, Object

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
    """Prepares every docstring, and describes fields by what stands beside them."""

    def on_attribute_instance(self, *, attr: Attribute, **_: Any) -> None:
        """`option(default, meaning)` of LearnerOptions: the default, and the meaning."""
        if isinstance(attr.value, ExprCall) and str(attr.value.function) == "option":
            attr.value, meaning, *_rest = attr.value.arguments
            attr.docstring = Docstring(ast.literal_eval(str(meaning)), parent=attr)

    def on_attribute(self, *, attr: Attribute, **_: Any) -> None:
        """The comment at the end of the line of a field or a type."""
        found = COMMENT.match(attr.source)
        if attr.docstring is None and found and not attr.name.isupper():
            attr.docstring = Docstring(found[1], parent=attr)

    def on_object(self, *, obj: Object, **_: Any) -> None:
        """Any object: its docstring, without the labels that every attribute has."""
        obj.labels -= {"class-attribute", "instance-attribute", "module-attribute"}
        if obj.docstring is not None:
            obj.docstring.value = as_markdown(obj.docstring.value)
