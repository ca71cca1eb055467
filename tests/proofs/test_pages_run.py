"""The commands and the Python of README and docs/ run from top to bottom."""

import os
import shlex
from pathlib import Path

import pytest
from in_process import ran
from pages import ALL, ELSEWHERE, ROOT, blocks, commands
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


@pytest.mark.parametrize(
    "page", [page for page in ALL if page not in ELSEWHERE and blocks(page, "python")]
)
def test_the_python_of_a_page_runs_from_top_to_bottom(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    names = {}

    for block in blocks(page, "python"):
        exec(compile(block, page, "exec"), names)
