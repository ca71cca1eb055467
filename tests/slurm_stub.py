"""Stand-ins for sbatch, srun, scontrol, scancel and sacct, as far as job scripts use them.

`installed(folder)` makes the commands; they keep their jobs in `folder/jobs`. The nodes of a job
are this machine, or the hosts of `proofs.two_hosts`. There is no queue, no limit of time, and no
preemption: a test sends the signals.
"""

import contextlib
import json
import os
import re
import shlex
import signal
import subprocess
import sys
import time
from pathlib import Path

import preloaded

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from proofs import two_hosts  # noqa: E402

COMMANDS = ("sbatch", "srun", "scontrol", "scancel", "sacct")
VALUED = {"--output", "--error"}  # options of srun whose value is the next argument


def installed(folder, *, gpus=1, hosts_of=None):
    """The environment in which the commands are found; `hosts_of` is the process with the hosts."""
    (folder / "jobs").mkdir()
    for name in COMMANDS:
        script = f'#!/bin/sh\nexec {sys.executable} {Path(__file__)} {name} "$@"\n'
        (folder / name).write_text(script)
        (folder / name).chmod(0o755)
    command = preloaded.starting(ROOT / "src", "-m", "torch.distributed.run")
    (folder / "torchrun").write_text(f'#!/bin/sh\nexec {command} "$@"\n')
    (folder / "torchrun").chmod(0o755)
    path = [folder, Path(sys.executable).parent, os.environ["PATH"]]
    stub = {"folder": str(folder), "gpus": gpus, "hosts_of": hosts_of}
    return {
        **os.environ, "PATH": os.pathsep.join(map(str, path)), "SLURM_STUB": json.dumps(stub),
        "OMP_NUM_THREADS": "1",
    }  # fmt: skip


def wait(folder, job, *, seconds=300):
    """The exit code of a job once it has ended and is not queued again."""
    path, deadline = folder / "jobs" / job / "exit_code", time.monotonic() + seconds
    while not path.exists():
        assert time.monotonic() < deadline, f"job {job} did not end"
        time.sleep(0.05)
    return int(path.read_text())


def ended(folder):
    """Kills what is left of the jobs."""
    for path in (folder / "jobs").glob("*/*.pid"):
        with contextlib.suppress(ProcessLookupError):
            os.killpg(int(path.read_text()), signal.SIGKILL)


def _jobs():
    return Path(json.loads(os.environ["SLURM_STUB"])["folder"]) / "jobs"


def sbatch(script, *arguments):
    """Starts a job, or one for each number of its array, and prints the number of the job."""
    options = dict(re.findall(r"--([a-z-]+)=(\S+)", _directives(script)))
    number = str(len(list(_jobs().glob("[0-9]*"))) + 1)
    last = int(re.match(r"0-(\d+)", options["array"])[1]) if "array" in options else None
    for place in [None] if last is None else range(last + 1):
        job = number if place is None else f"{number}_{place}"
        (_jobs() / job).mkdir()
        own = {"SLURM_JOB_ID": number, "SLURM_NNODES": options.get("nodes", "1")}
        if place is not None:
            own |= {"SLURM_ARRAY_JOB_ID": number, "SLURM_ARRAY_TASK_ID": str(place)}
        own |= {
            "SLURM_JOB_NUM_NODES": own["SLURM_NNODES"],
            "SLURM_JOB_NODELIST": "node[1-2]",
            "SLURM_GPUS_ON_NODE": (gpus := str(json.loads(os.environ["SLURM_STUB"])["gpus"])),
            "SLURM_CPUS_PER_TASK": gpus,  # a thread for each process, whatever was asked for
        }
        with (_jobs() / job / "output").open("ab") as output:
            subprocess.Popen(
                [sys.executable, __file__, "supervise", job, script, *arguments],
                env={**os.environ, **own},
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                start_new_session=True,
            )
    print(f"Submitted batch job {number}")


def _directives(script):
    lines = Path(script).read_text().splitlines()
    return " ".join(line for line in lines if line.startswith("#SBATCH "))


def supervise(job, script, *arguments):
    """Runs a job until it ends without having been queued again."""
    folder, restarts = _jobs() / job, 0
    while True:
        environment = {**os.environ, "SLURM_RESTART_COUNT": str(restarts)}
        process = subprocess.Popen(
            ["bash", script, *arguments], env=environment, start_new_session=True
        )
        (folder / "batch.new").write_text(str(process.pid))
        (folder / "batch.new").rename(folder / "batch.pid")
        code = process.wait()
        if not (folder / "requeued").exists():
            break
        (folder / "requeued").unlink()
        restarts += 1
    (folder / "exit_code.new").write_text(str(code))
    (folder / "exit_code.new").rename(folder / "exit_code")


def srun(*arguments):
    """Runs a command on every node of the job, as one step; signals go to all of them."""
    options, command = {}, list(arguments)
    while command[0].startswith("--"):
        name, _, value = command.pop(0).partition("=")
        options[name] = command.pop(0) if name in VALUED else value
    job = _own_job()
    streams = {}
    for name in VALUED & options.keys():
        path = Path(_filled(options[name]))
        path.parent.mkdir(parents=True, exist_ok=True)  # submitit makes it once sbatch has ended
        streams[name.removeprefix("--")] = path.open("ab")
    hosts_of = json.loads(os.environ["SLURM_STUB"])["hosts_of"]
    tasks = []
    for node, host in zip(range(int(os.environ["SLURM_NNODES"])), two_hosts.HOSTS, strict=False):
        there = command if hosts_of is None else two_hosts.on(host, command, of=hosts_of)
        ids = {name: str(node) for name in ("SLURM_PROCID", "SLURM_NODEID")}
        environment = {**os.environ, **ids, "SLURM_LOCALID": "0", "SLURM_NTASKS": "1"}
        tasks.append(
            subprocess.Popen(
                there, env=environment, stdout=streams.get("output"), stderr=streams.get("error")
            )
        )
    (_jobs() / job / "step").write_text(" ".join(str(task.pid) for task in tasks))

    def forward(number, frame):
        for task in tasks:
            task.send_signal(number)

    for number in (signal.SIGTERM, signal.SIGUSR1, signal.SIGUSR2):
        signal.signal(number, forward)
    while any(task.poll() is None for task in tasks):
        if "--kill-on-bad-exit" in options and any(task.poll() for task in tasks):
            for task in tasks:
                task.kill()
        time.sleep(0.05)
    sys.exit(max(abs(task.wait()) for task in tasks))


def _own_job():
    array = os.environ.get("SLURM_ARRAY_JOB_ID")
    return f"{array}_{os.environ['SLURM_ARRAY_TASK_ID']}" if array else os.environ["SLURM_JOB_ID"]


def _filled(pattern):
    names = {"%A": "SLURM_ARRAY_JOB_ID", "%a": "SLURM_ARRAY_TASK_ID", "%j": "SLURM_JOB_ID"}
    for letter, name in names.items():
        pattern = pattern.replace(letter, os.environ.get(name, ""))
    return pattern.replace("%t", "0")


def scontrol(action, argument):
    """`show hostnames` and `requeue`."""
    if action == "requeue":
        (_jobs() / argument / "requeued").touch()
    else:
        print("\n".join(list(two_hosts.HOSTS)[: int(os.environ["SLURM_NNODES"])]))


def scancel(*arguments):
    """Signals the batch shell with --batch, otherwise the step."""
    name = next(part for part in arguments if part.startswith("--signal="))[9:]
    job = next(part for part in arguments if not part.startswith("-"))
    path = _jobs() / job / ("batch.pid" if "--batch" in arguments else "step")
    for pid in shlex.split(path.read_text()):
        os.kill(int(pid), signal.Signals[f"SIG{name}"])


def sacct(*arguments):
    """The states of all jobs."""
    print("JobID|State|NodeList")
    for path in _jobs().iterdir():
        print(f"{path.name}|{'COMPLETED' if (path / 'exit_code').exists() else 'RUNNING'}|node1")


if __name__ == "__main__":
    stand_ins = {"supervise": supervise, "sbatch": sbatch, "srun": srun, "scontrol": scontrol}
    stand_ins |= {"scancel": scancel, "sacct": sacct}
    if sys.argv[1:3] == ["scontrol", "show"]:
        scontrol("show", sys.argv[-1])
    else:
        stand_ins[sys.argv[1]](*sys.argv[2:])
