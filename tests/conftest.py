"""Shared by every test: array shapes checked as annotated, one thread, and where real data may
lie.
"""

import contextlib
import copy
import fcntl
import functools
import gc
import json
import logging
import os
import shutil
import signal
import subprocess
import sys
from operator import is_
from pathlib import Path

import pytest

import conf_files
import preloaded
import shape_checks

if "ANDIRON_TEST_GPU" not in os.environ:  # benchmarks/gpu.py sets it, for the tests marked `gpu`
    os.environ["CUDA_VISIBLE_DEVICES"] = ""  # the other tests compare bits and times of a CPU
gc.disable()  # until all is imported: that makes many objects and no garbage
shape_checks.install()  # before anything imports andiron
conf_files.install()

import torch  # noqa: E402
from torch.utils._python_dispatch import TorchDispatchMode  # noqa: E402

from andiron.shell.cli.signals import STOPPING  # noqa: E402
from andiron.shell.run import code_origin  # noqa: E402
from andiron.shell.training import train  # noqa: E402
from in_process import called  # noqa: E402

ROOT = Path(__file__).resolve().parents[1]
LAB, HINT = ROOT / "src" / "andiron_lab", "in the package andiron_lab, which is not installed"
# with more threads, a tiny step waits a thousand times its own length for a busy neighbour
torch.set_num_threads(1)
os.environ["OMP_NUM_THREADS"] = "1"  # of processes that a test starts
for ignored in (signal.SIGHUP, signal.SIGINT):  # by nohup or &, and then in what a test starts
    if signal.getsignal(ignored) is signal.SIG_IGN:
        signal.signal(ignored, lambda *_: None)
with contextlib.suppress(ImportError):  # the machines of benchmarks/gpu.py may have no hypothesis
    from hypothesis import settings

    settings.load_profile("ci")  # the same examples in every run, and none has to be fast


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Skips the tests marked `gpu` where there is none."""
    if not torch.cuda.is_available():
        for item in items:
            if item.get_closest_marker("gpu"):
                item.add_marker(pytest.mark.skip(reason="needs a CUDA device"))


def pytest_collection_finish() -> None:
    """Looks for garbage from here on, and only among what the tests make."""
    gc.freeze()
    gc.enable()
    gc.set_threshold(20_000)  # looking took a tenth of the tests' time


def is_open(descriptor):
    """In place of `os.fsync`: no test cuts the power, and the disk took a sixth of a run's time."""
    os.fstat(descriptor)


@functools.cache
def repository(root, *, has_code, gathered=code_origin._repository):
    """Git's answers about this checkout, asked for once: they took a seventh of a run's time."""
    return gathered(root, has_code=has_code)


os.fsync = is_open
code_origin._repository = lambda root, *, has_code: (
    copy.deepcopy(repository(root, has_code=has_code)) if root == str(ROOT)
    else repository.__wrapped__(root, has_code=has_code)
)  # fmt: skip


def with_room(function, /, **arguments):
    """Calls the function with a megabyte for the frames below it.

    CPython maps 16 KB at a time: where they end below pytest's own frames, every call to and fro
    maps and unmaps some, which took a tenth of the tests' time.
    """
    return function(**arguments)


with_room.__code__ = with_room.__code__.replace(co_stacksize=2**17)


@pytest.hookimpl(wrapper=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function):
    """Runs every test with room."""
    pyfuncitem.obj = functools.partial(with_room, pyfuncitem.obj)
    return (yield)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport():
    """Where the lab is deleted, skips a test that ends with the line on how to install it."""
    report = yield
    if report.failed and not LAB.is_dir() and HINT in str(report.longrepr):
        report.outcome, report.longrepr = "skipped", (__file__, 0, "needs andiron_lab")
    return report


SETTINGS = (  # of torch, for the whole process: how each is read and set
    (torch.get_num_threads, torch.set_num_threads),
    (torch.get_default_dtype, torch.set_default_dtype),
    (torch.is_grad_enabled, torch.set_grad_enabled),
    (torch.get_deterministic_debug_mode, torch.set_deterministic_debug_mode),
    (torch.get_float32_matmul_precision, torch.set_float32_matmul_precision),
)
LOGGERS = [logging.getLogger(name) for name in ("andiron", None)]


STAYING = {}  # by name, modules that no later look has to ask for their file


def forget_modules(temporary: str) -> None:
    """Forgets the modules from folders below `temporary` that are not on sys.path.

    To ask thousands of modules for their files took a third of the tests' time.
    """
    modules = sys.modules
    if len(STAYING) == len(modules) and all(map(is_, STAYING.values(), modules.values())):
        return
    folders = tuple(str(path) for path in sys.path if path)
    new = [name for name, module in [*modules.items()] if STAYING.get(name) is not module]
    packages = {name: modules.get(name.partition(".")[0]) for name in new}
    files = {name: getattr(package, "__file__", None) or "" for name, package in packages.items()}
    looked_at_again = {name for name, file in files.items() if file.startswith(temporary)}
    for name in looked_at_again:
        if not files[name].startswith(folders):
            del modules[name]
    STAYING.clear()
    STAYING.update((name, modules[name]) for name in modules if name not in looked_at_again)


@pytest.fixture(autouse=True)
def process_as_before(tmp_path_factory):
    """Puts back what a test leaves in its process, so that no test depends on those before it.

    Signal handlers, loggers, the environment, the current folder, umask, sys.path and torch's
    settings; modules from temporary folders are forgotten once these are not on sys.path.
    """
    handlers = {number: signal.getsignal(number) for number in (*STOPPING, signal.SIGALRM)}
    loggers = [(log, log.handlers[:], log.level) for log in LOGGERS]
    temporary = str(tmp_path_factory.getbasetemp().parent)
    forget_modules(temporary)  # of a module's fixture that has ended
    variables, folder, paths = {**os.environ}, os.getcwd(), sys.path[:]
    settings = [(read(), choose) for read, choose in SETTINGS]
    mask = os.umask(0o022)
    os.umask(mask)
    yield
    os.umask(mask)
    for (read, _), (value, choose) in zip(SETTINGS, settings, strict=True):
        if read() != value:
            choose(value)
    sys.path[:] = paths
    forget_modules(temporary)
    with contextlib.suppress(FileNotFoundError):  # the folder of a fixture that has ended
        os.chdir(folder)
    variables["PYTEST_CURRENT_TEST"] = os.environ.get("PYTEST_CURRENT_TEST", "")
    if {**os.environ} != variables:
        os.environ.clear()
        os.environ.update(variables)
    for log, kept, level in loggers:
        log.handlers[:] = kept
        log.setLevel(level)
    for number, handler in handlers.items():
        signal.signal(number, handler)


@pytest.fixture
def mnist_root() -> Path:
    """The folder with the genuine MNIST; skips the test where there is none."""
    root = Path(os.environ.get("ANDIRON_DATA_DIR", "data")).absolute()
    if not (root / "MNIST" / "raw" / "train-images-idx3-ubyte").is_file():
        pytest.skip(f"needs MNIST in {root}: set ANDIRON_DATA_DIR to a folder that has MNIST/raw")
    return root


@pytest.fixture
def needs_lab() -> None:
    """Skips the test where the lab is deleted."""
    pytest.importorskip("andiron_lab", reason="needs andiron_lab")


class HostReads(TorchDispatchMode):
    """Counts how often a tensor's value is read, which is when a GPU is waited for."""

    def __init__(self):
        super().__init__()
        self.number = 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        self.number += func is torch.ops.aten._local_scalar_dense.default
        return func(*args, **(kwargs or {}))


@pytest.fixture
def host_reads() -> type[HostReads]:
    """`with host_reads() as reads:` counts the reads in the block as `reads.number`."""
    return HostReads


@pytest.fixture(scope="module")
def preloaded_processes():
    """Has `subprocess` fork Python from a process that has imported torch and Andiron."""
    with preloaded.processes():
        yield


@pytest.fixture
def fresh_processes(monkeypatch):
    """Has `subprocess` start each process anew, in a module with `preloaded_processes`."""
    monkeypatch.setattr(subprocess, "Popen", preloaded.STARTED)


@pytest.fixture
def log():
    """The logger `andiron` as a run has it."""
    logger = logging.getLogger("andiron")
    logger.setLevel(logging.DEBUG)
    return logger


@pytest.fixture
def here(tmp_path, monkeypatch):
    """The current directory, empty."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def command(here):
    """`python train.py` with some arguments and for one epoch, in this process."""
    return lambda *arguments: called(train.main, *arguments, "num_epochs=1", "render=plain")


@pytest.fixture(scope="session")
def made_once(tmp_path_factory):
    """`made_once(name, make)`: a folder that `make` fills once for all processes of pytest.

    It is only to be read.
    """
    shared = tmp_path_factory.getbasetemp()
    if "PYTEST_XDIST_WORKER" in os.environ:
        shared = shared.parent

    def once(name, make):
        folder, done = shared / f"once-{name}", shared / f"once-{name}.done"
        with (shared / f"once-{name}.lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if not done.exists():
                shutil.rmtree(folder, ignore_errors=True)  # of a process that failed
                folder.mkdir()
                make(folder)
                done.touch()
        return folder

    return once


@pytest.fixture(scope="session")
def finished_digits(made_once):
    """The folder of a finished run on the digits, with an average `ema`; only to be read."""

    def make(above):
        options = ("num_epochs=2", "averages=ema", "render=plain", "hydra.run.dir=digits")
        ended = called(train.main, *options, cwd=above)
        assert (ended.code, ended.errors) == (0, "")

    return made_once("finished", make) / "digits"


def status(folder: Path) -> dict[str, str]:
    """`status.json` of a run's folder."""
    return json.loads((folder / "status.json").read_text())


def without_time(state):
    """A learner's state without the seconds that it has trained for."""
    log = {name: value for name, value in state["metric_log"].items() if name != "seconds"}
    return {**state, "metric_log": log}
