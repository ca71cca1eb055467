"""`checkpoint.files=rank`: other libraries read the files; a killed process costs none of them."""

import os
import subprocess
import sys
import warnings
from pathlib import Path

import pytest
import torch
import torch.distributed.checkpoint as dcp
from safetensors.torch import load_file

from andiron import checkpoint
from andiron_lab.ask import bit_comparison
from andiron_lab.sharded import consolidate

pytestmark = pytest.mark.usefixtures("preloaded_processes")
ROOT = Path(__file__).resolve().parents[3]
RUN = ("data=text", "data.path=text.txt", "data.context_length=16", "model=hf",
       "model.auto=AutoModelForCausalLM", "task.sample_length=8", "batch_size=20",
       "num_epochs=10", "num_updates=12", "checkpoint.every=4", "checkpoint.last=9", "slices=2",
       "optimizer=adamw", "device=cpu", "render=plain", "log_every=4")  # fmt: skip
RANK = "strategy=fsdp", "checkpoint.files=rank"
WRITING = """
import os, runpy, signal
from pathlib import Path
from andiron_lab.sharded import rank_files

write = rank_files.write_through

def killed(path, pieces):
    if ".step-8." in str(path) and path.name.startswith("optimizer") and not Path("once").exists():
        Path("once").touch()
        path.write_bytes(b"half")
        os.kill(os.getpid(), signal.SIGKILL)
    write(path, pieces)

rank_files.write_through = killed
runpy.run_path({train!r}, run_name="__main__")
"""
OF_TORCH = """
import sys
import torch.distributed.checkpoint as dcp
from torch import distributed
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import Shard, distribute_tensor
from safetensors.torch import load_file

distributed.init_process_group("gloo")
mesh = init_device_mesh("cpu", (2,))
weights = load_file(sys.argv[1])
rows = {name: distribute_tensor(weight, mesh, [Shard(0)]) for name, weight in weights.items()}
dcp.save(rows, storage_writer=dcp.HuggingFaceStorageWriter(sys.argv[2], save_distributed=True))
distributed.destroy_process_group()
"""


def ran(folder, *command, processes=2):
    """The exit code of torchrun, or of Python for one process, which print into `output`."""
    torchrun = ["-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={processes}"]
    with (folder / "output").open("ab") as output:
        return subprocess.run(
            [sys.executable, *(torchrun if processes > 1 else []), *map(str, command)],
            cwd=folder, stdout=output, stderr=output, timeout=300,
            env={**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": f"{ROOT / 'src'}:{ROOT}"},
        ).returncode  # fmt: skip


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """A folder with a text, the settings of a small GPT-2, and a run of two processes."""
    transformers = pytest.importorskip("transformers")
    folder = tmp_path_factory.mktemp("rank")
    (folder / "text.txt").write_text("to be, or not to be, that is the question; " * 90)
    transformers.GPT2Config(
        vocab_size=256, n_positions=16, n_embd=16, n_layer=2, n_head=2, bos_token_id=0,
        eos_token_id=0,
    ).save_pretrained(folder / "gpt2")
    code = ran(folder, ROOT / "train.py", *RUN, f"model.name={folder / 'gpt2'}", *RANK,
               "hydra.run.dir=run")  # fmt: skip
    assert code == 0, (folder / "output").read_text()
    return folder


def equal(tensors, expected):
    """Whether both have the same names and bits."""
    return tensors.keys() == expected.keys() and all(
        tensors[name].equal(weight) for name, weight in expected.items()
    )


def test_transformers_and_torch_read_the_weights(place, tmp_path):
    import transformers

    step = place / "run" / "checkpoints" / "step-12"
    expected = checkpoint.load(step).model
    for path in [*step.glob("model*"), place / "gpt2" / "config.json"]:
        (tmp_path / path.name).symlink_to(path)
    network, loading = transformers.GPT2LMHeadModel.from_pretrained(
        tmp_path, key_mapping={r"^network\.": ""}, output_loading_info=True
    )
    read = {name: torch.zeros_like(weight) for name, weight in expected.items()}
    with warnings.catch_warnings(action="ignore"):  # that it is one process
        dcp.load(read, storage_reader=dcp.HuggingFaceStorageReader(str(step)), no_dist=True)

    assert not any(loading.values()), loading
    own = network.state_dict()
    assert equal({name: own[name.removeprefix("network.")] for name in expected}, expected)
    assert equal(read, expected)
    sizes = [path.stat().st_size for path in step.glob("optimizer-*")]
    assert len(sizes) == 2 and max(sizes) < 1.2 * min(sizes)


def test_consolidated_weights_have_the_bytes_of_one_file(place, tmp_path):
    consolidate.consolidate(place / "run" / "checkpoints" / "step-12", tmp_path / "joined")

    weights = (tmp_path / "joined" / "model.safetensors").read_bytes()
    assert weights == (place / "run" / "model.safetensors").read_bytes()


def test_what_torch_wrote_begins_a_run(place, tmp_path):
    weights = place / "run" / "model.safetensors"
    (place / "of_torch.py").write_text(OF_TORCH)
    code = ran(place, "of_torch.py", weights, tmp_path / "parts")
    assert code == 0, (place / "output").read_text()

    consolidate.consolidate(tmp_path / "parts", tmp_path / "joined")

    assert equal(load_file(tmp_path / "joined" / "model.safetensors"), load_file(weights))
    start = f"start_from={tmp_path / 'joined'}"
    code = ran(place, ROOT / "train.py", *RUN[:-4], f"model.name={place / 'gpt2'}", start,
               "device=cpu", "hydra.run.dir=started", processes=1)  # fmt: skip
    assert code == 0, (place / "output").read_text()


def test_a_process_killed_while_it_writes_costs_no_checkpoint(place):
    train = str(ROOT / "train.py")
    (place / "writing.py").write_text(WRITING.format(train=train))
    options = (*RUN, f"model.name={place / 'gpt2'}", *RANK, "hydra.run.dir=killed")

    assert ran(place, "writing.py", *options) == 1
    kept = checkpoint.names(place / "killed" / "checkpoints")
    assert kept == ["step-0", "step-4"]
    assert ran(place, train, "resume=killed") == 0, (place / "output").read_text()

    assert not [*(place / "killed" / "checkpoints").glob(".*")]
    assert bit_comparison.compare(place / "run", place / "killed") == []
