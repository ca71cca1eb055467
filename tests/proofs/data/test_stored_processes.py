"""Reading a stored data set takes memory that does not grow with the file."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

SOURCE = Path(__file__).resolve().parents[3] / "src"
ROW = 3072
SCRIPT = """
import json, sys
from pathlib import Path
import torch
from andiron.data.on_disk.stored import StoredArray, StoredDataset, StoredFile

torch.set_num_threads(1)
def peak():
    status = dict(line.split(":", 1) for line in open("/proc/self/status"))
    return int(status["VmHWM"].split()[0])

path, rows = Path(sys.argv[1]), int(sys.argv[2])
array = StoredArray(StoredFile(path), "rows", 0, torch.uint8, (rows, 3072))
dataset = StoredDataset(array, array).subset(range(1000))  # what any data set takes
dataset.__getitems__(range(64))
before = peak()
dataset, total, seen = StoredDataset(array, array), 0, 0
for indices in torch.split(torch.randperm(rows), 64):
    inputs, targets = dataset.__getitems__(indices)
    total += int(targets[:, :8].contiguous().view(torch.int64).sum())
    seen += inputs.numel()
print(json.dumps({"grown_kib": peak() - before, "total": total, "bytes": seen}))
"""


@pytest.mark.slow
@pytest.mark.usefixtures("preloaded_processes")
@pytest.mark.skipif(
    not Path("/proc/self/status").is_file(),
    reason="needs /proc/self/status for the peak of resident memory",
)
def test_reading_a_file_in_random_batches_takes_constant_memory(tmp_path):
    if shutil.disk_usage(tmp_path).free < 1e9:
        pytest.skip("needs 1 GB of free disk")
    rows, file = 3 * 10**8 // ROW, tmp_path / "large.bin"
    block = bytearray(os.urandom(ROW * 1000))
    with file.open("wb") as out:
        for first in range(0, rows, 1000):  # each row begins with its number
            number = min(1000, rows - first)
            for row in range(number):
                block[row * ROW : row * ROW + 8] = (first + row).to_bytes(8, "little")
            out.write(block[: number * ROW])
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, file, str(rows)],
        env={**os.environ, "PYTHONPATH": str(SOURCE)},
        capture_output=True,
        text=True,
        timeout=300,
        check=True,
    )
    record = json.loads(done.stdout)
    file.unlink()
    assert (record["total"], record["bytes"]) == (rows * (rows - 1) // 2, rows * ROW)
    # of 300 MB: 16 bytes a sample for its index and its place in the order (1.6 MB), and a few
    # batches of 200 KB
    assert record["grown_kib"] < 24 * 1024
