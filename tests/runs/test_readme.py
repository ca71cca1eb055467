"""README says what is there: its commands, paths, config names and code are those of the repository."""

import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from andiron.config import diagnosis

ROOT = Path(__file__).resolve().parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"^```(\w+)\n(.*?)^```", README, flags=re.MULTILINE | re.DOTALL)
COMMANDS = [line for language, block in BLOCKS if language == "bash" for line in block.splitlines()]
GROUPS = diagnosis.groups(ROOT / "conf")


def test_the_first_two_commands_are_one_line_each_and_set_everything_up():
    train, test = [block for language, block in BLOCKS if language == "bash"][:2]

    for block, requirements in ((train, "requirements.txt"), (test, "requirements-dev.txt")):
        assert block.count("\n") == 1
        assert block.startswith(
            f"python3 -m venv .venv && .venv/bin/pip install -q -r {requirements} && "
        )
    assert train.endswith(".venv/bin/python train.py optimizer=adam lr=1e-3\n")
    assert test.endswith(".venv/bin/python -m pytest -n auto\n")


def test_every_override_in_a_command_is_sound():
    for command in COMMANDS:
        if "train.py" in command:
            overrides = shlex.split(command.split("train.py")[1])
            assert not [
                line
                for line in diagnosis.explain(overrides, ROOT / "conf", Exception("sound"))
                if line != "sound"
            ]


def test_every_table_row_of_choices_is_the_folder_of_the_group():
    rows = dict(re.findall(r"^\| `(\w+)` \| (.*?) \|$", README, flags=re.MULTILINE))

    assert set(rows) == set(GROUPS)
    for group, text in rows.items():
        named = set(re.findall(r"`(\w+)`", text)) - {"null", "ANDIRON_DATA_DIR", "lr"}
        assert named == set(GROUPS[group]), group


def test_every_path_named_exists():
    walk = re.findall(
        r"^(?:src/andiron/)?((?:data|learner|tasks|metrics|checkpoint)/(?:\w+\.py)?)  ",
        README,
        flags=re.M,
    )
    house = re.findall(r"(?<![\w/.-])(?:[a-z]+/)*[a-z_-]+\.(?:py|yaml|png|txt)\b", README)

    assert len(walk) >= 8 and len(house) >= 20
    for name in {*walk, *house}:
        assert any((ROOT / folder / name).exists() for folder in (".", "src/andiron", "conf")), name


def test_every_folder_of_the_package_is_in_the_map_of_the_house():
    package = ROOT / "src" / "andiron"
    names = {f"{p.name}/" for p in package.iterdir() if p.is_dir() and p.name != "__pycache__"}
    names |= {p.name for p in package.glob("*.py") if p.name != "__init__.py"}

    assert [name for name in sorted(names) if name not in README] == []


def test_every_file_a_run_leaves_is_named():
    for name in ("config.json", "provenance.json", "param_groups.json", "metrics.jsonl", "tensorboard/", "experiment.log",
                 "status.json", "checkpoints/", "model.safetensors", "summary.json", ".hydra/"):  # fmt: skip
        assert name in README


def test_the_mistakes_shown_are_the_mistakes_told():
    shown = re.search(
        r"^\$ python train.py (optimizer=adamm .*)\n.*\n((?:  .*\n)+)", README, flags=re.MULTILINE
    )

    told = diagnosis.explain(shlex.split(shown[1]), ROOT / "conf", Exception())
    assert told == [line.strip() for line in shown[2].splitlines()]


def test_the_code_runs_as_it_stands(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (code,) = [block for language, block in BLOCKS if language == "python"]

    exec(compile(code, "README.md", "exec"), {})

    lines = capsys.readouterr().out.splitlines()
    assert [line[:9] for line in lines if line.startswith("epoch")] == [
        "epoch 1/3",
        "epoch 2/3",
        "epoch 3/3",
    ]
    assert (tmp_path / "outputs" / "by-hand" / "summary.json").is_file()


def test_every_measured_table_stands_beside_its_command():
    measured = README.split("## Measured")[1].split("\n## ")[0]

    for script in re.findall(r"benchmarks/\w+\.py", measured):
        assert (ROOT / script).is_file()
    assert measured.count("benchmarks/") >= 3


@pytest.mark.parametrize("name", ["requirements.txt", "requirements-dev.txt"])
def test_every_requirement_is_pinned_and_says_why(name):
    lines = [
        line
        for line in (ROOT / name).read_text(encoding="utf-8").splitlines()
        if not line.startswith(("#", "-r"))
    ]

    assert lines
    for line in lines:
        assert re.fullmatch(r"[\w-]+==[\d.]+ # \S.{10,}", line), line


@pytest.mark.slow
def test_the_table_of_groups_is_what_the_command_over_it_prints(tmp_path):
    overrides = shlex.split(
        next(line for line in COMMANDS if line.endswith("param_groups=muon")).split("train.py")[1]
    )
    command = [
        sys.executable,
        ROOT / "train.py",
        *overrides,
        "num_epochs=1",
        f"hydra.run.dir={tmp_path}",
        "render=plain",
    ]
    printed = subprocess.run(
        command, capture_output=True, text=True, check=True, timeout=240
    ).stdout

    (table,) = [
        block for language, block in BLOCKS if language == "text" and block.startswith("┏━━━━━━━━┳")
    ]
    assert table in printed
