#!/usr/bin/env bash
# torch 2.14.1: consolidate_safetensors_files, which joins the files that HuggingFaceStorageWriter(save_distributed=True)
# writes for each process, gives wrong tensors without an error: a tensor of no dimension becomes 0.0; the rows of a
# missing file become zeros, and without the last file tensors are shorter, because no file records shapes or their number.
# A tensor of integers is refused (torch.finfo). Seen: scale 3.5 -> 0.0; rows 0 and 1 -> zeros; [4, 2] -> [2, 2]; TypeError.
set -eu
folder=$(mktemp -d); trap 'rm -rf "$folder"' EXIT; cd "$folder"
if [ -z "${FINDINGS_PY:-}" ]; then
  python3 -m venv venv; venv/bin/pip install -q torch==2.14.1 numpy safetensors; FINDINGS_PY=venv/bin/python
fi
cat > consolidated.py <<'PY'
import os
import shutil
from pathlib import Path

import torch
import torch.distributed
import torch.distributed.checkpoint as dcp
from safetensors.torch import load_file
from torch.distributed.checkpoint._consolidate_hf_safetensors import consolidate_safetensors_files
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import Shard, distribute_tensor

WEIGHT = torch.arange(1.0, 9.0).view(4, 2)


def work(rank):
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT="29773")
    torch.distributed.init_process_group("gloo", rank=rank, world_size=2)
    mesh = init_device_mesh("cpu", (2,))
    tensors = {"weight": distribute_tensor(WEIGHT, mesh, [Shard(0)]), "scale": torch.tensor(3.5)}
    for name, more in {"parts": {}, "integers": {"count": torch.tensor(7)}}.items():
        writer = dcp.HuggingFaceStorageWriter(name, save_distributed=True)
        dcp.save(tensors | more, storage_writer=writer)
    torch.distributed.destroy_process_group()


def joined(source, *names):
    target = Path(f"{source}-joined")
    shutil.rmtree(target, ignore_errors=True)
    target.mkdir()
    consolidate_safetensors_files(source, str(target), dict.fromkeys(names, 1))
    return load_file(target / "model-00001-of-00001.safetensors")


if __name__ == "__main__":
    torch.multiprocessing.spawn(work, nprocs=2)
    files = sorted(Path("parts").iterdir())
    print(torch.__version__, [file.name for file in files])
    whole = joined("parts", "weight", "scale")
    print("all files:", whole)
    assert whole["weight"].equal(WEIGHT) and whole["scale"].item() == 0.0, "scalars are right now"
    for place, name in enumerate(("first", "last")):
        shutil.copytree("parts", name)
        (Path(name) / files[place].name).unlink()
        print(f"without the {name} file:", left := joined(name, "weight")["weight"])
        rest = torch.cat([torch.zeros(2, 2), WEIGHT[2:]]) if name == "first" else WEIGHT[:2]
        assert left.equal(rest), "a missing file is noticed now"
    try:
        joined("integers", "weight", "scale", "count")
    except TypeError as error:
        print("integers:", error)
    else:
        raise AssertionError("integers are joined now")
PY
"$FINDINGS_PY" consolidated.py
