"""Hostile values in what a run records of itself: configuration, overrides, facts of the data.

What they name, where they lead, how large they are.
"""

import functools
import itertools
import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from proofs.attempt import SECRET
from proofs.hostile_case import (
    AGAIN, BUILDING, CHANGED, FORK, REPLAY, RESUME, USING, Case, Change, config, edited, written,
)  # fmt: skip

OVERRIDES = ".hydra/overrides.yaml"
ESCAPES = "\x1b]0;owned\x07\x1b[2J"


def cases() -> Iterator[Case]:
    """All of them."""
    yield from _targets()
    yield from _texts()
    yield from _overrides()
    yield from _values()
    yield from _options()
    yield from _facts()


PLACES = {  # by place: how a configuration holds the node
    "data": lambda node: {"data": node},
    "task": lambda node: {"task": node},
    "loss": lambda node: {"loss": node},
    "model": lambda node: {"model": node},
    "optimizer": lambda node: {"optimizer": node},
    "scheduler": lambda node: {"scheduler": node},
    "metrics": lambda node: {"metrics": {"loss": node}},
    "augmentation": lambda node: {"augmentation": {"mine": node}},
    "gradients": lambda node: {"gradients": {"mine": node}},
    "averages": lambda node: {"averages": {"mine": node}},
    "early_stopping": lambda node: {"early_stopping": {"mine": node}},
    "checkpoint": lambda node: {"checkpoint": node},
    "writers": lambda node: {"writers": {"mine": node}},
    "render": lambda node: {"render": node},
    "param_groups": lambda node: {"param_groups": {"mine": node}},
    "a group's scheduler": lambda node: {
        "param_groups": {"mine": {"match": {"rank": 2}, "scheduler": node}}
    },
    "a node in a node": lambda node: {
        "metrics": {"loss": {"_target_": "andiron.metrics.Mean", "of": node}}
    },
    "a list in a node": lambda node: {
        "scheduler": {"_target_": "andiron.schedules.Composed", "schedules": [node]}
    },
}  # fmt: skip
NODES = (
    {"_target_": "os.system", "command": "touch {canary}"},
    {"_target_": "builtins.open", "file": "{canary}", "mode": "w"},
    {"_target_": "builtins.exec", "source": "open('{canary}', 'w')"},
    {"_target_": "shutil.rmtree", "path": "{outside}"},
    {"_target_": "pathlib.Path.write_text", "self": "{canary}", "data": "x"},
    {"_target_": "importlib.import_module", "name": "evil"},
    {"_target_": "site.addsitedir", "sitedir": "{folder}"},
    {"_target_": "evil.f"},
    {"_target_": "torch.load", "f": "{folder}/evil.pt", "weights_only": False},
    {"_target_": "torch.hub.load", "repo_or_dir": "{folder}", "model": "m", "source": "local"},
    {"_target_": "torch.nn.functional.importlib.import_module", "name": "evil"},
    {"_target_": "numpy.f2py.run_main", "comline_list": ["{folder}/evil.f"]},
    {"_target_": "andiron.disk.files.write_json", "path": "{canary}", "value": 1},
    {"_target_": "andiron.shell.run.run_files.remove", "folder": "{outside}"},
    {"_target_": "hydra.utils.instantiate", "config": {"_target_": "os.system"}},
    {"_target_": "torchvision.models.resnet18", "weights": "DEFAULT"},
)


def _targets() -> Iterator[Case]:
    """Each place with five of the nodes in turn, so that each node is tried at five places."""
    nodes = itertools.cycle(NODES)
    for place, held in PLACES.items():
        for node in itertools.islice(nodes, 5):
            is_listed = (place, node["_target_"]) == ("model", "torchvision.models.resnet18")
            commands = (*BUILDING, REPLAY) if is_listed else (RESUME, CHANGED, AGAIN, REPLAY)
            yield Case(f"{node['_target_']} as {place}", config(held(node)), (*commands, *USING))
    network = {"_target_": "torch.nn.Linear", "in_features": 1}
    yield Case("a network as scheduler", config({"scheduler": network}))
    schedule = {"_target_": "andiron.schedules.Constant", "lr": 0.1}
    yield Case("a schedule as model", config({"model": schedule}))
    for function in ("os.system", "torch.load", "evil.f"):
        node = {"_target_": "andiron.metrics.Mean", "of": function, "higher_is_better": True}
        change = config({"metrics": {"mine": node}})
        yield Case(f"{function} by name", change, (*BUILDING, *USING))
    for writer in (
        {"_target_": "andiron.writers.JsonLinesWriter", "path": "{canary}"},
        {"_target_": "andiron.writers.TensorBoardWriter", "folder": "{outside}"},
        {"_target_": "andiron.writers.CsvWriter", "run_dir": "{outside}"},
        {"_target_": "andiron_lab.wandb_writer.WandbWriter", "mode": "online"},
        {"_target_": "andiron_lab.mlflow_writer.MlflowWriter", "tracking_uri": "http://x"},
    ):
        change = config({"writers": {"mine": writer}})
        yield Case(f"{writer['_target_']} elsewhere", change, BUILDING)
    data = {"_target_": "andiron.data.mnist", "root": "{outside}/new", "valid": 0.1}
    yield Case("a download", config({"data": {**data, "split_seed": 0}}), BUILDING)


def _texts() -> Iterator[Case]:
    secret = f"${{oc.env:{SECRET}}}"
    for name, options in {
        "a target": {"model": {"_target_": secret}},
        "a target's package": {"model": {"_target_": f"torch.nn.{secret}"}},
        "the device": {"device": secret},
        "a regex": {"activation_checkpointing": secret, "model": {"_target_": "evil.f"}},
        "an unknown option": {secret: 1},
        "start_from": {"start_from": f"{{folder}}/{secret}"},
    }.items():
        commands = (AGAIN,) if name == "start_from" else (RESUME, CHANGED, AGAIN)
        yield Case(f"an interpolation in {name}", config(options), commands)
    for name, options in {
        "a target": {"model": {"_target_": f"os.{ESCAPES}"}},
        "the device": {"device": ESCAPES},
        "an unknown option": {ESCAPES: 1},
    }.items():
        yield Case(f"terminal escapes in {name}", config(options))


def _overrides() -> Iterator[Case]:
    for override in (
        "--experimental-rerun={folder}/evil.pickle",
        "--config-dir={folder}",
        "--info",
        "-m",
        "+hydra.callbacks.mine._target_=os.system",
        "+hydra.job.env_set.PATH={folder}",
        "hydra.output_subdir={outside}",
        "hydra/job_logging=default",
        "hydra/launcher=joblib",
        "hydra.mode=MULTIRUN",
        "hydra.searchpath=[file://{folder}]",
        "hydra.sweep.dir={outside}",
        "+optimizer@hydra.launcher=sgd",
        "model=../../../../../..{folder}/evil",
        "+evil={folder}/evil",
        f"lr=${{oc.env:{SECRET}}}",
        f"+data.name=${{oc.env:{SECRET}}}",
        "lr=choice(1,2)",
        "lr=range(1,1000000000)",
        "model._target_=os.system",
        "\x1b[2J",
    ):
        # resume= reads of them only which there are: a fork composes them
        yield Case(f"override {override!r}", written(OVERRIDES, json.dumps([override])), (FORK,))
    for name, text in {
        "a Python object": "- !!python/object/apply:os.system ['touch {canary}']",
        "an alias bomb": "a: &a [x,x]\n" + "".join(
            f"{b}: &{b} [*{a},*{a},*{a},*{a},*{a}]\n" for a, b in itertools.pairwise("abcdefghijkl")
        ),
        "no list": "lr=0.1",
        "numbers": "[1, 2]",
        "deep nesting": "[" * 100_000,
        "no text": "\0\1\2",
    }.items():  # fmt: skip
        yield Case(f"overrides.yaml with {name}", written(OVERRIDES, text), (FORK,))


def _values() -> Iterator[Case]:
    for options in (
        {"batch_size": 10**30},
        {"num_workers": -1},
        {"num_epochs": 10**400},
        {"seed": 1e308},
        {"lr": "0.1"},
        {"model": []},
        {"data": {"_target_": "andiron_lab.data.synthetic.synthetic", "num_samples": 10**13}},
        {"metrics": {"": {"_target_": "andiron.metrics.Loss"}, "\0": None}},
    ):
        yield Case(f"options {options}", config(options))
    for name, (hidden, commands) in {
        "of terabytes": ([10**12], BUILDING), "larger than its weights": ([10**5, 10**5], USING),
        "of 400 MB": ([7000, 7000], (*USING, *BUILDING, REPLAY)),
        "of more layers than its weights": ([1] * 10**5, (*USING, *BUILDING, REPLAY)),
    }.items():  # fmt: skip
        model = {"_target_": "andiron.models.MLP", "hidden": hidden}
        yield Case(f"a network {name}", config({"model": model}), commands)


def _options() -> Iterator[Case]:
    """Options that lead out of the folder, trust themselves, or take memory without a class's help.
    """
    text = {
        "_target_": "andiron.data.text", "path": "{folder}/poem.txt", "level": "characters",
        "context_length": 16, "valid": 0.1, "test": 0.1, "stride": None, "cache": "{outside}/new",
    }  # fmt: skip
    pictures = {
        "_target_": "andiron.data.image_folder", "path": "{folder}/pictures", "size": 8,
        "channels": 1, "decoded": "once", "scan": True, "cache": "{outside}/new", "valid": 0.1,
        "test": 0.1, "split_seed": 0,
    }  # fmt: skip
    average = {"_target_": "andiron.optim.Ema", "decay": 0.9}
    loss = {"_target_": "andiron.metrics.Loss"}
    linear = {"_target_": "torch.nn.Linear", "in_features": 10**6, "out_features": 10**6}
    rows = {"_target_": "torch.nn.Embedding", "num_embeddings": 10**10, "embedding_dim": 64}
    wild = {"_target_": "torchvision.transforms.v2.Lambda", "lambd": "os.system"}
    held = {"_target_": "torchvision.datasets.DatasetFolder", "root": "/", "loader": "os.system"}
    for name, options in {
        "data that write a cache elsewhere": {"data": text},
        "pictures that write a cache elsewhere": {"data": pictures},
        "an average named ../../x": {"averages": {"../../outside/x": average}},
        "a metric named ../../x": {"metrics": {"../../outside/x": loss, "loss": loss}},
        "a metric of escapes": {"metrics": {ESCAPES: loss, "loss": loss}},
        "a group named ../../x": {"param_groups": {"../../outside/x": {"match": {"rank": 2}}}},
        "a layer of terabytes": {"model": linear},
        "rows of terabytes": {"model": rows},
        "a trusted package": {"trust": ["evil"], "model": {"_target_": "evil.f"}},
        "another's weights": {"start_from": "{outside}/precious"},
        "pickled weights": {"start_from": "{folder}/evil.pth"},
        "pickled weights by a mapping": {
            "start_from": {"path": "{folder}/evil.pth", "rename": {"(a+)+$": "b"}}},
        "shards elsewhere": {"start_from": "{folder}/evil.index.json"},
        "an address of timm": {"model": {
            "_target_": "andiron_lab.networks.timm", "name": "hf-hub:x/y"}},
        "weights of timm": {"model": {
            "_target_": "andiron_lab.networks.timm", "name": "resnet18",
            "settings": {"pretrained": True, "pretrained_cfg": {"file": "{folder}/evil.pth"}}}},
        "code of transformers": {"model": {
            "_target_": "andiron_lab.networks.hf", "name": "{folder}"}},
        "a function of transformers": {"model": {
            "_target_": "andiron_lab.networks.hf", "name": "bert", "auto": "pipeline"}},
        "a run to overwrite": {"overwrite": True, "resume": "{outside}"},
        "a function among transforms": {
            "augmentation": {"mine": {"_target_": "andiron.data.Torchvision", "transform": wild}}},
        "a function of a schedule": {"scheduler": {
            "_target_": "torch.optim.lr_scheduler.LambdaLR", "lr_lambda": "os.system"}},
        "a loader of torchvision": {
            "data": {"_target_": "andiron.data.torch_dataset", "train": held}},
        "a store of checkpoints": {"checkpoint": {
            "_target_": "andiron.checkpoint.checkpointing", "store": "shutil.rmtree"}},
        "a node by position": {"model": {"_target_": "torch.nn.Sequential", "_args_": [
            {"_target_": "os.system", "command": "touch {canary}"}]}},
        "a partial node": {"loss": {
            "_target_": "os.system", "_partial_": True, "command": "touch {canary}"}},
        "a class by its attributes": {"metrics": {"loss": {
            "_target_": "andiron.metrics.Loss.__init__.__globals__"}}},
        "nine hundred levels": {"model": nested(900)},
        "many groups": {"param_groups": {
            f"g{number}": {"match": {"name": f"x{number}"}} for number in range(20_000)}},
    }.items():  # fmt: skip
        change = _with_files(config(options))
        yield Case(f"options with {name}", change, (), is_another_run=True)


def nested(levels: int) -> Any:
    """Dictionaries within dictionaries."""
    inner: Any = 1
    for _ in range(levels):
        inner = {"hidden": inner}
    return inner


def _with_files(change: Change) -> Change:
    """The change of a folder that has a text and pictures too."""

    def apply(folder: Path) -> None:
        shutil.copy(folder / "evil.pickle", folder / "evil.pth")
        shards = {"weight": "../outside/precious", "bias": "evil.pth"}
        (folder / "evil.index.json").write_text(json.dumps({"weight_map": shards}))
        (folder / "poem.txt").write_text("So much depends upon a red wheel barrow\n" * 40)
        for number in range(8):
            path = folder / "pictures" / "ab"[number % 2] / f"{number}.png"
            path.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(folder.parent / "picture.png", path)
        change(folder)

    return apply


FACTS: dict[str, Any] = {  # by place in data.json: a value that no run of the digits has
    "input_shape": [10**6, 10**6, 10**6], "input_shape ": [1, -8, 8], "input_shape  ": "x",
    "input_shape   ": [1] * 100, "num_classes": 10**12, "num_classes ": 0, "num_classes  ": "10",
    "class_names": ["\x1b[2J"] * 3, "class_names ": {"a": 1}, "columns": 3, "vocabulary": [1],
    "preprocessing": [], "preprocessing.batcher": {"kind": "os.system"},
    "preprocessing.batcher.kind": "TextBatcher ", "preprocessing.batcher.mean": "{canary}",
    "preprocessing.batcher.std": [1.0] * 5, "preprocessing.batcher.scale": None,
    "preprocessing.batcher.std ": 0, "preprocessing.batcher.mean ": float("nan"),
    "preprocessing.evaluation_batch_size": -1, "preprocessing.input_dtype": ["x"],
    "preprocessing.class_counts": [-1], "preprocessing.more": "x",
    "preprocessing.batcher._target_": "evil.f",
}  # fmt: skip


def _facts() -> Iterator[Case]:
    for place, value in FACTS.items():
        change = edited("data.json", functools.partial(_put, place.strip(), value))
        yield Case(f"data.json, {place} = {str(value)[:40]}", change, USING)


def _put(place: str, value: Any, plain: dict[str, Any]) -> None:
    *above, last = place.split(".")
    for key in above:
        plain = plain[key]
    plain[last] = value
