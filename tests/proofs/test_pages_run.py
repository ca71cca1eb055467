"""The commands and the Python of README and docs/ run from top to bottom, the ways in at once."""

import os
import re
import resource
import shlex
import shutil
from pathlib import Path

import pytest
from fresh_environment import environment, install, said
from in_process import ran
from pages import ALL, BLOCK, ELSEWHERE, README, ROOT, blocks, commands, run_python
from PIL import Image

from andiron import data
from andiron.__main__ import OF_THE_LAB, others

MNIST = Path(os.environ.get("ANDIRON_DATA_DIR", "data")) / "MNIST" / "raw"
NOT_HERE = {  # commands by their beginnings, with what runs them
    "python3 -m venv": ".ci/run, as they stand, in a fresh clone",
    ".venv/bin/python -m": ".ci/run",
    ".venv/bin/pip install": ".ci/run",
    ".venv/bin/mkdocs": ".ci/run builds the site, tests/proofs/test_documentation_site.py reads it",
    ".venv/bin/tensorboard": "tests/proofs/writers/test_tensorboard_server.py, which ends it too",
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

SECONDS = 60  # of processors: the clock on the wall would count other processes too
SOURCES = (
    "conf", "proofs", "scripts", "src", "setup.cfg", "setup.py", "pyproject.toml", "README.md",
    "LICENSE", "train.py",
)  # fmt: skip


@pytest.fixture
def files_of_a_user(here):
    """The files that the first pages name: pictures by class, pictures with masks, and a table."""
    digits = data.digits(valid=0.1, split_seed=0).train
    for number, (pixels, digit) in enumerate(zip(digits.inputs[:64, 0], digits.targets.tolist())):
        folder = here / "photos" / f"digit {digit}"
        folder.mkdir(parents=True, exist_ok=True)
        Image.fromarray(pixels.numpy() * 15).save(folder / f"{number:02}.png")
        for kind, shown in {"images": pixels * 15, "masks": (pixels > 7).byte()}.items():
            (here / "pics" / kind).mkdir(parents=True, exist_ok=True)
            Image.fromarray(shown.numpy()).save(here / "pics" / kind / f"{number:02}.png")
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


@pytest.mark.usefixtures("here")
def test_the_first_command_prints_what_readme_shows():
    line = blocks(README, "bash")[0].partition("python train.py ")[2]
    shown, printed = (
        re.sub(r"\S*outputs/\S+|[\d.,]+", "#", text).splitlines()
        for text in (blocks(README, "text")[0], ran(ROOT / "train.py", *line.split()).output)
    )
    lines = iter(printed)
    assert [line for line in shown if line != "#" and line not in lines] == []


@pytest.mark.parametrize(
    "page", [page for page in ALL if page not in ELSEWHERE and blocks(page, "python")]
)
def test_the_python_of_a_page_runs_from_top_to_bottom(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    run_python(page)


def doors(page):
    """The blocks of the section, by language."""
    section = re.search(r"^## Three ways in\n(.*?)^## ", ALL[page], re.MULTILINE | re.DOTALL)[1]
    return dict(BLOCK.findall(section)), section


@pytest.fixture
def checkout(here):
    """A checkout with an environment of its own, in the working folder."""
    for name in SOURCES:
        copy = shutil.copytree if (ROOT / name).is_dir() else shutil.copy
        copy(ROOT / name, here / name)
    install(environment(here / ".venv"), "-e", here)
    return here


def seconds_of(*command, cwd):
    """The processor time of a command, with that of its own processes."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    said(*command, cwd=cwd)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


@pytest.mark.slow
@pytest.mark.usefixtures("files_of_a_user")
def test_each_way_in_runs_as_it_stands_within_a_minute(checkout):
    shown, section = doors(README)
    lines = shown["bash"].splitlines()
    (checkout / "mine.py").write_text(shown["python"])
    lines.append(".venv/bin/python mine.py")
    lines += re.findall(r"`(\.venv/bin/andiron new \w+)`", section)
    assert len(lines) == 4
    took = {line: seconds_of("bash", "-c", line, cwd=checkout) for line in lines}
    train = "../.venv/bin/andiron train"  # as docs/commands.md says: started there
    took[train] = seconds_of("bash", "-c", train, cwd=checkout / "mine")
    assert max(took.values()) < SECONDS, took
