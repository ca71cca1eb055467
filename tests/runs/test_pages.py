"""README and docs/ say what is there: their Python runs, their commands, links and paths are sound.
"""

import ast
import re
import shlex
from pathlib import Path

import pytest

from andiron.config import diagnosis

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
PAGES = {path.name: path.read_text(encoding="utf-8") for path in sorted(DOCS.glob("*.md"))}
README = "README.md"
ALL = {README: (ROOT / README).read_text(encoding="utf-8"), **PAGES}
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```", flags=re.MULTILINE | re.DOTALL)
OTHERS = {  # each has a test of its own that runs its blocks
    "data.md", "extending.md", "metrics.md", "parameter_groups.md", "records.md", "resuming.md",
    "run_folder.md",
}  # fmt: skip


def blocks(page, language):
    """The blocks of a page in one language."""
    return [block for found, block in BLOCK.findall(ALL[page]) if found == language]


@pytest.mark.parametrize(
    "page", [page for page in ALL if page not in OTHERS and blocks(page, "python")]
)
def test_the_python_of_a_page_runs_from_top_to_bottom(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    names = {}

    for block in blocks(page, "python"):
        exec(compile(block, page, "exec"), names)


def test_every_page_is_in_the_index():
    linked = re.findall(r"^\| \[(\w+\.md)\]\(\1\) \|", PAGES["index.md"], flags=re.MULTILINE)

    assert {*linked} == {*PAGES} - {"index.md"}


def test_every_link_leads_to_a_file():
    links = [
        (page, link)
        for page, text in ALL.items()
        for link in re.findall(r"\]\(([\w./:-]+)\)", text)
        if "://" not in link
    ]

    folders = {page: DOCS if page in PAGES else ROOT for page in ALL}
    assert [(page, link) for page, link in links if not (folders[page] / link).exists()] == []


def test_every_override_in_a_command_is_sound():
    """Shell lines only: run folders stand for the user's own, `--config-dir` for the user's files.
    """
    offenders = []
    for page in ALL:
        for line in "".join(blocks(page, "bash")).replace("\\\n", " ").splitlines():
            command = re.split(r"#|\|\|", line)[0]
            script = re.search(r"(?:train|scripts/plan|scripts/find_lr)\.py", command)
            if script is None or "--config-dir" in command:
                continue
            overrides = [
                word for word in shlex.split(command[script.end() :]) if "=" in word or "~" in word
            ]
            offenders += [
                (page, line, problem)
                for problem in diagnosis.explain(overrides, ROOT / "conf", Exception("sound"))
                if problem != "sound"
            ]

    assert offenders == []


def test_every_script_named_exists():
    named = {
        (page, name)
        for page, text in ALL.items()
        for name in re.findall(r"(?<![\w/])((?:scripts|benchmarks|proofs)/\w+\.py)", text)
    }

    assert [each for each in sorted(named) if not (ROOT / each[1]).is_file()] == []


def test_every_table_of_measurements_names_its_command_and_commit():
    text = PAGES["benchmarks.md"]
    tables = [match.start() for match in re.finditer(r"(?:^\|.*\n)+", text, flags=re.MULTILINE)]

    without = []
    for start in tables:
        paragraph = text[:start].rstrip().rsplit("\n\n", 1)[-1]
        in_table = "| at      |" in text[start : start + 300]
        at_commit = re.search(r"\bat [0-9a-f]{7}\b", paragraph)
        if "python" not in paragraph or not (in_table or at_commit):
            without.append(paragraph)
    assert without == []


def test_imports_of_the_pages_name_what_exists():
    """Import statements of blocks that other tests write to files or leave out."""
    imported = set()
    for page in ALL:
        for block in blocks(page, "python"):
            for node in ast.walk(ast.parse(block)):
                if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("andiron"):
                    imported |= {(node.module, alias.name) for alias in node.names}

    for module, name in sorted(imported):
        exec(f"from {module} import {name}", {})


def test_the_floors_of_contributing_are_those_of_the_architecture_test():
    tree = ast.parse((ROOT / "tests/fast/test_architecture.py").read_text(encoding="utf-8"))
    (floors,) = [
        ast.literal_eval(node.value)
        for node in tree.body
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "FLOORS"
    ]

    shown = re.findall(r"^ ?(\d+)  (.+)$", PAGES["contributing.md"], flags=re.MULTILINE)
    assert [{*names.split(", ")} for _, names in shown] == floors
