"""Memory that one update has freed is there for the next one."""

import os
import platform
import subprocess
import sys
from pathlib import Path

import pytest

SOURCE = Path(__file__).resolve().parents[2] / "src"

FAULTS = """import resource, torch
from andiron.plain.memory import keep_freed_memory

def faults():
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    tensors = [torch.ones(2**20) for _ in range(64)]  # of 4 MiB
    del tensors
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before

keep_freed_memory()
print(min(faults() for _ in range(4)))
"""


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="sets options of glibc")
@pytest.mark.parametrize("options, is_kept", [({}, True), ({"MALLOC_TOP_PAD_": "0"}, False)])
def test_freed_memory_is_kept_unless_the_environment_sets_malloc(options, is_kept):
    unset = {name: value for name, value in os.environ.items() if not name.startswith("MALLOC_")}
    environment = {**unset, **options, "PYTHONPATH": str(SOURCE)}
    output = subprocess.check_output([sys.executable, "-c", FAULTS], env=environment)
    assert (int(output) < 1000) is is_kept, output
