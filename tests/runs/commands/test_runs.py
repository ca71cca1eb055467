"""`runs list | show | compare | best | diff | rm` over real runs."""

import io
import json
import resource
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import runs_made
from in_process import called

from andiron.run_folder import LEDGER, RunFolder
from andiron.shell.run import claim, run_files, run_record
from andiron.wings.runs import command as runs

ROOT = Path(__file__).resolve().parents[3]
NAMES = ("adam", "sgd-1", "sgd-2")
LOCK = """import fcntl, sys
file = open(sys.argv[1], "rb+")
fcntl.lockf(file, fcntl.LOCK_EX)
print(flush=True)
input()
"""


@pytest.fixture(scope="module")
def trained(finished_digits, tmp_path_factory):
    """A folder with a run of Adam and two of SGD with other seeds, as if they had been trained."""
    folder = tmp_path_factory.mktemp("trained")
    for number, name in enumerate(NAMES):
        run = RunFolder(folder / "outputs" / name)
        shutil.copytree(finished_digits, run.path)
        config, summary, status = (
            json.loads(path.read_text()) for path in (run.config, run.summary, run.status)
        )
        config |= {"seed": number, "lr": 0.01 if number else 0.03}
        if number:
            config["optimizer"]["_target_"] = "torch.optim.SGD"
        for row in summary["metrics"]:
            row |= {value: row[value] * (1 - number / 10) for value in ("best", "last")}
        status["started"] = f"2026-11-22T07:{10 + number}:00+00:00"
        for path, content in ((run.config, config), (run.summary, summary), (run.status, status)):
            path.write_text(json.dumps(content, indent=2))
        run_record.accept(run)
    return folder


@pytest.fixture
def here(trained, tmp_path):
    """A copy of the runs, to be changed."""
    shutil.copytree(trained, tmp_path, dirs_exist_ok=True)
    return tmp_path


def words(*arguments, cwd, code=0):
    ended = called(runs.main, *arguments, cwd=cwd)
    assert ended.code == code, (ended.output, ended.errors)
    return ended.output if code == 0 else ended.errors


def test_the_list_has_a_row_for_each_run_and_the_options_that_differ(trained):
    header, *rows = words("list", cwd=trained).splitlines()

    assert header.split() == [
        "path", "status", "seed", "lr", "optimizer", "epochs", "valid/loss", "last", "started",
        "time",
    ]  # fmt: skip
    assert [row.split()[:6] for row in rows] == [
        ["outputs/adam", "done", "0", "0.03", "Adam", "2"],
        ["outputs/sgd-1", "done", "1", "0.01", "SGD", "2"],
        ["outputs/sgd-2", "done", "2", "0.01", "SGD", "2"],
    ]


def test_the_list_is_filtered_sorted_and_has_the_columns_asked_for(trained):
    where = "--where", "optimizer=sgd", "--where", "lr<5e-2"
    columns = "--columns", "seed,valid/accuracy,accuracy.last,status"
    rows = words("list", *where, "--columns", "seed", "--sort", "seed", "--reverse", cwd=trained)
    assert [row.split()[1] for row in rows.splitlines()] == ["seed", "2", "1"]
    assert "give one of train/accuracy.last" in words("list", *columns, cwd=trained, code=2)
    best = json.loads(words("list", "--sort", "valid/accuracy", "--json", cwd=trained))["runs"]
    values = [row["metrics"]["valid/accuracy"]["best"] for row in best]
    assert values == sorted(values, reverse=True)  # accuracy is better the higher it is
    arguments = "--sort", "valid/loss", "--reverse", "--json"
    worst = json.loads(words("list", *arguments, cwd=trained))["runs"]
    losses = [row["metrics"]["valid/loss"]["best"] for row in worst]
    assert losses == sorted(losses, reverse=True)
    nothing = called(runs.main, "list", "--where", "lr=7", cwd=trained)
    assert (nothing.code, nothing.output, nothing.errors) == (0, "", "no runs\n")


def test_json_has_everything_of_the_summary(trained):
    row = json.loads(words("list", "outputs/adam", "--json", cwd=trained))["runs"][0]
    summary = json.loads((trained / "outputs/adam/summary.json").read_text())

    assert row["options"]["optimizer"] == "Adam"
    assert isinstance(row["options"]["model.hidden"], list)
    assert row["epochs"] == summary["epochs"] and row["problems"] == []
    for entry in summary["metrics"]:
        expected = {name: value for name, value in entry.items() if name not in ("split", "metric")}
        assert row["metrics"][f"{entry['split']}/{entry['metric']}"] == expected


def test_the_best_run_is_printed_as_a_folder(trained):
    rows = json.loads(words("list", "--json", cwd=trained))["runs"]
    by_accuracy = {row["metrics"]["valid/accuracy"]["best"]: row["path"] for row in rows}

    best = words("best", "--metric", "valid/accuracy", cwd=trained)
    assert best == by_accuracy[max(by_accuracy)] + "\n"
    more = json.loads(words("best", "--metric", "valid/accuracy", "--json", cwd=trained))
    assert more["chosen_by"] == {
        "metric": "valid/accuracy", "direction": "highest", "value": max(by_accuracy), "runs": 3,
    }  # fmt: skip
    lowest = words("best", "--metric", "valid/accuracy", "--direction", "lowest", cwd=trained)
    assert lowest == by_accuracy[min(by_accuracy)] + "\n"
    assert "f1: no run here has it" in words("best", "--metric", "f1", cwd=trained, code=2)
    assert "no run in empty" in words("best", _made(trained / "empty").name, cwd=trained, code=2)


def test_a_sweep_is_judged_by_its_objective_and_a_mixture_says_by_what(here):
    rows = json.loads(words("list", "--json", cwd=here))["runs"]
    values = [row["metrics"]["valid/accuracy"]["best"] for row in rows]
    best = rows[values.index(max(values))]["path"]
    by_loss = words("best", cwd=here)
    ledger = here / "outputs" / LEDGER
    ledger.write_text(json.dumps({"event": "sweep", "objective": "valid/accuracy.last"}) + "\n")

    assert words("best", "outputs", cwd=here) == f"{best}\n" != by_loss
    assert "valid/accuracy" in words("list", cwd=here).splitlines()[0]
    shutil.copytree(here / "outputs" / "adam", here / "multirun" / "alone")
    ended = called(runs.main, "best", cwd=here)
    assert "by valid/accuracy.last; some runs follow valid/loss" in ended.errors
    assert ended.output == f"{best}\n"


def _made(path):
    path.mkdir(exist_ok=True)
    return path


def test_runs_that_differ_only_in_seed_are_compared_as_one(trained, tmp_path):
    shown = words("compare", "--metric", "valid/accuracy", "--png", tmp_path / "c", cwd=trained)
    compared = json.loads(words("compare", "--metric", "valid/accuracy", "--json", cwd=trained))
    rows = compared["groups"]

    assert sorted(len(row["runs"]) for row in rows) == [1, 2]
    (pair,) = [row for row in rows if len(row["runs"]) == 2]
    assert pair["options"] == {"lr": 0.01, "optimizer": "SGD"} and pair["seeds"] == [1, 2]
    values = [
        json.loads(words("show", run, "--json", cwd=trained))["metrics"]["test/loss"]["best"]
        for run in pair["runs"]
    ]
    assert pair["metrics"]["test/loss"]["mean"] == pytest.approx(sum(values) / 2, rel=1e-12)
    assert "±" in shown and shown.splitlines()[-1].split()[-1] == "updates"
    assert (tmp_path / "c").read_bytes().startswith(b"\x89PNG")


def test_a_run_is_shown_with_a_line_for_each_value_and_only_as_it_was_written(here):
    shown = words("show", "outputs/adam", cwd=here)

    (packages,) = [line for line in shown.splitlines() if line.startswith("packages ")]
    assert len(packages) > 100  # a file and a pipe have no width
    for part in ("done, last", "valid/accuracy", "torch.optim.Adam", "git.revision", "hidden"):
        assert part in shown
    summary = here / "outputs/adam/summary.json"
    summary.write_text(summary.read_text().replace('"epochs": 2', '"epochs": 3'))
    assert "was changed since the run wrote it" in words("show", "outputs/adam", cwd=here, code=1)
    assert "was changed" in words("diff", "outputs/sgd-1", "outputs/adam", cwd=here, code=1)
    assert "holds no run" in words("show", "outputs", cwd=here, code=1)


def test_latest_is_the_newest_run(here):
    (here / "outputs/2026-11-22").mkdir()
    assert words("show", "latest", cwd=here).startswith("outputs/sgd-2\n")
    for name in ("adam", "sgd-2"):
        (here / "outputs" / name).rename(here / "outputs/2026-11-22" / name)
    assert words("show", "latest", cwd=here).startswith("outputs/2026-11-22/sgd-2\n")
    rows = words("list", "latest", "--columns", "seed", cwd=here).splitlines()
    assert [row.split() for row in rows[1:]] == [["outputs/2026-11-22/sgd-2", "2"]]


def test_runs_are_found_where_the_pages_put_them(here):
    shutil.move(here / "outputs", here / "runs")
    (here / "link").symlink_to(here / "runs")
    (here / "network").mkdir()
    (here / "network" / "config.json").write_text("{}")  # of another program

    assert words("list", cwd=here).count("runs/") == len(NAMES)
    assert words("best", cwd=here).startswith("runs/")
    assert words("show", "latest", cwd=here).startswith("runs/sgd-2")


def test_two_runs_differ_in_what_is_printed(trained):
    record = json.loads(words("diff", "outputs/sgd-1", "outputs/sgd-2", "--json", cwd=trained))

    assert record["options"] == {"seed": [1, 2]} and record["provenance"] == {}
    assert "valid/loss.best" in record["metrics"]
    shown = words("diff", "outputs/sgd-1", "outputs/sgd-2", cwd=trained)
    assert "provenance: no difference" in shown


def test_only_what_the_run_wrote_is_removed(here):
    (here / "outputs/adam/notes.txt").write_text("mine")
    (here / "outputs/sgd-1/checkpoints/mine").write_text("mine")
    (here / "outside").mkdir()
    (here / "outside" / "events.out.tfevents.1").write_text("kept")
    (here / "outputs/sgd-2/tensorboard/more").symlink_to(here / "outside")

    assert "name the runs to remove" in words("rm", cwd=here, code=2)
    assert "give --yes" in words("rm", "outputs", cwd=here, code=2)
    damaged = here / "outputs/sgd-1/checkpoints/step-1"
    damaged.mkdir()
    (damaged / "manifest.json").write_text('{"files": {"a\\u0000b": {}}}')
    ended = called(runs.main, "rm", "outputs", "--yes", cwd=here)
    assert ended.code == 1
    assert ended.output.splitlines() == [
        "removed: outputs/adam (left there: notes.txt)",
        "removed: outputs/sgd-1 (left there: checkpoints/mine, checkpoints/step-1/manifest.json)",
    ]
    assert "outputs/sgd-2: tensorboard/more: a link" in ended.errors
    left = [path for path in here.rglob("*") if path.is_file() and "sgd-2" not in path.parts]
    assert sorted(path.relative_to(here).as_posix() for path in left) == [
        "outputs/adam/notes.txt", "outputs/sgd-1/checkpoints/mine",
        "outputs/sgd-1/checkpoints/step-1/manifest.json", "outside/events.out.tfevents.1",
    ]  # fmt: skip
    assert RunFolder(here / "outputs/sgd-2").has_checkpoint()


def test_the_status_of_a_stranger_is_escaped_before_the_question(here, monkeypatch):
    pytest.importorskip("andiron_lab", reason="has `runs rm`")
    (here / "outputs" / "adam" / "status.json").write_text('{"status": "\\u001b[2J\\u202edone"}')
    terminal = io.StringIO("n\n")
    terminal.isatty = lambda: True
    monkeypatch.setattr(sys, "stdin", terminal)
    ended = called(runs.main, "rm", "outputs/adam", cwd=here)
    assert (ended.code, ended.errors) == (1, "nothing was changed\n")
    assert ended.output.startswith(r"\x1b[2J\u202edone outputs/adam")


@pytest.mark.parametrize("place", ["link", "link/sgd-1", "inner/link/../outputs", "inner/link/.."])
def test_no_run_is_removed_through_a_link(here, place):
    """A link's target is not visible in its name; `..` after a link leads elsewhere, too."""
    (here / "link").symlink_to(here / "outputs", target_is_directory=True)
    (here / "inner").mkdir()
    (here / "inner" / "link").symlink_to(here / "outputs", target_is_directory=True)
    before = runs_made.content(here)
    refused = words("rm", place, "--yes", cwd=here, code=1)
    assert f"leads through a link; name {here / 'outputs/sgd-1'} itself" in refused
    assert runs_made.content(here) == before


def test_a_run_among_the_files_of_another_is_not_removed_with_it(here):
    outer, inner = here / "outputs/adam", here / "outputs/adam/checkpoints/step-3"
    shutil.copytree(here / "outputs/sgd-1", inner)
    before = runs_made.content(here)
    refused = words("rm", inner.relative_to(here), "--yes", cwd=here, code=1)
    assert f"is among the files of the run in {outer}; move it elsewhere first" in refused
    assert runs_made.content(here) == before

    before = runs_made.content(inner)
    words("rm", "outputs/adam", "--yes", cwd=here)
    assert runs_made.content(outer) == before


def test_the_run_that_was_being_replaced_is_removed(here):
    """A process that was killed before the new run had begun: the earlier one is in the folder."""
    folder = RunFolder(here / "outputs/adam")
    with pytest.raises(RuntimeError), pytest.MonkeyPatch.context() as patch:
        patch.setattr(run_files, "undo", lambda *_: None)
        with claim.claimed(folder, overwrite=True):
            raise RuntimeError
    assert run_files.is_aside(folder) and not folder.summary.exists()
    words("rm", "outputs/adam", "--yes", cwd=here)
    assert not folder.path.exists()


def test_a_run_that_trains_is_not_touched(here):
    folder = RunFolder(here / "outputs/adam")
    folder.status.write_text(json.dumps({"status": "running", "pid": 1}))
    command = [sys.executable, "-c", LOCK, str(folder.log)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        process.stdout.readline()
        listed = json.loads(words("list", "outputs/adam", "--json", cwd=here))["runs"]
        before = sorted(folder.path.rglob("*"))
        removed = words("rm", "outputs/adam", "--yes", cwd=here, code=1)
        process.communicate(b"\n")

    assert listed[0]["status"] == "running"
    assert "is still training" in removed
    assert sorted(folder.path.rglob("*")) == before
    (killed,) = json.loads(words("list", "outputs/adam", "--json", cwd=here))["runs"]
    assert killed["status"] == "killed"


def test_a_thousand_runs_are_listed_in_a_few_readings_of_their_files_without_torch(
    trained, tmp_path
):
    names = ("config.json", "summary.json", "status.json", "manifest.json")
    for number in range(1000):
        folder = tmp_path / f"{number % 25}" / f"{number}"
        for inner in ("checkpoints", "tensorboard"):
            (folder / inner).mkdir(parents=True)
        source = trained / "outputs" / NAMES[number % len(NAMES)]
        for name in names:
            (folder / name).write_bytes((source / name).read_bytes())
    read = "import json, pathlib, sys; " + (
        "[json.loads(path.read_text()) for path in pathlib.Path(sys.argv[1]).rglob('*.json')]"
    )
    script = f"import sys; sys.path.insert(0, {str(ROOT / 'src')!r}); " + (
        "from andiron.wings.runs import command as runs; code = runs.main(); "
        "print('torch' in sys.modules, file=sys.stderr); sys.exit(code)"
    )

    _, reading = _timed([sys.executable, "-c", read, str(tmp_path)])
    done, listing = _timed([sys.executable, "-c", script, "list", str(tmp_path), "--json"])

    assert listing < 8 * reading  # 3 times; a thousand runs in 1.1 s on a core of an AMD EPYC
    assert len(json.loads(done.stdout)["runs"]) == 1000
    assert done.stderr == "False\n"


def _timed(command):
    before = _cpu_seconds()
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return done, _cpu_seconds() - before


def _cpu_seconds():
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def test_runs_alone_lists_its_commands():
    ended = called(runs.main)
    assert ended.code == 2
    for name in ("list", "show", "compare", "best", "diff", "rm"):
        assert f"\n    {name} " in ended.output
