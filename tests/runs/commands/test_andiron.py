"""`andiron <command>` is each command, and without a command the training."""

import pytest
from in_process import called

import andiron
from andiron import __main__

RUN = ("num_epochs=1", "model.hidden=[8]", "render=plain", "hydra.run.dir=run")


@pytest.mark.parametrize("name", [*__main__.COMMANDS, *__main__.others()])
def test_every_command_shows_its_own_help(here, name, monkeypatch):
    monkeypatch.setattr(andiron, "__path__", [*andiron.__path__])
    ended = called(__main__.main, name, "--help", cwd=here)

    usage = "Usage: python train.py" if name in ("train", "plan") else f"usage: andiron {name} "
    assert ended.code == 0 and usage in ended.output


@pytest.mark.parametrize("first", [(), ("train",)])
def test_a_run_is_trained_and_then_listed(here, first):
    assert called(__main__.main, *first, *RUN, cwd=here).code == 0

    listed = called(__main__.main, "runs", "list", "run", cwd=here)

    assert listed.code == 0 and "run" in listed.output


def test_an_unknown_command_is_refused(here):
    ended = called(__main__.main, "evalute", "latest", cwd=here)

    assert ended.code == 2 and "evalute" in ended.errors
    assert not (here / "outputs").exists()
