"""README and docs/: their Python and their commands run, their links and paths lead somewhere."""

import ast
import configparser
import os
import re
import shlex
from pathlib import Path

import pytest
import yaml
from in_process import ran
from PIL import Image

from andiron import data
from andiron.__main__ import COMMANDS, OF_THE_LAB, others
from andiron.shell.config import diagnosis

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
PAGES = {path.name: path.read_text(encoding="utf-8") for path in sorted(DOCS.glob("*.md"))}
README = "README.md"
MNIST = Path(os.environ.get("ANDIRON_DATA_DIR", "data")) / "MNIST" / "raw"
ALL = {README: (ROOT / README).read_text(encoding="utf-8"), **PAGES}
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```", flags=re.MULTILINE | re.DOTALL)
ELSEWHERE = {  # pages whose blocks a test of their own runs
    "ask_a_run.md": "tests/lab/test_ask_page.py",
    "clusters.md": "tests/proofs/test_clusters_page.py",
    "data.md": "tests/fast/data/test_data_page.py",
    "distributed.md": "tests/proofs/test_several_processes.py",
    "forking.md": "tests/proofs/commands/test_fork_command.py",
    "extending.md": "tests/proofs/test_extending.py",
    "from_burn.md": "tests/runs/test_from_burn_page.py",
    "from_timm.md": "tests/proofs/test_pretrained_pages.py",
    "from_transformers.md": "tests/proofs/test_pretrained_pages.py",
    "metrics.md": "tests/fast/metrics/test_metrics_page.py",
    "observers.md": "tests/runs/test_observers_page.py",
    "optuna.md": "tests/proofs/test_search.py",
    "parameter_groups.md": "tests/proofs/test_parameter_groups_page.py",
    "own_batches.md": "tests/proofs/data/test_own_batches.py",
    "race.md": "tests/lab/test_race_command.py",
    "records.md": "tests/fast/serialization/test_records_page.py",
    "resuming.md": "tests/proofs/test_run_pages.py",
    "run_folder.md": "tests/proofs/test_run_pages.py",
    "export.md": "tests/runs/trained/test_using_a_run_page.py",
    "text.md": "tests/runs/trained/test_using_a_run_page.py",
    "tutorial.md": "tests/proofs/trained/test_tutorial.py",
    "using_a_run.md": "tests/runs/trained/test_using_a_run_page.py",
}
NOT_HERE = {  # commands by their beginnings, with what runs them
    "python3 -m venv": ".ci/run, as they stand, in a fresh clone",
    ".venv/bin/python -m": ".ci/run",
    ".venv/bin/pip install": ".ci/run",
    ".venv/bin/mkdocs": ".ci/run builds the site, tests/proofs/test_documentation_site.py reads it",
    ".venv/bin/tensorboard": "tests/proofs/writers/test_tensorboard_server.py, which ends it too",
    "source .venv/bin/activate": "tests/runs/test_completion.py",
    'eval "$(python train.py -sc install=bash)"': "tests/runs/test_completion.py",
    "python proofs/trace.py": "tests/runs/test_batch_walk.py, without the checks of types",
}
SHORTER = {  # by an override of a command: what makes it short enough, given after its own
    "--help": (),
    "debug=true": (),
    "resume=latest": ("num_epochs=2",),
    "plan": (),
    "data=mnist": ("num_updates=3",),
    "param_groups=muon": ("num_updates=1",),  # an update takes seconds on a CPU
    "num_updates=5000": ("num_updates=3",),
    "train.py": ("num_epochs=1",),
}


def blocks(page, language):
    """The blocks of a page in one language."""
    return [block for result, block in BLOCK.findall(ALL[page]) if result == language]


def commands(page):
    """The lines of the shell blocks of a page, continued lines joined."""
    return "".join(blocks(page, "bash")).replace("\\\n", " ").splitlines()


@pytest.fixture
def files_of_a_user(here):
    """The files that the first pages name: pictures in a folder for each class, and a table."""
    digits = data.digits(valid=0.1, split_seed=0).train
    for number, (pixels, digit) in enumerate(zip(digits.inputs[:60, 0], digits.targets.tolist())):
        folder = here / "photos" / f"digit {digit}"
        folder.mkdir(parents=True, exist_ok=True)
        Image.fromarray(pixels.numpy() * 15).save(folder / f"{number:02}.png")
    rows = (f"{number % 7}.5,{number % 3},{'ab'[number % 2]}\n" for number in range(60))
    (here / "flowers.csv").write_text("length,petals,species\n" + "".join(rows))


@pytest.mark.usefixtures("files_of_a_user")
@pytest.mark.parametrize("page", [page for page in ALL if page not in ELSEWHERE and commands(page)])
def test_the_commands_of_a_page_run_from_top_to_bottom(page, here):
    for line in commands(page):
        if line.startswith(tuple(NOT_HERE)):
            continue
        _, script, *arguments = shlex.split(line)
        if "data=mnist" in arguments and not MNIST.is_dir():
            continue
        if {*arguments[:1]} & {*OF_THE_LAB} - others().keys():
            pytest.skip("needs andiron_lab")
        words = (script, *arguments)
        shorter = next((more for word, more in SHORTER.items() if word in words), ())

        ended = ran(ROOT / script, *arguments, *shorter)
        assert ended.code == 0, (line, ended.errors)


def test_each_page_with_blocks_of_its_own_tests_is_named_there():
    for page, test in ELSEWHERE.items():
        if test.startswith("tests/lab") and not (ROOT / "tests" / "lab").is_dir():
            continue
        assert page in (ROOT / test).read_text(encoding="utf-8"), test


@pytest.mark.parametrize(
    "page", [page for page in ALL if page not in ELSEWHERE and blocks(page, "python")]
)
def test_the_python_of_a_page_runs_from_top_to_bottom(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    names = {}

    for block in blocks(page, "python"):
        exec(compile(block, page, "exec"), names)


def test_the_first_page_lists_every_page_in_the_sections_of_the_site():
    listed, section = {}, None
    for heading, page in re.findall(
        r"^(?:## (.+)|\| \[[\w ]+\]\((\w+\.md)\) \|.*)$", PAGES["index.md"], flags=re.MULTILINE
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
