"""README says what is there: its commands, its paths and its map of the house."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"^```(\w+)\n(.*?)^```", README, flags=re.MULTILINE | re.DOTALL)


def test_the_readme_has_at_most_150_lines():
    assert README.count("\n") <= 150


def test_the_first_two_commands_are_one_line_each_and_set_everything_up():
    train, test = [block for language, block in BLOCKS if language == "bash"][:2]

    for block, requirements in ((train, "requirements.txt"), (test, "requirements-dev.txt")):
        assert block.count("\n") == 1
        assert block.startswith(
            f"python3 -m venv .venv && .venv/bin/pip install -q -r {requirements} && "
        )
    assert train.endswith(".venv/bin/python train.py optimizer=adam lr=1e-3\n")
    assert test.endswith(".venv/bin/python -m pytest -n auto\n")


def test_every_path_named_exists():
    names = set(re.findall(r"(?<![\w/.-])(?:[a-z]+/)*[a-z_-]+\.(?:py|yaml|png|txt|md)\b", README))

    assert len(names) >= 20
    for name in names:
        assert any((ROOT / folder / name).exists() for folder in (".", "src/andiron", "conf")), name


def test_every_folder_of_the_package_is_in_the_map_of_the_house():
    package = ROOT / "src" / "andiron"
    names = {f"{p.name}/" for p in package.iterdir() if p.is_dir() and p.name != "__pycache__"}
    names |= {p.name for p in package.glob("*.py") if p.name != "__init__.py"}

    assert [name for name in sorted(names) if name not in README] == []


@pytest.mark.parametrize("name", ["requirements.txt", "requirements-dev.txt"])
def test_every_requirement_is_pinned_and_says_why(name):
    lines = [
        line
        for line in (ROOT / name).read_text(encoding="utf-8").splitlines()
        if not line.startswith(("#", "-r"))
    ]

    assert lines
    for line in lines:
        assert re.fullmatch(r"[\w-]+(?:\[\w+\])?==[\d.]+ # \S.{10,}", line), line
