"""An exhausted resource is named with the option to lower."""

import errno

import pytest
import torch

from andiron import errors
from andiron.shell.config.schema import Demands
from andiron.shell.run import exhausted
from andiron.tasks import Classifier


@pytest.fixture
def demands():
    return Demands("auto", 64, None, 2)


def without_shared_memory():
    code = compile("raise OSError(28, 'No space left')", "multiprocessing/synchronize.py", "exec")
    exec(code)


def allocated():
    torch.empty(2**50, dtype=torch.uint8)


@pytest.mark.parametrize(("fail", "named"), [
    (allocated, ["out of memory", "batch_size=64", "smaller model"]),
    (MemoryError, ["out of memory", "MemoryError"]),
    (lambda: torch.OutOfMemoryError("CUDA out of memory. Tried"), ["out of memory"]),
    (lambda: RuntimeError("CUDA error: CUBLAS_STATUS_ALLOC_FAILED"), ["batch_size=64"]),
    (lambda: ImportError("libtorch_cpu.so: failed to map segment from shared object"),
     ["out of memory"]),
    (lambda: RuntimeError("DataLoader worker (pid 7) is killed by signal: Killed. "),
     ["num_workers=2", "killed by signal: Killed", "/dev/shm"]),
    (without_shared_memory, ["/dev/shm", "num_workers=0"]),
    (lambda: OSError(errno.EMFILE, "Too many open files"), ["`ulimit -n`", "num_workers=2"]),
])  # fmt: skip
def test_an_error_names_what_to_lower(demands, fail, named):
    with pytest.raises(errors.ExhaustedError) as raised, exhausted.explained(demands):
        error = fail()
        raise error if isinstance(error, Exception) else error()
    assert [value for value in named if value not in str(raised.value)] == []


@pytest.mark.parametrize("error", [RuntimeError("shapes differ"), OSError(errno.ENOSPC, "full")])
def test_other_errors_stay_as_they_are(demands, error):
    with pytest.raises(type(error)) as raised, exhausted.explained(demands):
        raise error
    assert raised.value is error


def test_a_run_without_memory_has_failed(command, here, monkeypatch):
    def step(self, batch):
        torch.empty(10**15)

    monkeypatch.setattr(Classifier, "train_step", step)
    ended = command("hydra.run.dir=run")
    assert ended.code == 1 and "out of memory on device auto" in ended.errors
    assert "Traceback" not in ended.errors
    assert "lower batch_size=64" in ended.errors
    assert not (here / "run").exists()
