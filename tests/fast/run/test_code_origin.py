"""The code on record: every repository whose code runs, and other modules; no program is run."""

import gc
import hashlib
import importlib.metadata
import re
import subprocess
import sys
import threading

import pytest

import andiron
from andiron.shell.run import code_origin, provenance


def git(folder, *arguments):
    person = ("-c", "user.name=A", "-c", "user.email=a@example.org")
    command = ["git", "-C", folder, *person, *arguments]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()


@pytest.fixture
def project(tmp_path, monkeypatch):
    """A repository with a module of one's own, imported; the working folder is elsewhere."""
    folder = tmp_path / "my_project"
    folder.mkdir()
    (folder / "origin_parts.py").write_text("lr = 1\n")
    git(folder, "init", "-q")
    git(folder, "add", ".")
    git(folder, "commit", "-qm", "first")
    monkeypatch.syspath_prepend(folder)
    monkeypatch.chdir(tmp_path)
    importlib.import_module("origin_parts")
    yield folder
    del sys.modules["origin_parts"]


def test_the_repository_of_an_imported_module_is_recorded(project):
    record, patches = code_origin.gather()
    assert record["projects"]["my_project"] == {
        "root": str(project),
        "revision": git(project, "rev-parse", "HEAD"), "dirty": False, "uncommitted": None,
        "untracked": [],
    }  # fmt: skip
    assert "origin_parts" not in record["modules"]


def test_uncommitted_changes_differ_by_name_and_their_patch_applies(project, tmp_path):
    before, _ = code_origin.gather()
    (project / "origin_parts.py").write_text("lr = 2\n")
    record, patches = code_origin.gather()

    (name,) = provenance.differences(before, record)
    assert name == "projects.my_project.uncommitted"
    file = record["projects"]["my_project"]["uncommitted"]
    (tmp_path / "patch").write_bytes(patches[file])
    git(tmp_path, "clone", "-q", project, "again")
    git(tmp_path / "again", "apply", tmp_path / "patch")
    assert (tmp_path / "again" / "origin_parts.py").read_text() == "lr = 2\n"


def test_the_working_folder_and_that_of_the_configuration_are_recorded(tmp_path, monkeypatch):
    for name in ("here", "conf"):
        git(tmp_path, "init", "-q", name)
        git(tmp_path / name, "commit", "-q", "--allow-empty", "-m", "first")
    monkeypatch.chdir(tmp_path / "here")
    assert {"here", "conf"} <= {*code_origin.gather([tmp_path / "conf"])[0]["projects"]}


def test_a_module_that_no_repository_tracks_has_its_checksum(project):
    git(project, "rm", "-q", "--cached", "origin_parts.py")
    recorded = code_origin.gather()[0]["modules"]["origin_parts"]
    assert recorded == {
        "path": str(project / "origin_parts.py"), "bytes": 7,
        "sha256": hashlib.sha256(b"lr = 1\n").hexdigest(),
    }  # fmt: skip


def test_a_signal_that_raises_as_the_thread_starts_leaves_no_thread(monkeypatch):
    """The exit of the process would wait for it."""
    start, started = threading.Thread.start, []

    def interrupted(thread):
        start(thread)
        started.append(thread)
        raise KeyboardInterrupt

    monkeypatch.setattr(threading.Thread, "start", interrupted)
    monkeypatch.setattr(code_origin, "gather", lambda config_dirs: None)
    with pytest.raises(KeyboardInterrupt) as kept:  # and with it the frames, as an interrupter does
        code_origin.Gathering()
    (thread,) = started
    thread.join(20)
    assert not thread.is_alive() and kept.tb


def test_a_module_that_is_imported_while_the_code_is_gathered_counts(project):
    git(project, "rm", "-q", "--cached", "origin_parts.py")
    module = sys.modules.pop("origin_parts")
    before, until_it_is_fixed = code_origin.Gathering(), code_origin.Gathering()
    assert before() == code_origin.gather()
    sys.modules["origin_parts"] = module
    assert "origin_parts" not in before()[0]["modules"]
    assert "origin_parts" in until_it_is_fixed()[0]["modules"]


def test_runs_are_not_untracked_files(project):
    for folder in ("outputs/2020-01-01", "sub/multirun/a", "my_run", "notes"):
        (project / folder).mkdir(parents=True)
    (project / "sub" / "tracked.py").touch()
    git(project, "add", "sub/tracked.py")
    for file in ("outputs/2020-01-01/a", "sub/multirun/a/b", "my_run/status.json", "notes/a"):
        (project / file).touch()
    assert code_origin.gather()[0]["projects"]["my_project"]["untracked"] == ["notes/"]


def test_runs_in_any_folder_are_not_untracked_files(project):
    (project / ".gitignore").write_text("*.txt\n")
    files = (
        "runs/best/status.json", "runs/best/checkpoints/step-5/state.json", "runs/best/output.txt",
        "runs/grid/sweep.jsonl", "runs/grid/output/0.log", "runs/deep/er/one/status.json",
        "mixed/one/status.json", "mixed/notes/a",
    )  # fmt: skip
    for name in files:
        (project / name).parent.mkdir(parents=True, exist_ok=True)
        (project / name).touch()
    untracked = code_origin.gather()[0]["projects"]["my_project"]["untracked"]
    assert untracked == [".gitignore", "mixed/"]

    (project / "mixed" / "tracked.py").touch()
    git(project, "add", "mixed/tracked.py")
    untracked = code_origin.gather()[0]["projects"]["my_project"]["untracked"]
    assert untracked == [".gitignore", "mixed/notes/"]


def test_an_installed_package_is_recorded_by_its_checksum(tmp_path, monkeypatch):
    package = tmp_path / "site-packages" / "andiron"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text("")
    git(tmp_path, "init", "-q")  # an environment inside a project: not Andiron's repository
    git(tmp_path, "commit", "-q", "--allow-empty", "-m", "first")
    monkeypatch.setattr(andiron, "__file__", str(package / "__init__.py"))
    record, _ = code_origin.gather()
    assert record["git"] is None
    before = record["modules"]["andiron"]["sha256"]
    (package / "more.py").write_text("lr = 1\n")
    assert code_origin.gather()[0]["modules"]["andiron"]["sha256"] != before


HOOK = "#!/bin/sh\ntouch {marker}\ncat\n"


@pytest.mark.parametrize("is_filter_odd", [False, True])
def test_no_program_that_a_repository_names_is_started(tmp_path, monkeypatch, is_filter_odd):
    folder, marker, program = tmp_path / "got", tmp_path / "executed", tmp_path / "program"
    git(tmp_path, "init", "-q", "got")
    (folder / "data.txt").write_text("one\n")
    driver = "a=b" if is_filter_odd else "evil"
    (folder / ".gitattributes").write_text(f"* filter={driver} diff=evil\n")
    git(folder, "add", ".")
    git(folder, "commit", "-qm", "first")
    program.write_text(HOOK.format(marker=marker))
    program.chmod(0o755)
    hooks = folder / ".git" / "hooks"
    hooks.mkdir(exist_ok=True)
    for name in ("post-index-change", "fsmonitor-watchman", "query-watchman", "post-checkout"):
        (hooks / name).write_text(HOOK.format(marker=marker))
        (hooks / name).chmod(0o755)
    for name in (
        "core.fsmonitor", "core.pager", "core.sshCommand", "diff.external", "diff.evil.command",
        "diff.evil.textconv", f"filter.{driver}.clean", f"filter.{driver}.smudge",
        f"filter.{driver}.process", "core.gitProxy", "credential.helper",
    ):  # fmt: skip
        git(folder, "config", name, str(program))
    git(folder, "config", f"filter.{driver}.required", "true")
    (folder / "data.txt").write_text("two\n")
    (folder / "new.txt").touch()
    subprocess.run(["git", "-C", folder, "diff", "HEAD"], capture_output=True)
    assert marker.exists()  # plain git starts them
    marker.unlink()

    monkeypatch.chdir(folder)
    record, patches = code_origin.gather()
    assert not marker.exists()
    got = record["projects"]["got"]
    assert got["untracked"] == ["new.txt"]
    assert b"-one\n+two\n" in patches[got["uncommitted"]]


def test_a_repository_named_by_the_environment_is_not_used(project, tmp_path, monkeypatch):
    expected, _ = code_origin.gather()
    git(tmp_path, "init", "-q", "other")
    monkeypatch.setenv("GIT_DIR", str(tmp_path / "other" / ".git"))
    monkeypatch.setenv("GIT_WORK_TREE", str(tmp_path / "other"))
    assert code_origin.gather()[0] == expected


def test_every_installed_package_has_its_version():
    expected = {
        re.sub(r"[-_.]+", "-", distribution.metadata["Name"]).lower(): distribution.version
        for distribution in importlib.metadata.distributions()
        if distribution.metadata["Name"] != "andiron"
    }
    result = provenance.versions()
    assert expected.items() <= result.items() and [*result] == sorted(result)


def test_modules_imported_beside_the_listing_do_no_harm(monkeypatch):
    """A garbage collection may import, and did once in a proof; here it does at each allocation."""
    threshold = gc.get_threshold()

    def imports(phase, _):
        monkeypatch.setitem(sys.modules, f"imported_at_{phase}_{len(sys.modules)}", sys)

    gc.callbacks.append(imports)
    gc.set_threshold(1)
    try:
        files = code_origin.own_modules()
    finally:
        gc.set_threshold(*threshold)
        gc.callbacks.remove(imports)
    assert __file__ in files
