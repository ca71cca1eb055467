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
import pytest
from optuna.trial import TrialState
from small_disks import fill, mounted

pytestmark = pytest.mark.usefixtures("preloaded_processes")

ROOT = Path(__file__).resolve().parents[3]
PAGE = (ROOT / "docs" / "optuna.md").read_text(encoding="utf-8")
TEXTS = re.findall(r"^python train.py .* sweep_name=search$", PAGE, re.MULTILINE)
COMMANDS = [shlex.split(text)[2:] for text in TEXTS]
LONGER = (
    "jobs=4", "num_epochs=15", "hydra.sweeper.n_trials=10", "render=plain",
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
    """The lines of the ledger so far."""
    path = folder / "multirun" / "search" / "sweep.jsonl"
    lines = path.read_text().splitlines(keepends=True) if path.exists() else []
    return [json.loads(line) for line in lines if line.endswith("\n")]


def named(folder, name):
    return [event for event in events(folder) if event["event"] == name]


def under_way(lines):
    """The jobs that have started and not ended."""
    jobs = {name: {line["job"] for line in lines if line["event"] == name}
            for name in ("started", "ended")}  # fmt: skip
    return jobs["started"] - jobs["ended"]


def test_a_search_with_pruning_continues_after_a_kill(tmp_path):
    killed = started(tmp_path, 0)
    deadline = time.monotonic() + SECONDS_AT_MOST
    while True:
        killed.send_signal(signal.SIGSTOP)  # a job that is under way now is so when it is killed
        if len(named(tmp_path, "ended")) > 2 and under_way(events(tmp_path)):
            break
        killed.send_signal(signal.SIGCONT)
        assert killed.poll() is None and time.monotonic() < deadline
        time.sleep(0.05)
    killed.send_signal(signal.SIGKILL)
    killed.communicate()
    lines = events(tmp_path)
    cut_off = under_way(lines)
    most = max(len(under_way(lines[:number])) for number in range(1, len(lines) + 1))
    assert cut_off and 1 < most <= 4  # the fourth may start after the first has ended

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
    ends = {value["job"]: value["status"] for value in named(tmp_path, "ended")}
    assert cut_off <= ends.keys() and set(ends.values()) == {"done", "pruned"}
    (program,) = re.findall(r"^```python\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)
    drawn = subprocess.run(
        [sys.executable, "-c", program], cwd=tmp_path, capture_output=True, text=True
    )  # optuna refuses importances where its trees see no variance, as with few trials
    assert drawn.returncode == 0 or "zero total variance" in drawn.stderr, drawn.stderr
    assert (tmp_path / "history.png").read_bytes().startswith(b"\x89PNG")
    assert study.best_value == max(value.get("objective", 0) for value in named(tmp_path, "ended"))


# sqlite has synchronised its journal, and begins to write the pages, of which one is beyond the end
KILLED = """
import resource, signal, sys
from pathlib import Path
from andiron_lab.search import study
from andiron.wings.sweep.objectives import Objective
from andiron_lab.search.search_options import SearchOptions
from andiron_lab.search.search_space import search_space

space, folder = search_space(["lr=interval(0,1)"], None), Path(sys.argv[1])
options = SearchOptions(n_trials=9999, sampler="random")
found = study.SweepStudy(folder, space, [Objective("valid/loss", "lowest")], options)
print(len(found.trials()), flush=True)
size = (folder / "study.db").stat().st_size
resource.setrlimit(resource.RLIMIT_FSIZE, (size, size))
signal.signal(signal.SIGXFSZ, signal.SIG_DFL)  # Python ignores it
while True:
    found.tell(found.ask()[0], [1.0], pruned=False)
"""


def test_a_search_killed_in_the_middle_of_a_commit_is_continued(tmp_path):
    counts = []
    for _ in range(3):
        killed = subprocess.run(
            [sys.executable, "-c", KILLED, tmp_path],
            env={**os.environ, "PYTHONPATH": str(ROOT / "src")},
            capture_output=True,
            text=True,
        )
        counts.append(int(killed.stdout))
        assert killed.returncode == -signal.SIGXFSZ, killed.stderr
        assert (tmp_path / "study.db-journal").stat().st_size > 0

    assert counts == sorted({*counts}) and counts[0] == 0  # each begins with the trials before it


@pytest.mark.parametrize("storage", ["sqlite", "journal"])
def test_a_search_on_a_full_disk_reports_it_and_is_continued(storage, tmp_path):
    command = (
        "-m", "hydra/sweeper=optuna", "lr=interval(1e-3,1e-1)", "num_updates=2", "num_epochs=null",
        "validate_every=1", "model.hidden=[8]", "hydra.sweeper.n_trials=3", "render=plain",
        f"hydra.sweeper.storage={storage}",
    )  # fmt: skip
    with mounted(tmp_path / "disk", mebibytes=8) as disk:
        command = [sys.executable, ROOT / "train.py", *command, f"hydra.sweep.dir={disk}/search"]

        def searched():
            return subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)

        (disk / "search").mkdir()
        (disk / "search" / "multirun.yaml").write_text("hydra:\n  runtime:\n    version: 1\n")
        filler = fill(disk, leave=100_000)
        full = searched()
        filler.unlink()
        again = searched()
        if storage == "journal":  # its first job trained, and had no room for a checkpoint
            remedy = f"runs rm {disk}/search/0`"
            assert again.returncode == 1 and remedy in again.stderr
            removed = [ROOT / "scripts/andiron.py", "runs", "rm", "--yes", disk / "search" / "0"]
            subprocess.run([sys.executable, *removed], check=True, capture_output=True)
            again = searched()

    assert full.returncode == 1, full.stderr
    assert "problem in the configuration" not in full.stderr
    full_study = "study.db could not be written (database or disk is full); free space there"
    assert (full_study if storage == "sqlite" else "(No space left on device)") in full.stderr
    assert (again.returncode, again.stderr) == (0, "")
    assert "the best again: " in again.stdout
