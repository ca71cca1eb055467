"""Commands whose output is their result: none ends with 0 if it could not be printed."""

import contextlib
import functools
import os
from pathlib import Path

import pytest
import torch
from PIL import Image

from andiron.shell.training import train
from andiron.wings.runs import (
    accept_changes, check, command as runs, editor_schema, new_project, plan,
)  # fmt: skip
from andiron.wings.screen import watch
from andiron.wings.trained import evaluate, generate, import_state_dict, predict
from andiron.wings.trained.exports import export
from in_process import called
from proofs.lab_parts import (
    bisect, differ, find_lr, ideas, recheck, replay, rerun, samples, seeds, verify_resume,
)  # fmt: skip
from runs_made import TEXT

FULL = Path("/dev/full")
SMALL = ("model.hidden=[8]", "num_epochs=1", "data=partial", "render=plain")
COMMANDS = {
    "predict": (predict.main, "RUN", "picture.png"),
    "predict --json": (predict.main, "RUN", "picture.png", "--json"),
    "evaluate": (evaluate.main, "RUN"),
    "evaluate --json": (evaluate.main, "RUN", "--json"),
    "export": (export.main, "RUN", "--format", "safetensors", "--output", "OUTPUT"),
    "plan": (plan.main, "hydra.run.dir=plan"),
    "runs list": (runs.main, "list", "RUN"),
    "runs list --json": (runs.main, "list", "RUN", "--json"),
    "runs show": (runs.main, "show", "RUN"),
    "runs compare": (runs.main, "compare", "RUN"),
    "runs best": (runs.main, "best", "RUN"),
    "runs diff": (runs.main, "diff", "RUN", "RUN"),
    "samples": (samples.main, "MADE/small", "--update", "1"),
    "recheck": (recheck.main, "MADE/small", "--from-start"),
    "watch --once": (watch.main, "RUN", "--once"),
    **{
        f"{name} --json": (main, *arguments, "--json")
        for name, (main, *arguments) in {
            "check": (check.main, "num_epochs=1"),
            "check an error": (check.main, "num_epochs=two"),
            "export": (export.main, "RUN", "--format", "safetensors", "--output", "OUTPUT"),
            "plan": (plan.main, "hydra.run.dir=plan"),
            "runs show": (runs.main, "show", "RUN"),
            "runs compare": (runs.main, "compare", "RUN"),
            "watch": (watch.main, "RUN"),
            "find-lr": (find_lr.main, *SMALL, "--updates", "12", "hydra.run.dir=OUTPUT"),
            "generate": (generate.main, "MADE/text", "--length", "3"),
            "differ": (differ.main, "MADE/small", "RUN", "--metric", "valid/loss"),
            "seeds": (seeds.main, "MADE/small", "--add", "1"),
            "try": (ideas.main, "a small network", *SMALL, "--seeds", "1"),
            "try --list": (ideas.main, "--list"),
            "rerun": (rerun.main, "MADE/small", "--into", "OUTPUT"),
            "replay": (replay.main, "MADE/diverged/nonfinite/update-2"),
            "replay an update": (replay.main, "MADE/small", "--update", "1"),
            "samples": (samples.main, "MADE/small", "--update", "1"),
            "recheck": (recheck.main, "MADE/small", "--from-start"),
            "bisect": (bisect.main, "MADE/small", "MADE/small"),
            "accept-changes": (accept_changes.main, "RUN"),
            "import-state-dict": (import_state_dict.main, "MADE/w.pt", "OUTPUT.safetensors"),
            "new": (new_project.main, "OUTPUT"),
            "schema": (editor_schema.main, "--answers", "runs"),
            "verify-resume": (verify_resume.main, *SMALL, "--at", "mid", "--here"),
        }.items()
    },
    "accept_changes": (accept_changes.main, "RUN"),
    "help of find_lr": (find_lr.main, "--help"),
    "help of import": (import_state_dict.main, "--help"),
    "help of a command that trains": (rerun.main, "--help"),
}


def printed_to(stream, main):
    """The command with another standard output."""

    @functools.wraps(main)
    def redirected():
        with contextlib.redirect_stdout(stream):
            return main()

    return redirected


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A folder with runs and weights."""
    folder = tmp_path_factory.mktemp("made")
    (folder / "text.txt").write_text("to be or not to be\n" * 40)
    torch.save({"weight": torch.ones(2)}, folder / "w.pt")
    diverged = *SMALL, "lr=1e20", "optimizer=sgd"
    for name, options in {"small": SMALL, "text": (*TEXT, SMALL[1]), "diverged": diverged}.items():
        code = called(train.main, *options, f"hydra.run.dir={name}", cwd=folder).code
        assert code == (name == "diverged")
    return folder


@pytest.fixture
def ended(finished_digits, made, here):
    """The result of a command of COMMANDS that prints to a stream."""
    Image.new("L", (8, 8)).save("picture.png")

    def run(name, stream):
        main, *given = COMMANDS[name]
        output = f"written_{str(stream.name).strip('/').replace('/', '_')}"
        places = {"RUN": finished_digits, "OUTPUT": output, "MADE": made}
        for word, place in places.items():
            given = [value.replace(word, str(place)) for value in given]
        with stream:
            return called(printed_to(stream, main), *given, cwd=here)

    return run


@pytest.mark.skipif(not FULL.exists(), reason="needs /dev/full")
@pytest.mark.parametrize("name", COMMANDS)
def test_a_result_that_cannot_be_printed_is_an_error(ended, name):
    result = ended(name, FULL.open("w", encoding="utf-8"))
    lost = "error: standard output cannot be written (No space left on device); it is incomplete\n"
    assert result.code == 1
    # with --json, log messages and an error's text are there too
    assert result.errors.count(lost) == 1 if "--json" in name else result.errors == lost

    reader, writer = os.pipe()
    os.close(reader)
    result = ended(name, open(writer, "w", encoding="utf-8"))
    assert result.code == 141 and ("--json" in name or result.errors == "")


def test_a_run_ends_well_whose_answer_is_lost_and_its_exit_code_says_so(here):
    arguments = "num_epochs=1", "model.hidden=[8]", "hydra.run.dir=run", "--json"
    reader, writer = os.pipe()
    os.close(reader)
    with open(writer, "w", encoding="utf-8") as stream:
        result = called(printed_to(stream, train.main), *arguments, cwd=here)
    assert result.code == 141 and '"done"' in (here / "run" / "status.json").read_text()
