"""A line that a message prints is typed as it stands: what comes next is progress.

Each row is a command, and the lines of its message to type: a regular expression whose match is
one or more arguments. An argument of an option that is given replaces that one.
"""

import shlex

import pytest
import torch
from in_process import called
from PIL import Image

from andiron import __main__, serialization

SMALL = "data=partial", "model.hidden=[8]", "batch_size=40", "render=plain"
# a command, and what its message says to type: as it stands, or in the command that has it then
ROWS = [
    # options
    ("check --options optimzer=adam", {"'optimizer'": "check --options optimizer=adam"}),
    ("check --options model=cnvnet", {"'convnet'": "check --options data=digits model=convnet"}),
    ("check --options loss=null", {"'loss=[]'": None}),
    ("check strategy=ddp", {"give auto": "check strategy=auto"}),
    ("check slices=3", {"a power of two": "check slices=2"}),
    ("check device=cuda:7", {"device=auto": None}),
    ("check sync_batchnorm=true slices=2", {"leave one of them out": "check slices=2"}),
    ("check --options num_updates=3 num_epochs=2",
     {"one to null": "check --options num_updates=3 num_epochs=null"}),
    ("check --options lr=0.1,0.2", {"-m": "train -m lr=0.1,0.2 sweep_name=several"}),
    ("check --options name=a/b", {}),
    ("train hydra/job_logging=default",
     {"hydra/job_logging=stdout": None, "or none": "train hydra/job_logging=none"}),
    ("train -m resume=run seed=1,2",
     {"resume=auto": "train -m resume=auto seed=1,2 sweep_name=again"}),
    ("train -m seed=1 'lr=interval(1e-4,1e-1)'",
     {"hydra/sweeper=optuna": "train -m 'lr=interval(1e-4,1e-1)' hydra/sweeper=optuna "
                              "hydra.sweeper.n_trials=1 sweep_name=search"}),
    ("train -m objective=valid/loss,valid/accuracy seed=1",
     {"'objective=[valid/loss,valid/accuracy]'": None}),
    ("train jobs=2", {"-m": "train -m jobs=2 seed=1"}),
    ("train --experimental-rerun=x.pickle", {"resume=<run folder>": "train resume=run"}),
    ("train resume_allow=[lr]", {"resume=<run folder>": "train resume_allow=[lr] resume=run"}),
    ("train resume=auto", {"hydra.run.dir=<folder>": "train resume=auto hydra.run.dir=auto"}),
    ("train resume=run hydra.run.dir=elsewhere", {"leave it out": "train resume=run"}),
    # folders that are taken, runs that are resumed or forked
    ("train hydra.run.dir=twice", {"resume=HERE/twice": "train resume=HERE/twice",
                                   "overwrite=true": None}),
    ("train twice", {"resume=twice": "train resume=twice"}),
    ("train HERE/twice", {"resume=HERE/twice": "train resume=HERE/twice"}),
    ("train resume=twice lr=0.5 num_epochs=3", {"resume_allow=[lr]": None}),
    ("train resume=twice batch_size=13 num_epochs=5", {"resume_allow=[batch_size]": None}),
    ("train resume=run num_epochs=1",
     {"at least as many": "train resume=run num_epochs=2", "leave it out": "train resume=run"}),
    ("train fork_from=run@7 hydra.run.dir=forked num_epochs=3", {"@4": "train fork_from=run@4 "
     "hydra.run.dir=forked num_epochs=3"}),
    # data
    ("check data=csv data.path=bare.csv data.target=column_3",
     {"data.header=[...]": "check data=csv data.path=bare.csv "
      "data.target=y 'data.header=[x,z,y]'"}),
    ("check data=csv data.path=numbers.csv data.target=y",
     {"task=regression": "check data=csv data.path=numbers.csv data.target=y task=regression "
      "loss=mean_squared_error metrics=regression", "data.kind=classification": None}),
    ("check data=csv_regression data.path=flags.csv data.target=y task=binary",
     {"data.kind=classification": None}),
    ("check data=csv data.path=gaps.csv data.target=y",
     {"data.missing=median": None, "data.missing=drop": None, "data.max_bad_lines=2": None}),
    ("check data=csv data.path=latin.csv data.target=y",
     {"data.encoding, such as cp1252":
      "check data=csv data.path=latin.csv data.target=y data.encoding=cp1252"}),
    ("check data=csv data.path=many.csv data.target=y",
     {"""'data.exclude=["name"]'""": None, "data.categories=codes": None}),
    ("check data=csv data.path=good.csv data.target=why",
     {"x, z, y": "check data=csv data.path=good.csv data.target=y"}),
    ("check data=csv data.path=good.csv data.target=y data.date_format=%d",
     {"leave it out": "check data=csv data.path=good.csv data.target=y"}),
    ("check data=image_folder data.path=pictures data.size=8",
     {"data.max_unreadable=1": None}),
    ("check data=image_folder data.path=above data.size=8", {"data.path=HERE/above/data": None}),
    # parts that do not fit
    ("check task=regression", {"task=classification": None}),
    ("check start_from=renamed.pth",
     {"rename them: ": "REMEDY"}),
    # questions about runs
    ("evaluate run split=tst", {"'test'": "evaluate run split=test"}),
    ("evaluate run weights=bst", {"last, best": "evaluate run weights=best"}),
    ("recheck few", {"--from-start": None}),
    ("replay run", {"--update N": "replay run --update 1"}),
    ("bisect run run --updates 50 60", {"1 to 8": "bisect run run --updates 1 8"}),
    ("bisect few", {"options": "bisect few log_every=2"}),
    ("runs rm unwanted", {"--yes": None}),
    ("runs list run --where lr", {"'lr<1e-2'": "runs list run --where 'lr<1e-2'"}),
    ("evaluate changed", {"accept-changes HERE/changed`": "accept-changes changed"}),
    ("import-state-dict nested.pth out.safetensors",
     {"net, teacher": "import-state-dict nested.pth out.safetensors --key net"}),
    ("schema", {"--config-dir": "schema --config-dir above"}),
    ("try", {"an idea needs a reason": "try why --seeds 1"}),
    ("try why lr=1,2", {"--seeds": "try why lr=1 --seeds 1"}),
    ("try why --keep-if smaller",
     {"'valid/loss falls'": "try why --seeds 1 --keep-if 'valid/loss falls'"}),
]  # fmt: skip


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """Runs, tables, pictures and weights of which a command may ask."""
    here = tmp_path_factory.mktemp("made")
    make(here)
    return here


def make(here):
    kept = "num_epochs=2", "log_every=1", "checkpoint.every=2", "checkpoint.last=9"
    for name, *options in (
        ("run", *kept), ("few", "checkpoint=last", "checkpoint.last=1"), ("changed",), ("twice",),
        ("unwanted",),
    ):  # fmt: skip
        epochs = () if "num_epochs=2" in options else ("num_epochs=1",)
        ended = called(
            __main__.main, "train", *SMALL, *epochs, *options, f"hydra.run.dir={name}", cwd=here
        )
        assert ended.code == 0, ended.errors
    (here / "changed" / "config.json").write_text(
        (here / "changed" / "config.json").read_text() + " "
    )
    rows = [f"{i / 7:.3f},{i % 5},{'ab'[i % 2]}" for i in range(60)]
    tables = {
        "good": ["x,z,y", *rows], "bare": rows,
        "gaps": ["x,z,y", *rows, ",1,a", ",2,b"], "bad": ["x,z,y", *rows, "oops,1,a"],
        "numbers": ["x,y", *(f"{i},{i % 3}.5" for i in range(300))],
        "flags": ["x,y", *(f"{i},{i % 2}" for i in range(60))],
        "many": ["x,name,y", *(f"{i},name number {i},{'ab'[i % 2]}" for i in range(300))],
    }
    for name, lines in tables.items():
        (here / f"{name}.csv").write_text("\n".join(lines) + "\n")
    text = "\n".join(["x,z,y", *rows]).replace("a", "é")
    (here / "latin.csv").write_bytes(text.encode("latin-1"))
    for number in range(18):
        label = "ab"[number % 2]
        for path in (here / "pictures" / label, here / "above" / "data" / label):
            path.mkdir(parents=True, exist_ok=True)
            Image.new("RGB", (8, 8), (number, 0, 0)).save(path / f"{number}.png")
    (here / "pictures" / "a" / "broken.png").write_bytes(b"no picture")
    final = serialization.load_tensors(here / "run" / "model.safetensors")
    weights = {name.removeprefix("network."): value for name, value in final.items()}
    first = {"fc.weight": weights["layers.1.weight"], "fc.bias": weights["layers.1.bias"]}
    torch.save(first, here / "renamed.pth")
    torch.save({"net": weights, "teacher": {**weights}}, here / "nested.pth")


def given(command):
    """The command's name and arguments; what trains is small."""
    name, *arguments = shlex.split(command)
    keys = {argument.partition("=")[0] for argument in arguments}
    is_small = name in ("check", "train", "try") and not keys & {"data", "resume", "fork_from"}
    small = [*SMALL, "num_epochs=1"] if is_small else []
    trains = ["render=plain"] * (name == "train" and not is_small)
    own = [value for value in (*small, *trains) if value.partition("=")[0] not in keys]
    return [name, *arguments, *own]


def with_line(command, line):
    """The command with the arguments of a line, in the place of those for the same options."""
    name, *arguments = shlex.split(command)
    more = shlex.split(line)
    keys = {value.partition("=")[0].lstrip("+~") for value in more}
    kept = [argument for argument in arguments if argument.partition("=")[0] not in keys]
    return shlex.join([name, *kept, *more])


def ended_of(command, here):
    """How the command ends in a folder."""
    name, *arguments = given(command.replace("HERE", str(here)))
    if name not in __main__.COMMANDS | __main__.others():
        pytest.skip("needs andiron_lab")
    return called(__main__.main, name, *arguments, cwd=here)


@pytest.mark.parametrize(("command", "lines"), ROWS, ids=[row[0] for row in ROWS])
def test_a_line_that_a_message_prints_works(made, command, lines):
    refused = ended_of(command, made)
    assert refused.code in (1, 2), refused.output
    for line, then in lines.items():
        line = line.replace("HERE", str(made))
        assert line in refused.errors, refused.errors
        typed = refused.errors.rpartition(line)[2].strip() if then == "REMEDY" else line
        then = then if then not in (None, "REMEDY") else with_line(command, typed)
        ended = ended_of(then, made)
        assert ended.code == 0, (then, ended.errors)
