"""Trains the projects in FOLDER... in forked processes, which share one start."""

import os
import socket
import sys
from importlib.util import find_spec
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
sys.path[:0] = [str(ROOT / "src"), str(ROOT / "tests")]

from andiron.shell.training import train  # noqa: E402

RUN = ("--config-dir", "conf", "batch_size=8", "num_epochs=1", "render=plain", "log_every=1",
       "device=cpu")  # fmt: skip
LIBRARIES = ("andiron.wings.sweep.clean_process",)
if "ANDIRON_ALL_PROJECTS" in os.environ:
    LIBRARIES += ("datasets", "segmentation_models_pytorch", "timm", "torch_geometric",
                  "torchvision", "transformers.models.bert.modeling_bert",
                  "transformers.models.gpt2.modeling_gpt2")  # fmt: skip


def trained(folder, *options):
    """Trains the project in `folder`; returns the exit code."""
    os.chdir(folder)
    sys.path.insert(0, str(folder))
    sys.argv = ["train.py", *options]
    try:
        return train.main()
    except SystemExit as ended:
        return ended.code
    finally:
        sys.path.remove(str(folder))
        sys.modules.pop("parts", None)


def forked(folder, *options):
    """The status of a forked process that trains."""
    if child := os.fork():
        return os.waitpid(child, 0)[1]
    os._exit(trained(folder, *options) or 0)


def together(folder, *options):
    """The statuses of two forked processes that train one run."""
    with socket.socket() as free:
        free.bind(("localhost", 0))
        port = free.getsockname()[1]
    shared = {"WORLD_SIZE": "2", "LOCAL_WORLD_SIZE": "2", "MASTER_ADDR": "localhost"}
    children = []
    for rank in ("0", "1"):
        if not (child := os.fork()):
            os.environ |= {**shared, "MASTER_PORT": str(port), "RANK": rank, "LOCAL_RANK": rank}
            os._exit(trained(folder, *options) or 0)
        children.append(child)
    return [os.waitpid(child, 0)[1] for child in children]


def main(*folders):
    for folder in map(Path, folders):
        (experiment,) = (folder / "conf" / "experiment").glob("*.yaml")
        run = (*RUN, f"experiment={experiment.stem}", "slices=4")
        assert not forked(folder, *run, "hydra.run.dir=whole")
        assert together(folder, *run, "hydra.run.dir=two") == [0, 0], folder


if __name__ == "__main__":
    for library in LIBRARIES:
        if find_spec(library.partition(".")[0]):
            __import__(library)
    main(*sys.argv[1:])
