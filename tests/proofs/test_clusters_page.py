"""docs/clusters.md: its job scripts with stand-ins for SLURM, and sweeps through submitit."""

import contextlib
import importlib.util
import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

import slurm_stub
from andiron_lab.ask import bit_comparison
from proofs import two_hosts
from train_processes import lines, status, trained

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "clusters.md").read_text(encoding="utf-8")
SCRIPTS = dict(re.findall(r"^`(\w+\.sh)`.*?^```bash\n(.*?)^```", PAGE, flags=re.M | re.S))
RUN = (
    "model.hidden=[32]", "batch_size=20", "num_epochs=5", "log_every=1", "device=cpu",
    "render=plain",
)  # fmt: skip
SECONDS_AT_MOST = 300
submitit = pytest.mark.skipif(
    importlib.util.find_spec("submitit") is None, reason="needs hydra-submitit-launcher"
)
pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("preloaded_processes")]


@pytest.fixture
def hosts():
    """Two hosts; skips the test where none can be made."""
    made = two_hosts.linked()
    try:
        made.__enter__()
    except two_hosts.NotPermittedError as error:
        pytest.skip(str(error))
    try:
        yield
    finally:
        made.__exit__(None, None, None)


class Cluster:
    """The stand-ins, and the job script `name` of the page with the run in `tmp_path / "run"`."""

    def __init__(self, folder, **nodes):
        self.folder = folder / "slurm"
        self.folder.mkdir()
        self.cwd, self.run = folder, folder / "run"
        self.environment = slurm_stub.installed(self.folder, **nodes)
        (folder / "train.py").symlink_to(ROOT / "train.py")

    def submit(self, name, *options):
        """Submits a script of the page."""
        (self.cwd / name).write_text(SCRIPTS[name])
        self.call("sbatch", name, "run", *options)

    def call(self, *command):
        """Calls a command of SLURM's."""
        subprocess.run(command, cwd=self.cwd, env=self.environment, check=True)

    def until(self, condition):
        """Waits for something that the jobs are to bring about."""
        deadline = time.monotonic() + SECONDS_AT_MOST
        while not condition():
            assert time.monotonic() < deadline, self.output()
            time.sleep(0.02)

    def end(self, job="1"):
        """The exit code of a job."""
        return slurm_stub.wait(self.folder, job, seconds=SECONDS_AT_MOST)

    def left(self):
        """The processes that train in its folder."""
        result = []
        for path in Path("/proc").glob("[0-9]*"):
            with contextlib.suppress(OSError):
                if (
                    os.readlink(path / "cwd") == str(self.cwd)
                    and b"RANK=" in (path / "environ").read_bytes()
                ):
                    result.append(int(path.name))
        return result

    def output(self):
        """The output of all jobs."""
        return "".join(path.read_text() for path in self.folder.glob("jobs/*/output"))


@pytest.fixture
def cluster(tmp_path):
    made = []

    def of(**nodes):
        made.append(Cluster(tmp_path, **nodes))
        return made[0]

    yield of
    for one in made:
        slurm_stub.ended(one.folder)


def is_within_an_epoch(run):
    return lambda: len(lines(run)) > 20


def number_of_starts(run):
    """How often a run was started or resumed."""
    return 1 + len(json.loads((run / "provenance.json").read_text()).get("resumes", []))


def signalled_and_requeued(one, name):
    """Sends a job the signal of its time limit; it is to end with the bits of a straight run."""
    options = (*RUN, "slices=4", "model.dropout=0.2")
    one.submit(name, *options)
    one.until(is_within_an_epoch(one.run))
    one.call("scancel", "--batch", "--signal=USR1", "1")
    assert one.end() == 0, one.output()
    assert number_of_starts(one.run) == 2, one.output()
    trained(one.cwd, *options, "hydra.run.dir=straight")
    assert bit_comparison.compare(one.cwd / "straight", one.run) == []


def test_a_job_on_one_node_is_requeued_at_its_time_limit(cluster):
    signalled_and_requeued(cluster(gpus=2), "one_node.sh")


def test_a_job_on_two_hosts_is_requeued_at_its_time_limit(hosts, cluster):
    one = cluster(gpus=2, hosts_of=os.getpid())
    signalled_and_requeued(one, "several_nodes.sh")
    logs = [path.read_text() for path in sorted((one.run / "ranks").iterdir())]
    assert len(logs) == 3


def test_a_cut_link_ends_the_job_and_names_the_lost_rank(hosts, cluster):
    one = cluster(gpus=1, hosts_of=os.getpid())
    one.submit("several_nodes.sh", *RUN, "num_epochs=4000", "peer_timeout=8")
    one.until(is_within_an_epoch(one.run))
    two_hosts.cut()
    assert one.end() == 1, one.output()
    assert status(one.run)["status"] == "failed"
    assert re.match(r"rank 1 \(host node2, .* no longer answers", status(one.run)["reason"])
    one.until(lambda: not one.left())
    assert "rank 0 (host node1" in (one.run / "ranks" / "1.log").read_text()


def test_a_cancelled_job_is_saved_and_not_queued_again(cluster):
    one = cluster(gpus=2)
    one.submit("one_node.sh", *RUN, "num_epochs=400")
    one.until(is_within_an_epoch(one.run))
    one.call("scancel", "--batch", "--signal=TERM", "1")
    assert one.end() == 1, one.output()
    assert status(one.run)["status"] == "interrupted"
    assert number_of_starts(one.run) == 1


def swept(one, launcher, *options):
    """The process of a sweep of two jobs that submitit starts."""
    path = os.pathsep.join([str(ROOT / "src"), os.environ.get("PYTHONPATH", "")])
    command = [sys.executable, ROOT / "train.py", "-m", *RUN, "seed=1,2", "num_epochs=20"]
    with (one.cwd / "output").open("wb") as output:
        return subprocess.Popen(
            [*command, "restart=requeued", "hydra.sweep.dir=sweep", *launcher, *options],
            cwd=one.cwd,
            env={**one.environment, "PYTHONPATH": path},
            stdout=output,
            stderr=subprocess.STDOUT,
        )


SLURM = ("hydra/launcher=submitit_slurm", "hydra.launcher.timeout_min=60")
SLURM += ("hydra.launcher.max_num_timeout=10", "hydra.launcher.partition=gpu")


@submitit
def test_a_job_of_submitit_is_saved_requeued_and_resumed(cluster):
    one = cluster()
    job = one.cwd / "sweep" / "0"
    process = swept(one, SLURM)
    one.until(is_within_an_epoch(job))
    os.kill(status(job)["pid"], signal.SIGUSR2)  # submitit's, before the time limit
    assert process.wait(timeout=SECONDS_AT_MOST) == 0, (one.cwd / "output").read_text()
    assert [status(job.with_name(name))["status"] for name in "01"] == ["done", "done"]
    assert (number_of_starts(job), number_of_starts(job.with_name("1"))) == (2, 1)
    log = (job / "experiment.log").read_text()
    assert "interrupted: SIGUSR2" in log
    trained(one.cwd, *RUN, "num_epochs=20", "seed=1", "hydra.run.dir=straight")
    assert bit_comparison.compare(one.cwd / "straight", job) == []


@submitit
def test_a_job_of_submitit_beyond_its_last_time_limit_fails_by_name(cluster):
    one = cluster()
    job = one.cwd / "sweep" / "0"
    # of a limit below ten minutes submitit takes every signal for the end of the time
    process = swept(one, SLURM, "hydra.launcher.max_num_timeout=0", "hydra.launcher.timeout_min=5")
    one.until(is_within_an_epoch(job))
    os.kill(status(job)["pid"], signal.SIGUSR2)
    assert process.wait(timeout=SECONDS_AT_MOST) == 1
    assert status(job)["status"] == "interrupted"
    output = (one.cwd / "output").read_text()
    assert "Job not requeued because: timed-out too many times" in output
    assert output.count("error: ") == 1


@submitit
def test_the_options_of_the_page_reach_sbatch(cluster):
    one = cluster()
    (command,) = re.findall(r"^PYTHONPATH.*?^python", PAGE, flags=re.M | re.S)
    options = re.findall(r"hydra\.launcher\.\S+", command)
    process = swept(one, SLURM[:1], *options, "num_epochs=1")
    assert process.wait(timeout=SECONDS_AT_MOST) == 0, (one.cwd / "output").read_text()
    (script,) = (one.cwd / "sweep").rglob("*submission.sh")
    directives = script.read_text()
    for expected in ("partition=gpu", "gpus-per-node=1", "cpus-per-task=8", "mem=32GB", "time=240"):
        assert f"#SBATCH --{expected}\n" in directives
    assert "#SBATCH --signal=USR2@120\n" in directives
