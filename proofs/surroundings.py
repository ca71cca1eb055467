"""Surroundings that break: each run has the bits of an undisturbed one, or ends with a clear error.

    python -m proofs.surroundings [--only TEXT] [--jobs N] [--keep FOLDER]

Each surrounding is a line of bash around a real `python train.py`, in a folder of its own: standard
streams that are closed, full or broken, terminals that vanish, signals, limits, odd environments.
"""

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

from andiron import errors
from andiron.run_folder import RunFolder
from andiron.shell.run import status
from andiron_lab.ask import bit_comparison

ROOT = Path(__file__).resolve().parents[1]
SECONDS_AT_MOST = 300
OVERRIDES = (
    "model.hidden=[32] batch_size=20 num_epochs=6 log_every=10 checkpoint.every=20 "
    "restart=requeued device=cpu"
)
SAME, RESUMED, REFUSED = "same bits", "same bits once resumed", "a clear error"
# what the lines below may use; `trains` waits for the first log point, `train` is the command
PRELUDE = f"""
train="{sys.executable} {ROOT}/train.py {OVERRIDES} hydra.run.dir=run"
terminal="{sys.executable} -m proofs.terminal"
echo 'import os, sys; os.set_blocking(1, False); os.write(1, bytes(2**16))
os.execv(sys.argv[1], sys.argv[1:])' > unblocked.py
unblocked="{sys.executable} unblocked.py"
trains() {{ until [ -s run/metrics.jsonl ]; do kill -0 $pid || return; sleep 0.01; done; }}
starts() {{ until [ -e run/status.json ]; do kill -0 $pid || return; sleep 0.001; done; }}
"""


class Surrounding(NamedTuple):
    """A line of bash, and how the run in it ends."""

    name: str
    bash: str
    ends: str = SAME


STREAMS = (
    Surrounding("standard output closed", "$train >&-"),
    Surrounding("standard error closed", "$train 2>&-"),
    Surrounding("every stream closed", "$train <&- >&- 2>&-"),
    Surrounding("output to a full device", "$train > /dev/full"),
    Surrounding("both outputs to a full device", "$train > /dev/full 2>&1"),
    Surrounding("live progress on a full device", "$train render=live > /dev/full 2>&1"),
    Surrounding("the reader leaves after a line", "$train | head -n 1; exit ${PIPESTATUS[0]}"),
    Surrounding("the reader never reads", "$train | true; exit ${PIPESTATUS[0]}"),
    Surrounding("the reader of the errors is gone", "$train 2> >(true)"),
    Surrounding("output open for reading only", "$train 1< /dev/null 2<&1"),
    Surrounding(
        "the log reaches the size limit",
        "head -c 999500 /dev/zero > log; ulimit -f 976; $train >> log 2>&1",
    ),
    Surrounding("output that nobody reads", "mkfifo p; sleep 60 < p & $train > p"),
    Surrounding(
        "SIGTERM while output waits for its reader",
        "mkfifo p; sleep 100 < p & reader=$!; $train log_every=1 num_epochs=600 render=plain "
        "> p & pid=$!; trains; sleep 3; kill -TERM $pid; wait $pid; code=$?; kill $reader; "
        "[ $code = 75 ] && grep -q SIGTERM run/status.json && rm -r run && $train",
    ),
    Surrounding(
        "a sweep on a full device",
        "${train/ model/ -m model} seed=42,7 hydra.sweep.dir=sweep > /dev/full 2>&1 && "
        "mv sweep/0 run",
    ),
    Surrounding(
        "output that does not wait for its reader",
        "$unblocked $train | (sleep 9; cat > /dev/null); exit ${PIPESTATUS[0]}",
    ),
)
TERMINALS = (
    Surrounding("a terminal", "$terminal $train"),
    Surrounding("a terminal without a size", "$terminal --size 0 0 $train"),
    Surrounding("a terminal of one column", "$terminal --size 1 1 $train"),
    Surrounding("a dumb terminal", "TERM=dumb $terminal $train"),
    Surrounding("a terminal that vanishes", "$terminal --vanishes-after 3 $train", RESUMED),
    Surrounding("a terminal that vanishes at once", "$terminal --vanishes-after 1 $train", RESUMED),
    Surrounding(
        "nohup, and the terminal vanishes", "$terminal --vanishes-after 3 nohup $train render=plain"
    ),
    Surrounding(
        "SIGHUP ignored, the terminal vanishes",
        """$terminal --vanishes-after 3 bash -c "trap '' HUP; exec $train" """,
    ),
    Surrounding(
        "another session, the terminal vanishes",
        "$terminal --vanishes-after 3 setsid -w $train; until grep -q done run/status.json; "
        "do sleep 0.1; done",
    ),
)
SIGNALS = (
    *(
        Surrounding(f"SIG{name}", f"$train & pid=$!; trains; kill -{name} $pid; wait $pid", RESUMED)
        for name in ("TERM", "INT", "HUP", "USR1", "USR2", "XCPU", "KILL")
    ),
    Surrounding(
        "SIGTERM before the first update",
        "$train & pid=$!; starts; kill -TERM $pid; wait $pid",
        RESUMED,
    ),
    Surrounding(
        "SIGTERM while torch is imported",
        "$train & pid=$!; starts; sleep 0.3; kill -TERM $pid; wait $pid",
        RESUMED,
    ),
    Surrounding(
        "SIGTERM twice",
        "$train & pid=$!; trains; kill -TERM $pid; kill -TERM $pid; wait $pid",
        RESUMED,
    ),
    Surrounding(
        "SIGTERM until the end",
        "$train & pid=$!; trains; while kill -TERM $pid; do sleep 0.01; done; wait $pid",
        RESUMED,
    ),
    Surrounding(
        "Ctrl-C twice",
        "$train & pid=$!; trains; kill -INT $pid; sleep 0.05; kill -INT $pid; wait $pid",
        RESUMED,
    ),
    Surrounding(
        "SIGSTOP and SIGCONT",
        "$train & pid=$!; trains; kill -STOP $pid; sleep 0.5; kill -CONT $pid; wait $pid",
    ),
    Surrounding(
        "SIGTERM to the group, with workers",
        "set -m; $train num_workers=1 & pid=$!; trains; kill -TERM -$pid; wait $pid",
        RESUMED,
    ),
    Surrounding("nohup and SIGHUP", "nohup $train & pid=$!; trains; kill -HUP $pid; wait $pid"),
    Surrounding("timeout", "timeout 5 $train num_workers=0", RESUMED),
)
LIMITS = (
    Surrounding(
        "no file may have a byte",
        "(ulimit -f 0; $train) 2>&1 | cat; exit ${PIPESTATUS[0]}",
        REFUSED,
    ),
    Surrounding("files of 4 KiB", "ulimit -f 4; $train", REFUSED),
    Surrounding("files of 12 KiB", "ulimit -f 12; $train", REFUSED),
    Surrounding("files smaller than a checkpoint", "ulimit -f 16; $train log_every=1000", REFUSED),
    Surrounding("20 open files, with workers", "ulimit -n 20; $train num_workers=2", REFUSED),
    Surrounding("64 open files, with workers", "ulimit -n 64; $train num_workers=2"),
    Surrounding("24 open files", "ulimit -n 24; $train"),
    Surrounding("a hundred thousand workers", "$train num_workers=100000", REFUSED),
    Surrounding("2 GB of addresses", "ulimit -v 2000000; $train", REFUSED),
    Surrounding(
        "a network larger than the memory", "$train model.hidden=[4000000,4000000]", REFUSED
    ),
    Surrounding("4 seconds of processor time", "ulimit -S -t 4; $train", RESUMED),
    Surrounding("no core dumps, a small stack", "ulimit -c 0; ulimit -s 1024; $train"),
)
ENVIRONMENT = (
    Surrounding("an empty environment", "env -i OMP_NUM_THREADS=1 $train"),
    Surrounding("no HOME", "unset HOME; $train"),
    Surrounding("a HOME that is missing", "HOME=/nonexistent $train"),
    Surrounding("no program on the PATH", "PATH= $train"),
    Surrounding("a git folder that is missing", "GIT_DIR=/nonexistent $train"),
    Surrounding("TMPDIR is missing", "TMPDIR=/nonexistent $train"),
    Surrounding("the C locale", "LC_ALL=C LANG=C $train"),
    Surrounding("the C locale without UTF-8", "LC_ALL=C PYTHONUTF8=0 PYTHONCOERCECLOCALE=0 $train"),
    Surrounding("output in ASCII", "PYTHONIOENCODING=ascii $train"),
    Surrounding("output in UTF-16", "PYTHONIOENCODING=utf-16 $train"),
    Surrounding("one column", "COLUMNS=1 $train"),
    Surrounding("no columns", "COLUMNS=0 LINES=0 $train"),
    Surrounding("a terminal of another kind", "TERM=unknown-kind $train"),
    Surrounding("no bytecode, other hashes", "PYTHONHASHSEED=7 PYTHONDONTWRITEBYTECODE=1 $train"),
    Surrounding("without docstrings", "PYTHONOPTIMIZE=2 $train"),
    Surrounding("a time zone that is missing", "TZ=Nowhere/Town $train"),
    Surrounding("a GPU that is missing", "CUDA_VISIBLE_DEVICES=7 $train"),
    Surrounding("an unwritable directory", 'cd /proc; $train hydra.run.dir="$OLDPWD/run"'),
    Surrounding("the default folder is unwritable", "cd /proc; $train hydra.run.dir=run", REFUSED),
    Surrounding("a directory that was removed", "mkdir d; cd d; rmdir ../d; $train", REFUSED),
    Surrounding("a directory with a name of its own", "mkdir 'ä b'; cd 'ä b'; $train; mv run .."),
    Surrounding(
        "a directory that is no text", "cd $(mkdir $'\\xff' && echo $'\\xff'); $train", REFUSED
    ),
    Surrounding("an argument that is no text", "$train data=$'\\xff'", REFUSED),
    Surrounding("torchrun", "WORLD_SIZE=2 RANK=1 LOCAL_RANK=1 $train", REFUSED),
    Surrounding("mpirun", "OMPI_COMM_WORLD_SIZE=2 $train", REFUSED),
    Surrounding(
        "a configuration that cannot be read",
        "mkdir -p run/config.json; $train resume=run",
        REFUSED,
    ),
    Surrounding("a new session", "setsid -w $train"),
    Surrounding("no standard input", "$train < /dev/null"),
    Surrounding("the lowest priority", "nice -n 19 $train"),
)
SURROUNDINGS = (*STREAMS, *TERMINALS, *SIGNALS, *LIMITS, *ENVIRONMENT)


def straight(folder: Path) -> Path:
    """An undisturbed run in the folder.

    Raises: RunFolderError if it fails.
    """
    folder.mkdir()
    code, output = _ran("$train", folder)
    if code:
        raise errors.RunFolderError(f"the undisturbed run ended with {code}:\n{output}")
    return folder / "run"


def faults(surrounding: Surrounding, folder: Path, expected: Path) -> list[str]:
    """Faults in how a run ends in a surrounding; `expected` is the undisturbed run."""
    folder.mkdir()
    code, output = _ran(surrounding.bash, folder)
    if code is None:
        return [f"took more than {SECONDS_AT_MOST} s"]
    if "Traceback (most recent call last)" in output:
        return [f"ended with {code} and a traceback:\n{output}"]
    if surrounding.ends == REFUSED:
        return list(_unclear(code, output, folder))
    if surrounding.ends == RESUMED and code:
        code, output = _ran("$train", folder)
    if code:
        return [f"ended with {code}:\n{output}"]
    return [str(value) for value in bit_comparison.compare(expected, folder / "run")]


def _unclear(code: int, output: str, folder: Path) -> Iterator[str]:
    result = status.read(RunFolder(folder / "run")).get("status")
    if code == 0:
        yield "ended with 0"
    if "error: " not in output:
        yield f"says no error:\n{output}"
    if code > 128:
        yield f"was killed by signal {code - 128}:\n{output}"
    if result in ("done", "running") and "byte" not in output:
        yield f"says in status.json that it is {result}"


def _ran(bash: str, folder: Path) -> tuple[int | None, str]:
    """The exit code of a line of bash in the folder, None if it hangs, and its output."""
    path = os.pathsep.join([str(ROOT), str(ROOT / "src")])
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": path}
    limit = "timeout", "--foreground", "-k", "5", str(SECONDS_AT_MOST)
    with (folder / "said").open("w+b") as said:
        try:
            code = subprocess.run(
                [*limit, "bash", "-c", PRELUDE + bash], cwd=folder, env=environment,
                stdin=subprocess.DEVNULL, stdout=said, stderr=said, timeout=SECONDS_AT_MOST + 20,
            ).returncode  # fmt: skip
        except subprocess.TimeoutExpired:
            return None, ""
        said.seek(0)
        return code, said.read().decode(errors="replace")


def show(surroundings: Iterable[Surrounding], below: Path, jobs: int) -> int:
    """Runs the surroundings, prints a line for each; the number that are faulty."""
    expected = straight(below / "straight")

    def one(numbered: tuple[int, Surrounding]) -> bool:
        number, surrounding = numbered
        folder = below / f"{number}"
        try:
            result = faults(surrounding, folder, expected)
        except errors.AndironError as error:
            result = [str(error)]
        print(f"{surrounding.name}: {'; '.join(result) or surrounding.ends}", flush=True)
        return bool(result)

    with ThreadPoolExecutor(jobs) as pool:
        return sum(pool.map(one, enumerate(surroundings)))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", default="", metavar="TEXT", help="those with this in their name")
    parser.add_argument("--jobs", type=int, default=2, metavar="N", help="at a time (default: 2)")
    parser.add_argument("--keep", type=Path, metavar="FOLDER", help="where to make the runs")
    options = parser.parse_args()
    chosen = [value for value in SURROUNDINGS if options.only in value.name]
    below = (options.keep or Path(tempfile.mkdtemp(prefix="andiron-surroundings-"))).absolute()
    below.mkdir(parents=True, exist_ok=True)
    number = show(chosen, below, options.jobs)
    print(f"{len(chosen) - number} of {len(chosen)} surroundings end as they should")
    if not options.keep:
        shutil.rmtree(below)
    return 1 if number else 0


if __name__ == "__main__":
    sys.exit(main())
