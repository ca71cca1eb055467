"""Docstrings, messages, help texts and names of tests use nouns of the field, not a dialect of
pronouns."""

import ast
import re
from pathlib import Path


ROOT = Path(__file__).resolve().parents[2]
PHRASES = (  # write the noun, or the verb of the field, instead
    "those of", "that which", "the one that", "what it is", "that is none", "so many", "at most so",
    "is said of", "is told to", "last words", "way back", "is no number", "goes on", "kept aside",
    "taken up again", "whatever it holds", "told", "what it said",
)  # fmt: skip
FOLDERS = ("src", "tests", "proofs")
UNNAMED = {"each", "found"}  # variables that do not say what they hold
BEGINNINGS = re.compile(r"(The same|Its|As)\b")  # of docstrings, before the subject
# a source without a match has no unwanted text: most are not parsed, which takes seconds
SUSPECTED = re.compile(
    rf"{'|'.join(PHRASES)}|[\"']\s*(What|Whatever)\b".replace(" ", r"[\W_f]+"), re.IGNORECASE
)
UNWANTED = re.compile(rf"\b({'|'.join(PHRASES)})\b|\A(?-i:What|Whatever)\b", re.IGNORECASE)


def texts_of(source: str) -> list[tuple[int, str]]:
    """The texts in a module, with their lines; values in an f-string are left out."""
    nodes = list(ast.walk(ast.parse(source)))
    inner = {id(part) for node in nodes if isinstance(node, ast.JoinedStr) for part in node.values}
    texts = [
        (node.lineno, node.value)
        for node in nodes
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in inner
    ]
    for node in nodes:
        if isinstance(node, ast.JoinedStr):
            parts = [part.value if isinstance(part, ast.Constant) else "_" for part in node.values]
            texts.append((node.lineno, "".join(parts)))
    return texts


def names_of_tests(source: str) -> list[tuple[int, str]]:
    """The names of tests in a module as sentences, with their lines."""
    return [
        (node.lineno, node.name.removeprefix("test_").replace("_", " "))
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.FunctionDef) and node.name.startswith("test_")
    ]


def unnamed_in(tree: ast.Module) -> list[tuple[int, str]]:
    """The variables and arguments of a module that have a name of `UNNAMED`, with their lines.

    Fields of classes are left out: a record may have such a name for readers of JSON.
    """
    classes = [node for node in ast.walk(tree) if isinstance(node, ast.ClassDef)]
    lines = [line for node in classes for line in node.body if isinstance(line, ast.AnnAssign)]
    fields = [line.target for line in lines]
    nodes = [node for node in ast.walk(tree) if isinstance(node, ast.Name | ast.arg)]
    stored = [node for node in nodes if node not in fields]
    names = [(node.lineno, node.id if isinstance(node, ast.Name) else node.arg) for node in stored]
    return [(line, name) for line, name in names if name in UNNAMED]


def beginnings_in(tree: ast.Module) -> list[tuple[int, str]]:
    """The docstrings of a module that do not begin with their subject, with their lines."""
    kinds = ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef
    documented = [node for node in ast.walk(tree) if isinstance(node, kinds)]
    texts = [(getattr(node, "lineno", 1), ast.get_docstring(node) or "") for node in documented]
    return [(line, match[0]) for line, text in texts if (match := BEGINNINGS.match(text))]


def unwanted_in(text: str) -> str | None:
    match = UNWANTED.search(" ".join(text.split()))
    return match and match[0]


def test_docstrings_messages_and_names_of_tests_name_the_thing():
    sources = {
        path: path.read_text(encoding="utf-8")
        for folder in FOLDERS
        for path in sorted((ROOT / folder).rglob("*.py"))
        if path != Path(__file__)  # which quotes the phrases
    }
    offenders = [
        f"{path.relative_to(ROOT)}:{line}: {phrase!r}"
        for path, source in sources.items()
        if SUSPECTED.search(source)
        for line, text in [*texts_of(source), *names_of_tests(source)]
        if (phrase := unwanted_in(text))
    ]
    assert not offenders, "\n".join(offenders)


def test_variables_say_what_they_hold_and_docstrings_begin_with_their_subject():
    offenders = []
    for folder in FOLDERS:
        for path in sorted((ROOT / folder).rglob("*.py")):
            source = path.read_text(encoding="utf-8")
            if re.search(rf"\b({'|'.join(UNNAMED)})\b|\"\"\"(The same|Its|As)\b", source):
                tree = ast.parse(source)
                lines = [*unnamed_in(tree), *beginnings_in(tree)]
                offenders += [f"{path.relative_to(ROOT)}:{line}: {text!r}" for line, text in lines]
    assert not offenders, "\n".join(offenders)


def test_help_and_comments_of_options_name_the_thing():
    offenders = [
        f"{path.relative_to(ROOT)}:{number}: {phrase!r}"
        for path in sorted((ROOT / "conf").rglob("*.yaml"))
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1)
        if (phrase := unwanted_in(line))
    ]
    assert not offenders, "\n".join(offenders)
