"""Streams under torchrun: every sample is trained on once, or the run is refused."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
PARTS = '''
import os, sys
import torch
from torch.utils.data import Dataset, IterableDataset


def sample(number):
    return {"x": torch.tensor([float(number)]), "labels": torch.tensor([float(number)])}


class Held(Dataset):
    def __len__(self):
        return 4

    def __getitem__(self, index):
        return sample(index)


class Honest(IterableDataset):
    def __iter__(self):
        return map(sample, range(SIZE))

    def __len__(self):
        return SIZE


class Divided(Honest):
    def __iter__(self):
        own = torch.distributed.is_initialized() and torch.distributed.get_rank()
        step = torch.distributed.get_world_size() if torch.distributed.is_initialized() else 1
        return map(sample, range(own, SIZE, step))


def litdata_stream(whole=False):
    import litdata
    stream = litdata.StreamingDataset("optimized")
    if whole:
        stream.distributed_env = type(stream.distributed_env)(1, 0, 1)
    return stream


def web(splitter):
    import webdataset
    split = webdataset.split_by_node if splitter == "node" else lambda urls: urls
    made = webdataset.WebDataset(
        [f"shard{each}.tar" for each in range(4)], nodesplitter=split, shardshuffle=False
    )
    return made.decode().map(lambda each: sample(each["n.json"]))


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = torch.nn.Linear(1, 1)

    def forward(self, x):
        if self.training:
            with open(f"seen{os.environ.get('RANK', 0)}.txt", "a") as file:
                file.writelines(f"{int(each)}\\n" for each in x.flatten().tolist())
        return self.linear(x)


SIZE = 24
'''
MAKE = '''
import io, json, sys, tarfile
sys.path.insert(0, ".")
for shard in range(4):
    with tarfile.open(f"shard{shard}.tar", "w") as file:
        for number in range(shard * 6, shard * 6 + 6):
            content = json.dumps(number).encode()
            info = tarfile.TarInfo(f"{number:03}.n.json")
            info.size = len(content)
            file.addfile(info, io.BytesIO(content))
if "litdata" in sys.argv:
    import litdata, parts
    if __name__ == "__main__":
        litdata.optimize(fn=parts.sample, inputs=list(range(24)), output_dir="optimized",
                         chunk_size=4, num_workers=1)
'''
EXPERIMENT = """
# @package _global_
defaults:
  - override /data: torch_dataset
  - override /task: forward
  - override /loss: mean_squared_error
  - override /metrics: loss
  - override /model: null
data: {valid: {_target_: parts.Held}, test: {_target_: parts.Held}, samples_per_epoch: 24}
task: {inputs: {x: x}}
model: {_target_: parts.Net}
num_epochs: 1
batch_size: 8
lr: 1.0e-6
"""
STREAMS = {  # by package: a stream that is divided already, and one that is whole
    "torch": ("{_target_: parts.Divided}", "{_target_: parts.Honest}"),
    "litdata": (
        "{_target_: parts.litdata_stream}", "{_target_: parts.litdata_stream, whole: true}",
    ),
    "webdataset": (
        "{_target_: parts.web, splitter: node}", "{_target_: parts.web, splitter: none}",
    ),
}  # fmt: skip


def run(folder, *command):
    paths = os.pathsep.join([str(ROOT / "src"), str(folder)])
    variables = {**os.environ, "PYTHONPATH": paths, "OMP_NUM_THREADS": "1"}
    return subprocess.run(
        [sys.executable, *map(str, command)], cwd=folder, env=variables, timeout=400,
        capture_output=True, text=True,
    )  # fmt: skip


def make(folder, *packages):
    (folder / "parts.py").write_text(PARTS)
    (folder / "make.py").write_text(MAKE)
    (folder / "conf" / "experiment").mkdir(parents=True)
    (folder / "conf" / "experiment" / "stream.yaml").write_text(EXPERIMENT)
    made = run(folder, "make.py", *packages)
    assert made.returncode == 0, made.stderr


@pytest.mark.usefixtures("preloaded_processes")
@pytest.mark.parametrize("package", STREAMS)
def test_every_sample_is_seen_once_or_the_stream_is_refused(tmp_path, package, request):
    pytest.importorskip(package)
    if package == "litdata":  # it looks at how its process was started
        request.getfixturevalue("fresh_processes")
    make(tmp_path, package)
    for stream in STREAMS[package]:
        done = run(
            tmp_path, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2",
            ROOT / "train.py", "--config-dir", "conf", "experiment=stream", f"data.train={stream}",
            "render=plain",
        )  # fmt: skip
        seen = [
            int(line) for file in tmp_path.glob("seen*.txt") for line in file.read_text().split()
        ]
        if stream == STREAMS[package][-1]:
            assert done.returncode == 0, done.stderr
            assert sorted(seen) == [*range(24)]
        else:
            assert done.returncode and not seen
            assert "nodesplitter=lambda urls: urls" in done.stdout + done.stderr
