"""Under `--json` each command prints answers that fit its schema, and nothing else, also failing.

A command that writes to a closed pipe or a full disk: `tests/proofs/commands/test_lost_results.py`.
"""

import json
import shutil
from pathlib import Path

import jsonschema
import pytest
import tokenizers
import torch
from tokenizers import models
from in_process import called

from andiron import __main__
from runs_made import TEXT

pytestmark = pytest.mark.usefixtures("preloaded_processes")
ROOT = Path(__file__).resolve().parents[3]
COMMANDS = __main__.COMMANDS | __main__.others()
SCHEMAS = ROOT / "conf" / "answers"
SMALL = ("model.hidden=[8]", "num_epochs=1")
OUT = ("--output", "out")
SUCCESSES = {
    "train": ["-m", *SMALL, "seed=1,2", "hydra.sweep.dir=sweep"],
    "check": [*SMALL],
    "plan": [*SMALL, "hydra.run.dir=planned"],
    "find-lr": [*SMALL, "--updates", "12", "hydra.run.dir=found"],
    "tokenize": ["text.txt", "--tokenizer", "tokenizer.json", "--to", "shards"],
    "consolidate": ["run/checkpoints/step-21", "joined"],
    "watch": ["run"],
    "evaluate": ["run"],
    "predict": ["run", "picture.png"],
    "generate": ["text", "--length", "3"],
    "export": ["run", "--format", "safetensors", "--output", "exported"],
    "runs": ["list", "run", "text"],
    "differ": ["run", "wide", "--metric", "valid/loss"],
    "seeds": ["run", "--add", "1"],
    "try": ["a narrow network", *SMALL, "--seeds", "2"],
    "recheck": ["run", "--from-start"],
    "bisect": ["run", "log_every=1"],
    "samples": ["run", "--update", "2", "--from-start"],
    "rerun": ["run", "--into", "again"],
    "replay": ["diverged/nonfinite/update-2"],
    "accept-changes": ["run"],
    "import-state-dict": ["weights.pt", "weights.safetensors"],
    "new": ["mine"],
    "schema": ["--answers", "runs"],
    "verify-resume": [*SMALL, "--at", "mid", "--here"],
}
SWEEPS = {
    "none is done": [
        "hydra/sweeper=optuna", "hydra.sweeper.n_trials=2", "optimizer=sgd", "lr=1e30", "seed=1,2",
    ],
    "optuna": ["hydra/sweeper=optuna", "hydra.sweeper.n_trials=2", "lr=1e-2,1e-3"],
    "race": [
        "hydra/sweeper=race", "hydra.sweeper.min_epochs=null", "optimizer=sgd", "lr=1e-2,1e30",
        "seed=1,2,3",
    ],
}  # fmt: skip
OPTIONS = [
    ["lernign_rate=1"], ["model=cnvnet"], ["lr=-1"], ["batch_size=two"], ["model.dropout=3"],
    ["data=csv"], ["data=csv", "data.path=no.csv", "data.target=y"], ["device=tpu"],
    ["model.hiden=3"], ["--config-dir", "nowhere"], ["lr=0.1,0.2"], ["--confg-dir", "conf"],
]  # fmt: skip
FAILURES = {
    "train": [*OPTIONS, ["resume=nowhere"], ["-m", "lr=-1,-2"], ["fork_from=nowhere@best"]],
    "check": [*OPTIONS, ["resume=run"], ["-m", "lr=1,2"]],
    "plan": [*OPTIONS[:3], ["resume=run"]],
    "find-lr": [*OPTIONS[:3], ["--first", "2", "--last", "1"], ["--updates", "few"]],
    "tokenize": [
        [], ["text.txt", "--tokenizer", "tokenizer.json", "--to", "empty"], ["--check", "empty"],
        ["no.txt", "--tokenizer", "tokenizer.json", "--to", "into"],
        ["text.txt", "--tokenizer", "text.txt", "--to", "into"],
        ["text.txt", "--tokenizer", "tokenizer.json", "--to", "into", "--end", "[END]"],
    ],
    "consolidate": [[], ["nowhere", "into"], ["empty", "into"], ["run", "run/inside"]],
    "watch": [[], ["nowhere"], ["empty"], ["run", "--onec"], ["run", "text"]],
    "evaluate": [
        [], ["nowhere"], ["empty"], ["run", "splt=test"], ["run", "split=tset"],
        ["run", "weights=bset"], ["run", "--worst", "0"], ["run", "--wrost", "3"],
        ["run", "data=digts"], ["run", "--device", "gpu"], ["run", "--pictures", "run/inside"],
    ],
    "predict": [
        [], ["nowhere", "picture.png"], ["empty", "picture.png"], ["run"], ["run", "no.png"],
        ["run", "text.txt"], ["run", "picture.png", "--top", "0"],
        ["run", "picture.png", "--tpo", "3"], ["run", "picture.png", "--weights", "bset"],
        ["run", "picture.png", "--output", "run/out"], ["run", "picture.png", "--device", "gpu"],
    ],
    "generate": [
        [], ["nowhere"], ["empty"], ["run"], ["text", "--length", "0"], ["text", "--lenght", "3"],
        ["text", "--temperature", "-1"], ["text", "--weights", "bset"], ["text", "--top-k", "0"],
        ["text", "--seed", "no"], ["text", "--device", "gpu"],
    ],
    "export": [
        [], ["run", *OUT], ["nowhere", "--format", "onnx", *OUT], ["run", "--format", "onx", *OUT],
        ["empty", "--format", "torch", *OUT], ["run", "--format", "onnx", *OUT, "--device", "cpu"],
        ["run", "--format", "torch", "--output", "run/inside"],
        ["run", "--format", "torch", "--output", "text"],
        ["run", "--format", "torch", *OUT, "--weights", "bset"],
        ["run", "--format", "adapter", *OUT],
    ],
    "runs": [
        ["lst"], ["list", "run", "--where", "lr~1"], ["list", "run", "--sort", "nothing"], ["show"],
        ["show", "nowhere"], ["show", "empty"], ["compare", "nowhere"], ["diff", "run"],
        ["best", "run", "--metric", "valid/acuracy"], ["rm"], ["rm", "run"],
        ["compare", "run", "--direction", "up"], ["list", "--jsno"],
    ],
    "differ": [
        ["nowhere"], ["run"], ["run", "wide", "--metric", "valid/acuracy"],
        ["run", "wide", "--size", "big"], ["run", "wide", "--direction", "up"],
        ["run", "wide", "--where", "lr~1"], ["run", "wide", "--smaples"],
    ],
    "seeds": [
        [], ["nowhere", "--add", "1"], ["empty", "--add", "1"], ["run", "--add", "0"],
        ["diverged", "--add", "1"], ["run", "--add", "1", "--devcie", "cpu"],
    ],
    "try": [
        [], ["why", "lr=1,2"], ["why", "--keep-if", "better"], ["why", "--seeds", "0"],
        ["why", "--against", "7", "--keep-if", "valid/loss falls"], ["why", "--sedes", "2"],
        ["why", "seed=3"], ["--apply", "7"], ["--apply", "best"],
    ],
    "recheck": [
        [], ["nowhere"], ["empty"], ["run", "--segments", "0"], ["run", "--seed", "x"],
        ["run", "--form-start"],
    ],
    "bisect": [
        [], ["run"], ["run", "nowhere"], ["empty", "run"], ["run", "lernign_rate=1"],
        ["run", "lr=-1"], ["run", "wide", "lr=1"], ["run", "--commits", "no..such"],
        ["run", "--checkout", "empty"], ["run", "wide", "--updates", "3", "2"],
        ["run", "--threds", "2"], ["run", "wide", "--tolerance", "-1"],
    ],
    "samples": [
        [], ["run"], ["nowhere", "--update", "1"], ["empty", "--update", "1"],
        ["run", "--update", "0"], ["run", "--update", "999999"], ["run", "--spikes", "few"],
        ["run", "--update", "1", "--spikes", "2"],
        ["run", "--index", "-1", "--from-start"], ["run", "--name", "cat", "--from-start"],
        ["run", "--update", "1", "--form-start"],
    ],
    "rerun": [[], ["nowhere"], ["empty"], ["run", "--into", "run/in"], ["run", "--itno", "x"]],
    "replay": [
        [], ["nowhere"], ["empty"], ["run"], ["run", "more"], ["run", "--update", "0"],
        ["run", "--update", "999"], ["run", "--update", "5", "--show", "gradient"],
        ["run", "--update", "1", "--debug"], ["run", "--udpate", "1"],
    ],
    "accept-changes": [[], ["nowhere"], ["empty"], ["run", "more"]],
    "import-state-dict": [
        [], ["no.pt", "o.safetensors"], ["text.txt", "o.safetensors"], ["weights.pt", "o.txt"],
        ["weights.pt", "o.safetensors", "--key", "x"], ["weights.pt", "weights.pt"],
        ["weights.pt", "o.safetensors", "--rename", "x"], ["weights.pt", "run/o.safetensors"],
        ["weights.pt", "o.safetensors", "--kye", "x"],
    ],
    "new": [[], ["1x"], ["torch"], ["empty"], ["class"], ["a", "b"]],
    "schema": [[], ["--config-dir", "nowhere"], ["--answers", "trian"], ["--confg-dir", "x"]],
    "verify-resume": [
        ["--at"], ["--at", "nowhere"], ["--random", "-1"], ["--workers", "-1"], ["resume=run"],
        ["--keep", "empty"], ["--at", "mid", "--random", "x"],
    ],
}  # fmt: skip


@pytest.fixture(scope="module")
def here(tmp_path_factory):
    """A folder with runs, weights and a picture."""
    folder = tmp_path_factory.mktemp("answers")
    (folder / "text.txt").write_text("to be or not to be\n" * 40)
    (folder / "empty").mkdir()
    shutil.copy(ROOT / "docs" / "pictures" / "site.png", folder / "picture.png")
    words = {"to": 0, "be": 1, "[UNK]": 2}
    tokenizers.Tokenizer(models.WordLevel(words, "[UNK]")).save(str(folder / "tokenizer.json"))
    torch.save({"weight": torch.ones(2)}, folder / "weights.pt")
    trained = {
        "run": (*SMALL, "hydra.run.dir=run"),
        "wide": ("model.hidden=[9]", "num_epochs=1", "hydra.run.dir=wide"),
        "text": (*TEXT, "num_epochs=1", "hydra.run.dir=text"),
        "diverged": (*SMALL, "lr=1e20", "optimizer=sgd", "hydra.run.dir=diverged"),
    }
    for name, arguments in trained.items():
        code, lines = answered(folder, "train", *arguments)
        assert code == (name == "diverged"), lines
    return folder


def answered(folder, command, *arguments):
    """The exit code of a command and its answers, each of which fits its schema."""
    if command not in COMMANDS:
        pytest.skip("needs andiron_lab")
    ended = called(__main__.main, command, *arguments, "--json", cwd=folder)
    lines = [json.loads(line, parse_constant=pytest.fail) for line in ended.output.splitlines()]
    for line in lines:
        schema = json.loads((SCHEMAS / f"{command}.json").read_text())
        assert jsonschema.Draft202012Validator(schema).is_valid(line), line
    assert lines, (command, arguments, ended.errors)
    return ended.code, lines


def test_every_command_is_here_and_has_a_schema():
    schemas = {path.stem for path in SCHEMAS.iterdir()}
    assert SUCCESSES.keys() == FAILURES.keys() == schemas
    assert schemas == COMMANDS.keys() | {*__main__.OF_THE_LAB}


@pytest.mark.parametrize("command", SUCCESSES)
def test_a_result_fits_its_schema(here, command):
    code, lines = answered(here, command, *SUCCESSES[command])
    assert code == 0 and "error" not in lines[-1]
    assert command in ("train", "watch") or len(lines) == 1


@pytest.mark.parametrize("kind", SWEEPS)
def test_the_last_object_of_a_sweep_is_its_result(tmp_path, kind):
    if kind == "race":
        pytest.importorskip("andiron_lab")
    if "hydra/sweeper=optuna" in SWEEPS[kind]:
        pytest.importorskip("optuna")
    code, (*jobs, result) = answered(
        tmp_path, "train", "-m", *SMALL, *SWEEPS[kind], "hydra.sweep.dir=sweep"
    )

    assert code == 0 and [*{*map(tuple, jobs)}] == [("job",)]
    statuses = {job["status"] for job in result["jobs"]}
    if kind == "none is done":
        assert (result["best"], result["groups"], statuses) == (None, [], {"diverged"})
        return
    assert result["best"]["status"] == "done" and "done" in statuses
    assert ("race" in result) is (kind == "race")
    if kind == "race":
        (left,), (dropped,) = result["race"]["left"], result["race"]["dropped"]
        assert {*left} < {*result["best"]["overrides"]} and "lr=1e+30" in dropped["configuration"]
        assert dropped["reason"] == "no value of 1 of 1 seeds"
        assert (result["race"]["trained"], result["race"]["not_shown"]) == (4 / 6, None)


@pytest.mark.parametrize("command", FAILURES)
def test_a_failure_is_one_object_that_fits_its_schema(here, command):
    before, messages = sorted(here.rglob("*")), set()
    for arguments in FAILURES[command]:
        code, lines = answered(here, command, *arguments)
        error = lines[-1]["error"]
        assert code == error["exit_code"] != 0, (arguments, error)
        assert all(problem["message"] in error["message"] for problem in error["problems"])
        messages.add(error["message"])
    assert len(messages) == len(FAILURES[command])
    if command not in ("train", "plan", "find-lr"):  # a folder may record a failed run
        assert sorted(here.rglob("*")) == before


def test_the_guide_names_each_command_and_stands_in_new_projects():
    guide = (ROOT / "AGENTS.md").read_text()
    assert len(guide.splitlines()) < 150
    assert guide == called(__main__.main, "--help").output
    assert [name for name in COMMANDS if f"`andiron {name}" not in guide] == []
