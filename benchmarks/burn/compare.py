"""Andiron beside Burn: the same networks, images and updates; weights in both directions.

    python benchmarks/burn/compare.py [--rounds N] [--threads N] [--backends flex ndarray]
        [--only weights|times]

Build Burn's side first (README.md beside this file). MNIST is read from the folder that
ANDIRON_DATA_DIR names (default: data).
"""

import argparse
import dataclasses
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
# a plain checkout needs no install
sys.path[:0] = [str(HERE.parents[1] / "src"), str(HERE.parent)]

import torch  # noqa: E402
from torch import Tensor, nn  # noqa: E402

import rounds  # noqa: E402
import whole  # noqa: E402
from andiron import data, models, serialization  # noqa: E402
from andiron.data import DataLoader, DataLoaderBuilder, Splits  # noqa: E402
from andiron.optim import Optimizer  # noqa: E402
from andiron.tasks import Classifier  # noqa: E402

IMAGES = 12_800  # 200 updates
BATCH, LR = 64, 1e-4
COMPARED_LOSSES = 50
MOST_APART, LOSSES_APART = 1e-6, 1e-3  # of logits; of losses, relative: float32 in another order
NAMES = {  # by network: Burn's fields, and Andiron's modules
    "mlp": {"first": "layers.1", "second": "layers.3", "last": "layers.5"},
    "convnet": {
        "conv1": "features.0", "conv2": "features.2", "linear1": "head.0", "linear2": "head.3",
    },
}  # fmt: skip
BACKENDS = ("flex", "ndarray")


@dataclass(frozen=True)
class Burn:
    """The program of this folder, which answers one request a line."""

    process: "subprocess.Popen[str]"
    folder: Path
    splits: Splits

    def ask(self, network: str, do: str, backend: str = "flex", **request: Any) -> dict[str, Any]:
        """Its answer. Raises: RuntimeError if the program ended."""
        normalisation = {name: getattr(self.splits.batcher, name) for name in ("mean", "std")}
        whole_request = {
            "network": network, "do": do, "backend": backend, "batch_size": BATCH, "lr": LR,
            "epochs": 1, "workers": 0, "dropout": 0.5, "layout": "burn",
            "data": str(self.folder / "images.safetensors"), **normalisation, **request,
        }  # fmt: skip
        assert self.process.stdin and self.process.stdout
        print(json.dumps(whole_request), file=self.process.stdin, flush=True)
        answer = self.process.stdout.readline()
        if not answer:
            raise RuntimeError(f"Burn's side ended on {whole_request}; its message is above")
        return json.loads(answer)


@contextmanager
def started(binary: Path, splits: Splits, threads: int) -> Iterator[Burn]:
    """Burn's side, with the images in a file."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        tensors = {}
        for part in ("train", "valid"):
            dataset = getattr(splits, part)
            tensors[f"{part}_images"] = dataset.inputs.contiguous()
            tensors[f"{part}_targets"] = dataset.targets.long()
        serialization.save_tensors(folder / "images.safetensors", tensors)
        environment = os.environ | {"RAYON_NUM_THREADS": str(threads)}
        with subprocess.Popen(
            [binary], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment
        ) as process:
            yield Burn(process, folder, splits)
            assert process.stdin
            process.stdin.close()


def compare_weights(burn: Burn) -> str:
    """A row for each way of the weights: the largest difference of any logit of the images."""
    rows = []
    images = _inputs(burn.splits, "valid")
    for network, names in NAMES.items():
        for layout in ("burn", "torch"):
            own, shown = _network(network), burn.folder / f"{network}-{layout}.safetensors"
            serialization.save_file(_by_burns_names(own, names), shown, layout=layout)
            logits = _burns_logits(burn, network, load=str(shown), layout=layout)
            rows.append((f"{network}: Andiron to Burn, safetensors, layout {layout}", own, logits))
        for suffix in ("safetensors", "bpk"):
            own, saved = _network(network), burn.folder / f"{network}-saved.{suffix}"
            logits = _burns_logits(burn, network, save=str(saved))
            # a .bpk says that its layout is Burn's; Burn's safetensors do not
            layout = {"layout": "burn"} if suffix == "safetensors" else {}
            serialization.load_file(_by_burns_names(own, names), saved, **layout)
            rows.append((f"{network}: Burn to Andiron, {suffix}", own, logits))
    lines = []
    with torch.inference_mode():
        for way, own, logits in rows:
            apart = float((own.eval()(images) - logits).abs().max())
            _check(way, apart, MOST_APART)
            lines.append((way, f"{apart:.1e}", f"{logits.abs().max():.1f}"))
    return rounds.table(("weights", "largest difference", "largest logit"), lines)


def compare_losses(burn: Burn) -> str:
    """A row for each network: how far the losses of the same updates are apart."""
    rows = []
    for network, names in NAMES.items():
        own, file = _network(network, dropout=0.0), burn.folder / f"{network}-start.safetensors"
        serialization.save_file(_by_burns_names(own, names), file, layout="burn")
        theirs = burn.ask(network, "losses", load=str(file), dropout=0.0)["losses"]
        ours = _train(own, _loader(burn.splits, shuffle=False))
        pairs = list(zip(ours, theirs))[:COMPARED_LOSSES]
        worst = max(abs(a - b) / abs(a) for a, b in pairs)
        _check(f"losses of {network}", worst, LOSSES_APART)
        rows.append((network, f"{pairs[0][0]:.4f} to {pairs[-1][0]:.4f}", f"{worst:.1e}"))
    losses = f"losses of {COMPARED_LOSSES} updates"
    return rounds.table(("without dropout", losses, "largest relative difference"), rows)


def compare_times(burn: Burn, network: str, backends: Sequence[str], number: int) -> str:
    """The table of one network: own loops, and the learners with everything they do by default."""
    splits = burn.splits

    def own_loop() -> float:
        model, loader = _network(network), _loader(splits, shuffle=True)
        with rounds.stopwatch() as elapsed:
            _train(model, loader)
        return elapsed()

    def own_learner() -> float:
        return whole.seconds(_network(network), splits, lr=LR, batch_size=BATCH, epochs=1)

    sides = {"Andiron, own loop": own_loop}
    for backend in backends:
        sides[f"Burn {backend}, own loop"] = lambda backend=backend: (
            burn.ask(network, "loop", backend)["seconds"]
        )
    sides["Andiron, Learner"] = own_learner
    for backend in backends:
        sides[f"Burn {backend}, Learner"] = lambda backend=backend: (
            burn.ask(network, "learner", backend, folder=tempfile.mkdtemp(dir=burn.folder))
        )["seconds"]
    return rounds.compared(rounds.interleaved(sides, number))


def _check(what: str, apart: float, at_most: float) -> None:
    if not apart <= at_most:
        raise SystemExit(f"{what}: {apart:.1e} apart, more than {at_most:g}")


def _network(name: str, dropout: float = 0.5) -> nn.Module:
    if name == "mlp":
        return models.MLP((1, 28, 28), 10, hidden=(512, 256))
    return models.ConvNet((1, 28, 28), 10, dropout=dropout)


def _by_burns_names(network: nn.Module, names: dict[str, str]) -> nn.ModuleDict:
    """The network's own modules under the names of Burn's fields."""
    return nn.ModuleDict({field: network.get_submodule(own) for field, own in names.items()})


def _burns_logits(burn: Burn, network: str, **request: str) -> Tensor:
    file = burn.folder / "logits.safetensors"
    burn.ask(network, "outputs", logits=str(file), **request)
    return serialization.load_tensors(file)["logits"].clone()


def _train(network: nn.Module, loader: DataLoader) -> list[float]:
    """The losses of one epoch, read at its end."""
    task = Classifier(network)
    optimizer, losses = Optimizer(torch.optim.Adam, task), []
    for batch in loader.epoch(0):
        output = task.train_step(batch)
        task = optimizer.step(LR, task, output.gradients)
        losses.append(output.item.loss)
    return torch.stack(losses).tolist()


def _loader(splits: Splits, shuffle: bool) -> DataLoader:
    builder = DataLoaderBuilder(splits.batcher).batch_size(BATCH)
    return (builder.shuffle(42) if shuffle else builder).build(splits.train)


def _inputs(splits: Splits, part: str) -> Tensor:
    builder = DataLoaderBuilder(splits.batcher).batch_size(BATCH)
    batches = builder.build(getattr(splits, part)).epoch(0)
    return torch.cat([batch.inputs for batch in batches])


def _mnist() -> Splits:
    splits = data.mnist(root=os.environ.get("ANDIRON_DATA_DIR", "data"), valid=0.1, split_seed=0)
    sizes = {"train": IMAGES, "valid": IMAGES // 10}
    parts = {part: getattr(splits, part).subset(range(size)) for part, size in sizes.items()}
    return dataclasses.replace(splits, **parts)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    target = Path(os.environ.get("CARGO_TARGET_DIR", HERE / "target"))
    parser.add_argument("--binary", type=Path, default=target / "release" / "beside-burn")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--threads", type=int, default=1, help="of torch, and of Burn's backend")
    parser.add_argument("--backends", nargs="+", choices=BACKENDS, default=["flex"], metavar="NAME")
    parser.add_argument("--only", choices=("weights", "times"))
    arguments = parser.parse_args()
    if not arguments.binary.is_file():
        parser.error(
            f"{arguments.binary}: not built; run `cargo build --release --locked "
            f"--manifest-path {HERE / 'Cargo.toml'}`, or name the program with --binary"
        )
    torch.set_num_threads(arguments.threads)
    with started(arguments.binary, _mnist(), arguments.threads) as burn:
        print(f"{rounds.machine(arguments.threads)}; Burn 0.22.1\n")
        if arguments.only != "times":
            print(f"{compare_weights(burn)}\n\n{compare_losses(burn)}\n", flush=True)
        if arguments.only != "weights":
            for network in NAMES:
                print(f"{network}, {IMAGES:,} images, batches of {BATCH}, Adam {LR:g}\n")
                table = compare_times(burn, network, arguments.backends, arguments.rounds)
                print(f"{table}\n", flush=True)


if __name__ == "__main__":
    main()
