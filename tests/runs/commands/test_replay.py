"""A run that ended on a step that is no number, and that step run again: as real processes."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
ENVIRONMENT = {**os.environ, "OMP_NUM_THREADS": "1"}
DIVERGES = ("optimizer=sgd", "lr=3e38", "num_epochs=1", "render=plain")
OPTIONS = {
    "plain": (),
    "dropout": ("model=convnet",),
    "micro-batches and sam": ("model=convnet", "grads_accumulation=3", "sam=0.05"),
    "fp16": ("precision=fp16", "lr=1e30"),
    "groups": ("param_groups=layerwise",),
}


def run(*arguments):
    done = subprocess.run(
        [sys.executable, *map(str, arguments)],
        capture_output=True,
        text=True,
        timeout=240,
        env=ENVIRONMENT,
    )
    return done.returncode, done.stdout, done.stderr


def failed_run(folder, *options):
    """The folder that a run left of its bad step."""
    code, _, said = run(ROOT / "train.py", f"hydra.run.dir={folder}", *DIVERGES, *options)
    assert code == 1
    assert "was not made" in said
    (left,) = (folder / "nonfinite").iterdir()
    assert f"`python scripts/replay.py {left}` runs the step again" in said
    assert json.loads((folder / "status.json").read_text())["status"] == "failed"
    return left


@pytest.mark.slow
@pytest.mark.parametrize("name", OPTIONS)
def test_the_step_is_run_again_bit_for_bit_and_the_first_bad_module_is_named(tmp_path, name):
    left = failed_run(tmp_path / "run", *OPTIONS[name])
    code, said, error = run(ROOT / "scripts" / "replay.py", left)
    assert (code, error) == (0, "")
    lines = said.splitlines()
    assert lines[0].startswith("update ") and "(epoch 1, batch " in lines[0]
    assert lines[-1] == "the same gradients as in the run, bit for bit"
    assert (
        lines[2].startswith("first output of nan or inf: network.")
        or lines[2] == "every module's output is finite"
    )


@pytest.mark.slow
def test_what_has_changed_since_is_told(tmp_path):
    left = failed_run(tmp_path / "run")
    config = tmp_path / "run" / "config.json"
    changed = json.loads(config.read_text())
    changed["data"]["split_seed"] = 7
    config.write_text(json.dumps(changed))
    code, said, _ = run(ROOT / "scripts" / "replay.py", left)
    assert code == 1
    assert said.splitlines()[-1].startswith("not the gradients of the run (loss ")


@pytest.mark.slow
def test_a_damaged_folder_and_one_without_a_step_are_refused(tmp_path):
    left = failed_run(tmp_path / "run")
    shutil.copytree(left, left.parent / "copy")
    (left.parent / "copy" / "model.safetensors").write_bytes(b"nothing")
    code, _, error = run(ROOT / "scripts" / "replay.py", left.parent / "copy")
    assert (
        code == 2
        and "model.safetensors: has 7 bytes, not 669240: damaged; use another checkpoint" in error
    )

    code, _, _ = run(
        ROOT / "train.py", f"hydra.run.dir={tmp_path / 'good'}", "num_epochs=1", "render=plain"
    )
    assert code == 0
    code, _, error = run(
        ROOT / "scripts" / "replay.py", tmp_path / "good" / "checkpoints" / "step-21"
    )
    assert (
        code == 2
        and "holds no update to replay; name a folder below <run folder>/nonfinite" in error
    )
