"""README and docs/: links, paths, scripts, overrides and imports that they name exist."""

import ast
import configparser
import importlib
import pkgutil
import re
import shlex

import pytest
import yaml
from pages import ALL, DOCS, ELSEWHERE, PAGES, README, ROOT, blocks, commands

from andiron import outputs, protocols, tasks
from andiron.__main__ import COMMANDS, OF_THE_LAB, others
from andiron.wings.explain import mistakes

masks = pytest.importorskip("andiron_lab.masks", reason="the pages name what is in both packages")
adversarial = importlib.import_module("andiron_lab.adversarial")


def test_each_page_with_blocks_of_its_own_tests_is_named_there():
    for page, test in ELSEWHERE.items():
        if test.startswith("tests/lab") and not (ROOT / "tests" / "lab").is_dir():
            continue
        assert page in (ROOT / test).read_text(encoding="utf-8"), test


def test_the_first_page_lists_every_page_in_the_sections_of_the_site():
    listed, section = {}, None
    for heading, page in re.findall(
        r"^(?:## (.+)|- \[[\w ]+\]\((\w+\.md)\): .*)$", PAGES["index.md"], flags=re.MULTILINE
    ):
        section = heading or section
        if page:
            listed.setdefault(section, []).append(page)

    first, *sections = yaml.safe_load((DOCS / "site" / "mkdocs.yml").read_text("utf-8"))["nav"]
    shown = {name: pages for section in sections for name, pages in section.items()}
    assert {*sum(listed.values(), [*first.values()])} == {*PAGES}
    assert {name: [page for page in shown[name] if page in PAGES] for name in listed} == listed


def test_the_first_page_begins_with_the_command_and_the_output_of_readme():
    (output,) = blocks("index.md", "text")
    doors = re.compile(r"^## Three ways in\n(.*?)^## ", re.MULTILINE | re.DOTALL)
    (in_readme,), (in_index,) = (doors.findall(ALL[page]) for page in (README, "index.md"))

    assert blocks("index.md", "bash")[0] == blocks(README, "bash")[0]
    assert blocks(README, "text")[0].startswith(output)
    assert in_readme.replace("](docs/", "](") == in_index


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
    """Of pages whose commands are not run above: run folders stand for the user's own,
    `--config-dir` for the user's files.
    """
    offenders = []
    for page in ELSEWHERE:
        for line in commands(page):
            command = re.split(r"#|\|\|", line)[0]
            script = re.search(r"train\.py|andiron\.py (?:plan|find-lr)", command)
            if script is None or "--config-dir" in command or command.startswith("eval "):
                continue
            overrides = [
                word for word in shlex.split(command[script.end() :]) if "=" in word or "~" in word
            ]
            for run, choices in BEGUN.items():
                overrides += choices if f"resume={run}" in overrides else ()
            offenders += [
                (page, line, problem)
                for problem in mistakes.explain(overrides, ROOT / "conf", Exception("sound"))
                if problem != "sound"
            ]

    assert offenders == []


def test_every_script_named_exists():
    named = {
        (page, name)
        for page, text in ALL.items()
        for name in re.findall(r"(?<![\w/])((?:scripts|benchmarks|proofs)/\w+\.py)", text)
    }

    assert [value for value in sorted(named) if not (ROOT / value[1]).is_file()] == []


def test_one_program_is_installed_and_the_page_lists_its_commands():
    listed = re.findall(r"(?m)^\| `andiron ([\w-]+)` \|", PAGES["commands.md"])
    configured = configparser.ConfigParser()
    configured.read(ROOT / "setup.cfg", encoding="utf-8")
    programs = configured["options.entry_points"]["console_scripts"].strip()
    assert programs == "andiron = andiron.__main__:main"

    assert {*listed} == {*COMMANDS, *others(), *OF_THE_LAB}


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
        if not module.startswith("andiron_lab") or others():
            exec(f"from {module} import {name}", {})


def test_the_floors_of_contributing_equal_the_architecture_test():
    tree = ast.parse((ROOT / "tests/fast/test_architecture.py").read_text(encoding="utf-8"))
    (floors,) = [
        ast.literal_eval(node.value)
        for node in tree.body
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "FLOORS"
    ]

    shown = re.findall(r"^ ?(\d+)  (.+)$", PAGES["contributing.md"], flags=re.MULTILINE)
    assert [{*names.split(", ")} for _, names in shown] == floors


NAMED = re.compile(r"(?<![\w./-])andiron(?:_lab)?(?:\.[A-Za-z_]\w*)+(?![\w.]*/)")
ITEMS = re.compile(r"`([A-Z]\w*Output)`")
# the choices of runs that a page resumes
BEGUN = {"runs/mixed": ("data=mixture", "data.parts={}", "data.weights={}")}
INVENTED = {"contributing.md": {"andiron.x"}, "wrong_input.md": {"andiron.models.MPL"}}


def is_importable(name):
    """Whether a dotted name is a module, or an attribute inside one."""
    module, _, attribute = name.rpartition(".")
    try:
        importlib.import_module(name)
        return True
    except ModuleNotFoundError:
        is_inside = bool(module) and is_importable(module)
        return is_inside and hasattr(pkgutil.resolve_name(module), attribute)


def test_what_a_page_names_can_be_imported():
    unknown = {
        (page, name)
        for page, text in ALL.items()
        for name in {*NAMED.findall(text)} - INVENTED.get(page, set())
        if not name.endswith((".py", ".md", ".txt", ".json", ".log", ".yaml"))
        and not is_importable(name)
    }
    items = {*dir(outputs), *dir(protocols), *dir(tasks), *dir(masks), *dir(adversarial)}
    unknown |= {(page, name) for page, text in ALL.items() for name in ITEMS.findall(text)
                if name not in items}  # fmt: skip
    assert not unknown
