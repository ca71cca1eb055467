"""One run in several processes: stopped and resumed by others, killed, at fault, mistaken."""

import contextlib
import hashlib
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import small_disks
from train_processes import lines, status

from andiron_lab.ask import bit_comparison
from proofs import rank_kills

pytestmark = pytest.mark.usefixtures("preloaded_processes")

ROOT = Path(__file__).resolve().parents[2]
RUN = ("model.hidden=[32]", "batch_size=20", "log_every=1", "device=cpu", "render=plain")


def started(script, *arguments, processes, cwd, options=()):
    """The process of torchrun, or of Python for one."""
    launcher = [sys.executable]
    if processes > 1:
        torchrun = [sys.executable, "-m", "torch.distributed.run", "--standalone"]
        launcher = [*torchrun, f"--nproc-per-node={processes}", *options]
    with (cwd / "output").open("ab") as output:
        return subprocess.Popen(
            [*launcher, ROOT / script, *arguments],
            cwd=cwd,
            env={**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": str(cwd)},
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )


def trained(script, *arguments, processes, cwd):
    """The output of processes that all ended well."""
    code = started(script, *arguments, processes=processes, cwd=cwd).wait(timeout=600)
    text = (cwd / "output").read_text()
    assert code == 0, text
    return text


def logged(run):
    """By split, update and name every logged value except times."""
    return {
        (line["split"], line["updates"], line["over"], name): value
        for line in lines(run)
        for name, value in line.items()
        if not name.startswith(("time/", "system/")) and name not in ("split", "over")
    }


def checksums(run):
    """The SHA-256 of the trained weights, and of each tensor file of the last checkpoint."""
    newest = max((run / "checkpoints").glob("step-*"), key=lambda path: int(path.name[5:]))
    paths = [*run.glob("*.safetensors"), *newest.glob("*.safetensors")]
    return {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in paths}


def until(condition, process, cwd):
    """Waits for something that a process is to bring about."""
    deadline = time.monotonic() + 300
    while not condition():
        if process.poll() is not None or time.monotonic() > deadline:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            pytest.fail((cwd / "output").read_text())
        time.sleep(0.02)


def ranks_of(process):
    """The process number of each rank below torchrun's."""
    children = ""
    with contextlib.suppress(OSError):  # it has just ended
        children = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text()
    return rank_kills.ranks(map(int, children.split()))


def test_a_run_stopped_with_two_is_resumed_with_four_then_one(tmp_path):
    options = (*RUN, "slices=4", "num_epochs=4", "checkpoint.every=7", "model.dropout=0.2")
    trained("train.py", *options, "hydra.run.dir=straight", processes=1, cwd=tmp_path)
    run = tmp_path / "run"
    long = (*options, "hydra.run.dir=run", "restart=requeued")
    for processes, stopped_at in ((2, 30), (4, 120)):
        process = started("train.py", *long, processes=processes, cwd=tmp_path)
        until(lambda at=stopped_at: updates(run) >= at, process, tmp_path)
        os.kill(ranks_of(process)[processes - 1], signal.SIGTERM)
        process.wait(timeout=120)
        assert status(run)["status"] == "interrupted"
        assert status(run)["reason"] == f"SIGTERM to rank {processes - 1}"
        assert updates(run) % 65 and updates(run) < 260, "stopped within an epoch"
    trained("train.py", *long, processes=1, cwd=tmp_path)
    assert logged(run) == logged(tmp_path / "straight")
    assert checksums(run) == checksums(tmp_path / "straight")


@pytest.mark.skipif(sys.platform != "linux", reason="needs Linux's memfd_create")
def test_data_in_memory_is_there_once(tmp_path):
    arguments = (*RUN, "data=synthetic", "num_epochs=400", "hydra.run.dir=run")
    process = started("train.py", *arguments, processes=2, cwd=tmp_path)
    until(lambda: updates(tmp_path / "run") >= 2, process, tmp_path)
    tables = [Path(f"/proc/{rank}/maps").read_text() for rank in ranks_of(process).values()]
    process.terminate()
    process.wait(timeout=120)
    inodes = [re.findall(r"(\d+) +/memfd:andiron-data", table) for table in tables]
    assert len(inodes) == 2 and inodes[0] == inodes[1] != []


def updates(run):
    """The last update that was logged."""
    return max((line["updates"] for line in lines(run)), default=0)


def test_a_killed_rank_is_started_again_by_torchrun(tmp_path):
    options = (*RUN, "slices=2", "num_epochs=8", "checkpoint.every=5")
    trained("train.py", *options, "hydra.run.dir=straight", processes=1, cwd=tmp_path)
    run = tmp_path / "run"
    arguments = (*options, "hydra.run.dir=run", "restart=requeued")
    restarts = ("--max-restarts=3",)
    with started("train.py", *arguments, processes=2, cwd=tmp_path, options=restarts) as process:
        for victim, at in ((1, 40), (0, 250)):
            until(lambda at=at: updates(run) >= at, process, tmp_path)
            ranks = ranks_of(process)
            os.kill(ranks[victim], signal.SIGKILL)
            until(lambda old=ranks: not set(ranks_of(process).values()) & set(old.values()),
                  process, tmp_path)  # fmt: skip
        assert process.wait(timeout=300) == 0, (tmp_path / "output").read_text()
    assert logged(run) == logged(tmp_path / "straight")
    assert checksums(run) == checksums(tmp_path / "straight")


def test_ranks_end_with_their_torchrun_and_free_the_folder(tmp_path):
    arguments = (*RUN, "num_epochs=400", "hydra.run.dir=run")
    process = started("train.py", *arguments, processes=2, cwd=tmp_path)
    until(lambda: updates(tmp_path / "run") >= 10, process, tmp_path)
    ranks = ranks_of(process)
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    deadline = time.monotonic() + 60
    while any(Path(f"/proc/{rank}").exists() for rank in ranks.values()):
        assert time.monotonic() < deadline, "a rank outlived its torchrun"
        time.sleep(0.05)
    assert status(tmp_path / "run")["reason"] == "SIGTERM"
    at = updates(tmp_path / "run")
    longer = ("resume=run", f"num_epochs={at // 65 + 2}")
    trained("train.py", *longer, processes=1, cwd=tmp_path)
    assert status(tmp_path / "run")["status"] == "done"


SENDS = """import os, signal, sys

class Finder:
    def find_spec(self, name, path=None, target=None):
        if name == PLACE and os.environ.get("RANK") == RANK:
            sys.meta_path.remove(self)
            os.kill(*SIGNAL)

sys.meta_path.insert(0, Finder())
"""


def test_a_signal_to_rank_0_at_its_start_leaves_nothing(tmp_path):
    assert status_after_a_signal(tmp_path, "hydra", rank=0) == {}
    assert not (tmp_path / "run").exists()
    assert "interrupted; nothing was trained" in (tmp_path / "output").read_text()


def test_a_signal_to_rank_1_at_its_start_stops_all(tmp_path):
    ended = status_after_a_signal(tmp_path, "gc", rank=1)
    stopped = ("interrupted", "SIGTERM to rank 1")
    # on a busy machine rank 0 composes for longer than rank 1 holds a signal back: nothing is left
    assert (ended.get("status"), ended.get("reason")) in (stopped, (None, None))


def test_ranks_end_with_a_torchrun_that_dies_as_they_start(tmp_path):
    signal_at_import(tmp_path, "torch", 1, "os.getppid(), signal.SIGKILL")
    process = started("train.py", *RUN, "hydra.run.dir=run", processes=2, cwd=tmp_path)
    ranks = set()
    while process.poll() is None:
        ranks |= set(ranks_of(process).values())
        time.sleep(0.005)
    deadline = time.monotonic() + 60  # torch tries to reach a store that is gone for 300 s
    while any(Path(f"/proc/{rank}").exists() for rank in ranks):
        assert time.monotonic() < deadline, "a rank outlived its torchrun"
        time.sleep(0.05)
    assert len(ranks) == 2
    (tmp_path / "sitecustomize.py").unlink()
    again = (*RUN, "num_epochs=1", "hydra.run.dir=run", "restart=requeued")
    trained("train.py", *again, processes=2, cwd=tmp_path)
    assert status(tmp_path / "run")["status"] == "done"


def signal_at_import(cwd, place, rank, arguments):
    """Makes a rank call `os.kill` with these arguments as it imports a module."""
    constants = f"PLACE, RANK, SIGNAL = {place!r}, '{rank}', ({arguments})"
    (cwd / "sitecustomize.py").write_text(SENDS.replace("\n\n", f"\n\n{constants}\n", 1))


def status_after_a_signal(cwd, place, rank):
    """The status of a run of which one process got a signal as it imported a module."""
    signal_at_import(cwd, place, rank, "os.getpid(), signal.SIGTERM")
    process = started("train.py", *RUN, "num_epochs=400", "hydra.run.dir=run", processes=2, cwd=cwd)
    assert process.wait(timeout=300) == 1
    return status(cwd / "run") if (cwd / "run").exists() else {}


@pytest.mark.usefixtures("fresh_processes")
def test_an_installed_package_is_started_by_its_name(tmp_path):
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": str(ROOT / "src")}
    launcher = [sys.executable, "-m", "torch.distributed.run", "--standalone"]
    command = [*launcher, "--nproc-per-node=2", "-m", "andiron", *RUN, "num_epochs=1"]
    subprocess.run([*command, "hydra.run.dir=run"], cwd=tmp_path, env=environment, check=True)
    assert status(tmp_path / "run")["status"] == "done"


@pytest.mark.usefixtures("fresh_processes")
def test_a_command_that_only_prints_ends_well(tmp_path):
    assert trained("train.py", "--help", processes=2, cwd=tmp_path)


FAULTY = """
import os

import torch
from torch import nn


class Faulty(nn.Module):
    def __init__(self, input_shape, num_classes, hidden, dropout):
        super().__init__()
        self.body = nn.Sequential(nn.Flatten(), nn.Linear(64, num_classes))
        self.calls = 0

    def forward(self, inputs):
        self.calls += self.training
        if self.calls == 5 and os.environ.get("RANK") == "1":
            FAULT
        return self.body(inputs)
"""
FAULTS = {  # what rank 1 does at its fifth batch, and what status.json says of it
    "error": ("raise ValueError('a mistake of mine')", "ValueError: a mistake of mine"),
    "data": ("import andiron; raise andiron.errors.DataError('file 7 is cut')", "file 7 is cut"),
    "memory": ("torch.empty(2**60)", "out of memory on device cpu"),
    "killed": ("os.kill(os.getpid(), 9)", "no longer answers: it was killed, is stopped"),
    "stopped": ("os.kill(os.getpid(), 19)", "no longer answers: it was killed, is stopped"),
}


@pytest.mark.parametrize(("fault", "strategy"), [
    *((fault, "ddp") for fault in FAULTS), ("error", "fsdp"), ("killed", "fsdp"),
])  # fmt: skip
def test_the_fault_of_another_rank_is_the_reason_on_record(tmp_path, fault, strategy):
    code, said = FAULTS[fault]
    (tmp_path / "parts.py").write_text(FAULTY.replace("FAULT", code))
    options = ("model._target_=parts.Faulty", "device=cpu", "hydra.run.dir=run", "peer_timeout=5",
               f"strategy={strategy}")  # fmt: skip
    process = started("train.py", *options, processes=2, cwd=tmp_path,
                      options=("--shutdown-timeout=5",))  # fmt: skip
    assert process.wait(timeout=300) == 1
    reason = status(tmp_path / "run")["reason"]
    assert reason.startswith("rank 1 (host ") and said in reason
    if fault in ("error", "data", "memory"):
        assert said.partition(": ")[2] in (tmp_path / "run" / "ranks" / "1.log").read_text()


@pytest.mark.parametrize("strategy", ["ddp", "fsdp"])
def test_a_disk_that_is_full_ends_all_processes_with_what_to_do(tmp_path, strategy):
    with small_disks.mounted(tmp_path / "disk", mebibytes=4) as disk:
        run = disk / "run"
        length = "num_epochs=4", "checkpoint.every=20", f"strategy={strategy}"
        options = (*RUN, *length, f"hydra.run.dir={run}")
        process = started("train.py", *options, processes=2, cwd=tmp_path)
        until(lambda: updates(run) > 5, process, tmp_path)
        filler = small_disks.fill(disk)
        assert process.wait(timeout=300) == 1
        text = (tmp_path / "output").read_text()
        assert "could not be written (No space left on device)" in text, text
        assert status(run)["status"] in ("running", "failed")  # the truth may have found no room
        assert "no longer answers" not in (run / "ranks" / "1.log").read_text()
        filler.unlink()
        trained("train.py", f"resume={run}", processes=2, cwd=tmp_path)
        assert status(run)["status"] == "done"


def test_a_restart_does_not_train_a_failure_again(tmp_path):
    options = ("lr=1e30", "optimizer=sgd", "device=cpu", "restart=requeued", "hydra.run.dir=run")
    again = ("--max-restarts=2",)
    process = started("train.py", *options, processes=2, cwd=tmp_path, options=again)
    assert process.wait(timeout=300) == 1
    text = (tmp_path / "output").read_text()
    assert text.count("the loss is nan") == 1, text
    assert (tmp_path / "run" / "ranks" / "1.log").read_text().count("run folder") == 1


@pytest.mark.parametrize(("arguments", "problem"), [
    (["lr=-1"], "lr=-1: should be"),
    (["hydra.mode=MULTIRUN", "lr=0.1,0.2"], "sweep: torchrun started 2 processes"),
    (["debug=true"], "debug=true: stops and resumes a run within one process"),
    (["slices=1"], "slices=1: should be a power of two"),
])  # fmt: skip
def test_a_mistake_is_printed_once(tmp_path, arguments, problem):
    folder = [] if "debug=true" in arguments else ["hydra.run.dir=run"]
    process = started("train.py", *arguments, *folder, processes=2, cwd=tmp_path)
    assert process.wait(timeout=300) == 1  # torchrun's own
    text = (tmp_path / "output").read_text()
    assert text.count(problem) == 1, text
    assert not (tmp_path / "run").exists()
    assert text.count("Traceback") == 1 and "andiron/" not in text.partition("Traceback")[2]


def test_what_the_page_shows_runs(tmp_path, capsys):
    page = (ROOT / "docs" / "distributed.md").read_text(encoding="utf-8")
    commands = re.findall(r"^torchrun (.*) train\.py (.*)$", page, flags=re.MULTILINE)
    assert len(commands) == 3
    for launcher, arguments in commands:
        process = started("train.py", *arguments.split(), "num_epochs=1", processes=2,
                          cwd=tmp_path, options=launcher.split())  # fmt: skip
        assert process.wait(timeout=300) == 0, (tmp_path / "output").read_text()
    (block,) = re.findall(r"^```python\n(.*?)^```", page, flags=re.MULTILINE | re.DOTALL)
    exec(compile(block, "distributed.md", "exec"), {})
    assert capsys.readouterr().out == "0 [[[0, 1]], [[4]]]\n1 [[[2, 3]], [[5]]]\n"


LEFT = """
from pathlib import Path
from torch.distributed import HashStore
from andiron.shell.training.joining import joined

def threads():
    return [path.read_text().strip() for path in Path("/proc/self/task").glob("*/comm")]

with joined(HashStore(), 0, 1, None, on_gpu=False, timeout_seconds=60):
    assert "pt_gloo_runloop" in threads()
    import torch.distributed.nn.functional
assert "pt_gloo_runloop" not in threads(), threads()
"""


@pytest.mark.usefixtures("fresh_processes")
def test_a_package_that_holds_the_group_in_its_defaults_leaves_no_threads_of_it():
    # as torchmetrics does; at the exit of the process they would abort it
    paths = {**os.environ, "PYTHONPATH": str(ROOT / "src")}
    done = subprocess.run([sys.executable, "-c", LEFT], env=paths, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_an_unchanged_fork_of_two_processes_has_its_parents_bits(tmp_path):
    every = "checkpoint.last=9", "checkpoint.every=40", "averages=ema", "num_epochs=2"
    trained("train.py", *RUN, *every, "hydra.run.dir=parent", processes=2, cwd=tmp_path)
    fork = "fork_from=parent@80", "hydra.run.dir=fork"
    trained("train.py", *fork, processes=2, cwd=tmp_path)
    result = bit_comparison.compare(tmp_path / "parent", tmp_path / "fork")
    assert [value for value in result if value.updates is None or value.updates > 80] == []
