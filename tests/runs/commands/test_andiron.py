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

    is_hydras = name in ("train", "plan")
    usage = "Usage: andiron train [" if is_hydras else f"usage: andiron {name} "
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


def test_alone_it_lists_the_commands_for_people(here, monkeypatch):
    monkeypatch.delenv("RANK", raising=False)
    listed = called(__main__.main, cwd=here)

    assert listed.code == 0 and listed == called(__main__.main, "help", cwd=here)
    lines = listed.output.splitlines()
    assert len(lines) <= 30 and max(map(len, lines)) <= 100
    names = {*__main__.COMMANDS, *__main__.others()}
    assert names <= {line.split()[0] for line in lines if line.startswith("  ")}
    assert called(__main__.main, "version", cwd=here).output == f"andiron {andiron.__version__}\n"
    of_runs = called(__main__.main, "help", "runs", cwd=here)
    assert of_runs == called(__main__.main, "runs", "--help", cwd=here)
    assert not (here / "outputs").exists()
