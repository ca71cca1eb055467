"""The lab's commands are found, and named where the lab is missing."""

import sys

import pytest

from andiron import __main__
from andiron.plain import wings
from andiron_lab.commands import COMMANDS


def test_the_commands_of_the_lab_are_known_by_name():
    assert [*COMMANDS] == [*__main__.OF_THE_LAB]
    assert not COMMANDS.keys() & __main__.COMMANDS.keys()


@pytest.mark.parametrize("name", __main__.OF_THE_LAB)
def test_a_command_says_how_the_lab_is_installed(name, monkeypatch, capsys):
    monkeypatch.setattr(wings, "LAB", "andiron_lab_that_is_missing")
    monkeypatch.setattr(sys, "argv", ["andiron", name, "run"])

    assert __main__.main() == 2
    assert f"andiron {name} is in the package" in (said := capsys.readouterr().err)
    assert "pip install 'andiron[lab]'" in said
