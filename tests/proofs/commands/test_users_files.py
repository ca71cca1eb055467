"""All commands, sweepers and launchers in a tree full of the user's own files change none of them.

Two laws: only `overwrite=true` replaces a run, and what no manifest of a run lists is nobody's to
remove or replace.
"""

import json
import shlex
import shutil

import pytest
import torch
from in_process import called
from PIL import Image
from test_remedies import SMALL

from andiron import __main__

# in each folder that a command may write to, under names that a run, a sweep or a cache uses
NAMES = (
    "notes.txt", "config.json.mine", ".0.copied/notes.txt", ".replaced-mine/a", ".removed-/b",
    "checkpoints.old/step-1/state.json", "model-mine/a.txt", "sweep.jsonl.bak", "tensorboard-1/a",
    ".hydra.mine/config.yaml", "x.partial", ".a.partial/a", "objective.png.bak", "andiron-ask-x/a",
)  # fmt: skip
INSIDE = ("notes.txt", "tensorboard/notes.txt", "checkpoints/notes.txt", "checkpoints/mine/a.txt")
SWEEP = "train -m num_epochs=1 seed=1,2"
LINES = [
    "train num_epochs=1", "train num_epochs=1 hydra.run.dir=run", "train resume=run num_epochs=3",
    "train hydra.run.dir=run num_epochs=1 overwrite=true seed=4", "train resume=stopped",
    "train fork_from=run hydra.run.dir=forked num_epochs=5", "train debug=true num_epochs=1",
    "train num_epochs=1 restart=requeued hydra.run.dir=requeued", "train hydra.run.dir=theirs",
    f"{SWEEP} sweep_name=one", f"{SWEEP},3 sweep_name=one", f"{SWEEP} sweep_name=two jobs=2",
    f"{SWEEP} hydra/launcher=basic hydra.sweep.dir=basic",
    "train -m hydra/sweeper=race num_epochs=2 lr=1e-3,1e-1 'seed=range(0,3)' sweep_name=race",
    "train -m hydra/sweeper=optuna num_epochs=1 'lr=interval(1e-4,1e-1)' hydra.sweeper.n_trials=2 "
    "objective=valid/loss sweep_name=search",
    "check hydra.run.dir=run", "check data.fraction=0.2", "plan", "find-lr --updates 12",
    "evaluate run", "evaluate run --pictures pictures",
    "predict run picture.png --output out.jsonl",
    "export run --output exported --format safetensors", "recheck stopped --from-start",
    "replay stopped --update 1", "samples stopped --update 1", "bisect stopped log_every=2",
    "rerun done --into again", "seeds done --add 2", "differ done run", "runs list", "runs tree",
    "runs compare multirun/one", "runs best done", "runs rm forked --yes", "runs show done",
    "accept-changes done", "schema --config-dir conf", "try why num_epochs=1 --seeds 2",
    "try --list", "import-state-dict weights.pth out.safetensors",
    "export run --output exported/new --format safetensors",
    "runs rm multirun/two --yes", "runs rm stopped --yes",
]  # fmt: skip


def own(here):
    """The user's files and their content."""
    return {path: path.read_bytes() for path in here.rglob("*") if path.is_file()
            and path.read_bytes().startswith(b"mine")}  # fmt: skip


def put(folder, names):
    for name in names:
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"mine: {name}")


@pytest.mark.slow
def test_no_command_touches_a_file_of_the_user(tmp_path):
    here = tmp_path / "tree"
    here.mkdir()
    for name in ("run", "done", "stopped"):
        ended = called(__main__.main, "train", *SMALL, "num_epochs=2", "checkpoint.last=9",
                       f"hydra.run.dir={name}", cwd=here)  # fmt: skip
        assert ended.code == 0, ended.errors
    status = here / "stopped" / "status.json"
    status.write_text(status.read_text().replace('"done"', '"interrupted"'))
    shutil.copytree(here / "stopped", here / "done-seed1")  # another run of that name
    for name in (".", "outputs", "multirun", "multirun/one", "multirun/two", "multirun/race",
                 "multirun/search", "basic", "outputs/ideas", "outputs/find_lr", "outputs/rerun",
                 "conf", "theirs", "pictures", "exported", "again.old"):  # fmt: skip
        put(here / name, NAMES)
    for name in ("run", "done", "stopped"):
        put(here / name, INSIDE)
    put(here, ("conf/schema.json", "out.safetensors.bak"))
    Image.new("L", (8, 8)).save(here / "picture.png")
    torch.save({"a": torch.zeros(2)}, here / "weights.pth")
    before, runs = own(here), {}
    for line in LINES:
        runs |= {path: json.loads(path.read_text())["run"] for path in here.rglob("manifest.json")
                 if "run" in path.read_text() and "checkpoints" not in path.parts}  # fmt: skip
        name, *arguments = shlex.split(line)
        small = SMALL if name in ("train", "check", "plan", "find-lr", "try") else ()
        is_new = not any(
            argument.startswith(("resume=", "fork_from=", "--list")) for argument in arguments
        )
        called(__main__.main, name, *arguments, *(small if is_new else ()), cwd=here)
        assert own(here) == before, line
        for path, identity in runs.items():
            is_removed = "rm" in arguments or "overwrite=true" in arguments
            if not is_removed:
                assert json.loads(path.read_text())["run"] == identity, (line, path)
        runs = {} if "rm" in arguments else runs
