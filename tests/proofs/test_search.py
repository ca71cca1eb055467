"""A search as it is used: four runs side by side, pruned, killed, and continued."""

import json
import os
import re
import shlex
import signal
import subprocess
import sys
import time
from pathlib import Path

import optuna
from optuna.trial import TrialState

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "optuna.md").read_text(encoding="utf-8")
TEXTS = re.findall(r"^python train.py .*$", PAGE, re.MULTILINE)
COMMANDS = [shlex.split(text)[2:] for text in TEXTS]
LONGER = (
    "jobs=4", "num_epochs=30", "hydra.sweeper.n_trials=10", "render=plain",
    # whichever ends first, some of the last six are worse than the median
    "hydra.sweeper.pruner_options={n_startup_trials: 1}",
)  # fmt: skip
SECONDS_AT_MOST = 240


def started(folder, number):
    return subprocess.Popen(
        [sys.executable, ROOT / "train.py", *COMMANDS[number], *LONGER],
        cwd=folder,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def events(folder):
    """What the ledger says so far."""
    path = folder / "multirun" / "search" / "sweep.jsonl"
    lines = path.read_text().splitlines(keepends=True) if path.exists() else []
    return [json.loads(line) for line in lines if line.endswith("\n")]


def named(folder, name):
    return [each for each in events(folder) if each["event"] == name]


def test_a_search_is_pruned_killed_and_continued(tmp_path):
    killed = started(tmp_path, 0)
    deadline = time.monotonic() + SECONDS_AT_MOST
    while len(named(tmp_path, "ended")) < 3 and time.monotonic() < deadline:
        time.sleep(0.05)
    killed.send_signal(signal.SIGKILL)
    killed.communicate()
    cut_off = {each["job"] for each in named(tmp_path, "started")}
    cut_off -= {each["job"] for each in named(tmp_path, "ended")}
    most = max(
        sum({"started": 1, "ended": -1}.get(each["event"], 0) for each in events(tmp_path)[:number])
        for number in range(1, len(events(tmp_path)) + 1)
    )
    assert most == 4 and cut_off

    again = started(tmp_path, 1)
    said, _ = again.communicate(timeout=SECONDS_AT_MOST)

    assert again.returncode == 0, said
    folder = tmp_path / "multirun" / "search"
    study = optuna.load_study(study_name="sweep", storage=f"sqlite:///{folder}/study.db")
    complete, pruned, running = (
        study.get_trials(states=[state])
        for state in (TrialState.COMPLETE, TrialState.PRUNED, TrialState.RUNNING)
    )
    assert len(complete) + len(pruned) == 10 and not running
    ends = {each["job"]: each["status"] for each in named(tmp_path, "ended")}
    assert cut_off <= ends.keys() and set(ends.values()) == {"done", "pruned"}
    assert study.best_value == max(each.get("objective", 0) for each in named(tmp_path, "ended"))
    for name in ("history.png", "importance.png"):
        assert (folder / name).read_bytes().startswith(b"\x89PNG")
