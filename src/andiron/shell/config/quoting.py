"""Texts as values on the command line: quoted for Hydra's grammar, and then for the shell."""

import re
import shlex

# a path or a name that Hydra and shells read alike
PLAIN = re.compile(
    r"[\w.@:+-]*/[\w./@:+-]*|(?!(?:null|true|false|nan|inf)\Z)[a-z_][\w.-]*",
    re.ASCII | re.IGNORECASE,
)


def quoted(text: str) -> str:
    r"""Any text as the value of an override.

    >>> print(quoted('say "hi"'), quoted("back\\slash"), quoted("at the end\\"), quoted("${x}"))
    "say \"hi\"" "back\slash" "at the end\\" "\${x}"
    """
    # backslashes are doubled only in front of what they would escape
    escaped = re.sub(r"(\\*)\$\{", r"\1\1\\${", text)
    marked = re.sub(r'(\\*)("|\Z)', lambda match: match[1] * 2 + (match[2] and r"\""), escaped)
    return f'"{marked}"'


def texts(value: str) -> str:
    """A value with its text quoted, or each text of a list.

    >>> print(texts("forêt"), texts("[größe,länge]"))
    "forêt" ["größe","länge"]
    """
    if value[:1] + value[-1:] != "[]":
        return quoted(value)
    return f"[{','.join(quoted(item.strip()) for item in value[1:-1].split(','))}]"


def override(option: str, path: object) -> str:
    """The override of an option by a path, or another text, for Hydra."""
    return f"{option}={quoted(str(path))}"


def remedy(text_override: str) -> str:
    """The remedy for a text that Hydra misreads: its override with the text quoted, for a shell."""
    return f"a text is quoted for Hydra too: {shlex.quote(text_override)}"


def typed(option: str, path: object) -> str:
    """The argument to type in a shell, quoted only if it has to be.

    >>> print(typed("resume", "/runs/a"), typed("resume", "/müller's"))
    resume=/runs/a 'resume="/müller'"'"'s"'
    """
    is_plain = PLAIN.fullmatch(str(path))
    return f"{option}={path}" if is_plain else shlex.quote(override(option, path))
