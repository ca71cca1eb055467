"""Ten tasks, done by a program that knows AGENTS.md and reads answers; it parses no text.

    python proofs/ten_tasks.py FOLDER

It trains, mends five wrong options, checks, sweeps, takes the best, resumes, kills and resumes,
forks, compares and exports.
"""

import json
import os
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
ANDIRON = (sys.executable, "-m", "andiron")
SMALL = ("model.hidden=[16]", "num_epochs=1")
WRONG = (  # a name of another codebase, a choice, a range, a type, a file
    "learning_rate=0.01", "optimizer=adamm", "batch_size=0", "num_epochs=two",
    "data=csv", "data.path=nowhere.csv", "data.target=label",
)  # fmt: skip
MOST_MENDS = 5
Answer = Mapping[str, Any]
Lines = Sequence[Answer]
Run = Callable[..., tuple[int, Lines]]  # the exit code and the answers of a command


def in_a_process(*arguments: str) -> tuple[int, Lines]:
    """Runs `andiron ARGUMENTS --json` in a process of its own, in the current folder."""
    done = subprocess.run([*ANDIRON, *arguments, "--json"], capture_output=True, check=False)
    return done.returncode, [*map(json.loads, done.stdout.splitlines())]


def result(run: Run, *arguments: str) -> Answer:
    """The last answer of a command that must succeed."""
    code, lines = run(*arguments)
    if code != 0:
        raise SystemExit(f"{arguments}: {lines[-1]}")
    return lines[-1]


def mended(run: Run, command: Sequence[str], own_file: str) -> list[str]:
    """The command with its arguments changed until `check` accepts them, by the fields alone."""
    arguments = [*command]
    for _ in range(MOST_MENDS):
        code, lines = run("check", *arguments)
        if code == 0:
            return arguments
        problems = lines[-1]["error"]["problems"]
        for problem in problems:
            option, wrong, nearest = problem["option"], problem["value"], problem["nearest"]
            place = arguments.index(f"{option}={wrong}")
            if problem["kind"] == "unknown_option":
                arguments[place] = f"{nearest}={wrong}"
            else:
                is_missing = problem["kind"] == "missing_path"
                right = own_file if is_missing else nearest or value(problem["allowed"])
                arguments[place] = f"{option}={right}"
    raise SystemExit(f"not mended: {arguments}: {problems}")


def value(schema: Mapping[str, Any]) -> Any:
    """A value that a JSON Schema allows."""
    if "anyOf" in schema:
        return value(schema["anyOf"][0])
    if "enum" in schema:
        return schema["enum"][0]
    return schema.get("minimum", schema.get("exclusiveMinimum", 0) + 1)


def kill(*arguments: str, after: int) -> None:
    """Starts a command that trains, and kills it at an update."""
    command = [*ANDIRON, *arguments, "--json"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as process:
        for line in process.stdout or ():
            if json.loads(line).get("point", {}).get("updates", 0) >= after:
                process.kill()
                break


def measured(answer: Answer, split: str, metric: str) -> float:
    """The last value of a metric in the result of a run."""
    rows = answer["summary"]["metrics"]
    return next(row["last"] for row in rows if (row["split"], row["metric"]) == (split, metric))


def tasks(run: Run, folder: Path) -> dict[str, Any]:
    """Does the ten tasks in the current folder, `folder`; what each has come to, by its name."""
    done: dict[str, Any] = {}
    first = result(run, "train", *SMALL, "hydra.run.dir=one")
    done["train"] = first["status"], measured(first, "valid", "accuracy")

    rows = "".join(f"{row % 7},{row % 3},{'ab'[row % 2]}\n" for row in range(60))
    (folder / "table.csv").write_text(f"x1,x2,label\n{rows}", encoding="utf-8")
    right = mended(run, WRONG, "table.csv")
    done["mend"] = right

    before = sorted(folder.iterdir())
    checked = result(run, "check", *right), result(run, "check", "--options", *right)
    done["check"] = [answer["checked"] for answer in checked], before == sorted(folder.iterdir())

    grid = "lr=0.01,0.001", "seed=1,2", "hydra.sweep.dir=rates"
    swept = result(run, "train", "-m", *SMALL, *grid)
    done["sweep"] = [job["status"] for job in swept["jobs"]]

    best = result(run, "runs", "best", "rates", "--metric", "valid/loss")
    done["best"] = Path(best["path"]).resolve() == Path(swept["best"]["run"]).resolve()

    resumed = result(run, "train", "resume=one", "num_epochs=2")
    done["resume"] = resumed["summary"]["epochs"]

    long = "model.hidden=[16]", "num_epochs=20", "log_every=1", "hydra.run.dir=killed"
    kill("train", *long, "checkpoint.every=1epochs", after=45)
    state = result(run, "watch", "killed", "--once")["status"]
    revived = result(run, "train", "resume=killed", "num_epochs=4")
    done["kill and resume"] = state, revived["status"], revived["summary"]["epochs"]

    fork = "fork_from=one@latest", "lr=1e-4", "num_epochs=3", "hydra.run.dir=fork"
    forked = result(run, "train", *fork)
    done["fork"] = forked["status"], forked["summary"]["epochs"]

    compared = result(run, "runs", "compare", "one", "fork", "--metric", "valid/loss")
    differing = result(run, "runs", "diff", "one", "fork")["options"]
    done["compare"] = len(compared["groups"]), differing["lr"]

    exported = result(run, "export", "fork", "--format", "safetensors", "--output", "exported")
    done["export"] = Path(exported["path"]).is_file()
    return done


def main() -> int:
    """Does the tasks in a new folder, prints what each has come to; returns the exit code."""
    folder = Path(sys.argv[1]).absolute()
    folder.mkdir(parents=True)
    os.chdir(folder)
    os.environ["PYTHONPATH"] = str(ROOT / "src")
    for name, outcome in tasks(in_a_process, folder).items():
        print(f"{name}: {outcome}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
