"""Commands whose output is their result: none ends with 0 if it could not be printed."""

import contextlib
import functools
import os
from pathlib import Path

import pytest
from PIL import Image

from andiron import __main__
from in_process import called

FULL = Path("/dev/full")
SMALL = ("model.hidden=[8]", "num_epochs=1", "data=partial", "render=plain")
SUCCESSES = (
    "predict RUN picture.png", "evaluate RUN",
    "export RUN --format safetensors --output OUTPUT", "plan hydra.run.dir=plan",
    "runs list RUN", "runs show RUN", "runs compare RUN", "runs best RUN", "runs diff RUN RUN",
    "samples MADE/small --update 1", "recheck MADE/small --from-start", "watch RUN --once",
    "accept-changes RUN", "find-lr --help", "import-state-dict --help", "rerun --help",
)  # fmt: skip
# every answer goes through one function: of a pass over lines, of one object, of an error
ANSWERS = ("predict RUN picture.png", "runs list RUN", "check num_epochs=two")
COMMANDS = [*SUCCESSES, *(f"{command} --json" for command in ANSWERS)]


def printed_to(stream, main):
    """The command with another standard output."""

    @functools.wraps(main)
    def redirected():
        with contextlib.redirect_stdout(stream):
            return main()

    return redirected


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A folder with a run."""
    folder = tmp_path_factory.mktemp("made")
    assert called(__main__.main, "train", *SMALL, "hydra.run.dir=small", cwd=folder).code == 0
    return folder


@pytest.fixture
def ended(finished_digits, made, here):
    """The result of a command that prints to a stream."""
    Image.new("L", (8, 8)).save("picture.png")

    def run(command, stream):
        output = f"written_{str(stream.name).strip('/').replace('/', '_')}"
        places = {"RUN": finished_digits, "OUTPUT": output, "MADE": made}
        for word, place in places.items():
            command = command.replace(word, str(place))
        name, *arguments = command.split()
        if name not in __main__.COMMANDS | __main__.others():
            pytest.skip("needs andiron_lab")
        with stream:
            return called(printed_to(stream, __main__.main), name, *arguments, cwd=here)

    return run


@pytest.mark.skipif(not FULL.exists(), reason="needs /dev/full")
@pytest.mark.parametrize("command", COMMANDS)
def test_a_result_that_cannot_be_printed_is_an_error(ended, command):
    result = ended(command, FULL.open("w", encoding="utf-8"))
    lost = "error: standard output cannot be written (No space left on device); it is incomplete\n"
    assert result.code == 1
    # with --json, log messages and an error's text are there too
    assert result.errors.count(lost) == 1 if "--json" in command else result.errors == lost


@pytest.mark.parametrize("command", ["runs list RUN", "runs list RUN --json"])
def test_a_closed_pipe_ends_a_command_in_silence(ended, command):
    reader, writer = os.pipe()
    os.close(reader)
    result = ended(command, open(writer, "w", encoding="utf-8"))
    assert result.code == 141 and ("--json" in command or result.errors == "")


def test_a_run_ends_well_whose_answer_is_lost_and_its_exit_code_says_so(here):
    arguments = "num_epochs=1", "model.hidden=[8]", "hydra.run.dir=run", "--json"
    reader, writer = os.pipe()
    os.close(reader)
    with open(writer, "w", encoding="utf-8") as stream:
        result = called(printed_to(stream, __main__.main), "train", *arguments, cwd=here)
    assert result.code == 141 and '"done"' in (here / "run" / "status.json").read_text()
