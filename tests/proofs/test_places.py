"""Every command that writes or deletes, at every kind of place, as proofs/places.md shows it."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from proofs import place_table, places

pytestmark = pytest.mark.usefixtures("preloaded_processes")
ROOT = Path(__file__).resolve().parents[2]
STEP = 13  # of 826 pairs, which take four minutes; every kind and every command is among them


def test_commands_change_only_what_was_named_and_end_as_the_page_says():
    ended = subprocess.run(
        [sys.executable, "-m", "proofs.places", "--check", "--step", str(STEP)],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT / "src")},
        capture_output=True,
        text=True,
    )
    assert ended.returncode == 0, ended.stdout + ended.stderr
    assert ended.stdout.endswith(", 0 with a fault\n")


def test_the_page_has_a_word_for_every_place_and_command():
    words = place_table.words_of(place_table.on_page())

    assert [pair for pair in NAMES if words.get(pair, places.FAULT) == places.FAULT] == []
    assert words.keys() == set(NAMES)


def test_the_slice_has_every_kind_and_every_command():
    chosen = NAMES[::STEP]

    for part in (0, 1):
        assert {names[part] for names in chosen} == {names[part] for names in NAMES}


NAMES = [(kind.name, command.name) for kind, command in places.pairs()]
