"""Worker processes end with the script that started them."""

import os
import subprocess
import sys
from pathlib import Path

SOURCE = Path(__file__).resolve().parents[3] / "src"
SCRIPT_THAT_ENDS_HALF_WAY = """
import multiprocessing, torch
from andiron.data import ArrayDataset, DataLoader, ImageBatcher
dataset = ArrayDataset(torch.zeros(23, 1, 2, 2, dtype=torch.uint8), torch.arange(23))
loader = DataLoader(dataset, ImageBatcher(mean=0.5, std=0.5), batch_size=5, num_workers=2)
next(loader.epoch(0))
print(*(child.pid for child in multiprocessing.active_children()))
"""


def test_a_script_that_ends_in_mid_epoch_leaves_no_worker_behind():
    done = subprocess.run(
        [sys.executable, "-W", "error::ResourceWarning", "-c", SCRIPT_THAT_ENDS_HALF_WAY],
        env={**os.environ, "PYTHONPATH": str(SOURCE)},
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    workers = done.stdout.split()
    assert len(workers) == 2
    assert not any(Path(f"/proc/{worker}").exists() for worker in workers)
    assert done.stderr == ""
