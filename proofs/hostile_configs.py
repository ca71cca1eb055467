"""Hostile values in the files of a run that are text: what they name, where they lead, their size.
"""

import itertools
import json
import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from proofs.attempt import SECRET
from proofs.hostile_case import (
    AGAIN, CHANGED, EVALUATE, FORK, REMOVE, REPLAY, RESUME, SHOW, Case, Change, config,
    each_checkpoint, recorded, replaced, socket_at, sparse, written,
)  # fmt: skip
from proofs.hostile_facts import USING

BUILDING = (CHANGED, AGAIN)  # a finished run that is resumed alone builds nothing


def cases() -> Iterator[Case]:
    """All of them."""
    yield from _targets()
    yield from _texts()
    yield from _overrides()
    yield from _kinds_of_file()
    yield from _contents()
    yield from _checkpoints()
    yield from _links()


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
    {"_target_": "subprocess.Popen", "args": ["touch", "{canary}"]},
    {"_target_": "builtins.open", "file": "{canary}", "mode": "w"},
    {"_target_": "builtins.exec", "source": "open('{canary}', 'w')"},
    {"_target_": "shutil.rmtree", "path": "{outside}"},
    {"_target_": "shutil.copy", "src": "/etc/hosts", "dst": "{canary}"},
    {"_target_": "pathlib.Path.write_text", "self": "{canary}", "data": "x"},
    {"_target_": "importlib.import_module", "name": "evil"},
    {"_target_": "runpy.run_path", "path_name": "{folder}/evil.py"},
    {"_target_": "site.addsitedir", "sitedir": "{folder}"},
    {"_target_": "asyncio.run", "main": None},
    {"_target_": "evil.f"},
    {"_target_": "torch.load", "f": "{folder}/evil.pt", "weights_only": False},
    {"_target_": "torch.hub.load", "repo_or_dir": "{folder}", "model": "m", "source": "local"},
    {"_target_": "torch.save", "obj": 1, "f": "{canary}"},
    {"_target_": "torch.nn.functional.importlib.import_module", "name": "evil"},
    {"_target_": "torch.nn.modules.module.warnings.sys.exit"},
    {"_target_": "numpy.save", "file": "{canary}", "arr": [1]},
    {"_target_": "numpy.f2py.run_main", "comline_list": ["{folder}/evil.f"]},
    {"_target_": "setuptools.setup", "script_name": "{folder}/evil.py"},
    {"_target_": "andiron.disk.files.write_json", "path": "{canary}", "value": 1},
    {"_target_": "andiron.shell.run.run_files.remove", "folder": "{outside}"},
    {"_target_": "andiron.checkpoint.write", "folder": "{outside}"},
    {"_target_": "andiron.serialization.save_tensors", "path": "{canary}"},
    {"_target_": "hydra.utils.instantiate", "config": {"_target_": "os.system"}},
    {"_target_": "torchvision.models.resnet18", "weights": "DEFAULT"},
)


def _targets() -> Iterator[Case]:
    """Each place with seven of the nodes in turn, so that each node is tried at four places."""
    nodes = itertools.cycle(NODES)
    for place, held in PLACES.items():
        for node in itertools.islice(nodes, 7):
            name = f"{node['_target_']} as {place}"
            change = config(lambda node=node, held=held: held(node))
            is_listed = (place, node["_target_"]) == ("model", "torchvision.models.resnet18")
            commands = (*BUILDING, REPLAY) if is_listed else (RESUME, CHANGED, AGAIN, REPLAY)
            yield Case(name, change, (*commands, *USING))
    yield Case(
        "a network as scheduler",
        config(lambda: {"scheduler": {"_target_": "torch.nn.Linear", "in_features": 1}}),
    )
    yield Case(
        "a schedule as model",
        config(lambda: {"model": {"_target_": "andiron.schedules.Constant", "lr": 0.1}}),
    )
    for function in ("os.system", "builtins.exec", "torch.load", "evil.f", "shutil.rmtree"):
        node = {"_target_": "andiron.metrics.Mean", "of": function, "higher_is_better": True}
        change = config(lambda node=node: {"metrics": {"mine": node}})
        yield Case(f"{function} by name", change, (*BUILDING, *USING))
    for writer in (
        {"_target_": "andiron.writers.JsonLinesWriter", "path": "{canary}"},
        {"_target_": "andiron.writers.TensorBoardWriter", "folder": "{outside}"},
        {"_target_": "andiron.writers.CsvWriter", "run_dir": "{outside}"},
        {"_target_": "andiron_lab.wandb_writer.WandbWriter", "mode": "online"},
        {"_target_": "andiron_lab.mlflow_writer.MlflowWriter", "tracking_uri": "http://x"},
    ):
        name = f"{writer['_target_']} elsewhere"
        change = config(lambda writer=writer: {"writers": {"mine": writer}})
        yield Case(name, change, BUILDING)
    data = {"_target_": "andiron.data.mnist", "root": "{outside}/new", "valid": 0.1}
    change = config(lambda: {"data": {**data, "split_seed": 0}})
    yield Case("a download", change, BUILDING)


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
        change = config(lambda options=options: options)
        yield Case(f"an interpolation in {name}", change, commands)
    escape = "\x1b]0;owned\x07\x1b[2J"
    for name, options in {
        "a target": {"model": {"_target_": f"os.{escape}"}},
        "the device": {"device": escape},
        "an unknown option": {escape: 1},
    }.items():
        yield Case(f"terminal escapes in {name}", config(lambda options=options: options))


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
        yield Case(f"override {override!r}", recorded([override]), (FORK,))
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
        change = written(".hydra/overrides.yaml", text)
        yield Case(f"overrides.yaml with {name}", change, (FORK,))


FILES = {  # of a run's folder, and the commands that need each
    "config.json": (RESUME, CHANGED, AGAIN, SHOW, *USING),
    "provenance.json": (CHANGED, AGAIN, SHOW, EVALUATE),
    "data.json": USING,
    "model.safetensors": USING,
    "summary.json": (SHOW,),
    "status.json": (SHOW,),
    ".hydra/overrides.yaml": (CHANGED,),
}


READERS = {  # those that need the content to be a run's
    file: tuple(name for name in commands if name != SHOW) for file, commands in FILES.items()
}


def _kinds_of_file() -> Iterator[Case]:
    for file, commands in FILES.items():
        for name, change in {
            "a pipe": lambda path: os.mkfifo(path),
            "a device": lambda path: path.symlink_to("/dev/zero"),
            "a folder": lambda path: path.mkdir(),
            "a socket": socket_at,
            "a sparse file of 100 GB": lambda path: sparse(path, 10**11),
            "a broken link": lambda path: path.symlink_to("nowhere"),
            "a link to itself": lambda path: path.symlink_to(path.name),
        }.items():
            yield Case(f"{file} is {name}", replaced(file, change), commands)


def _contents() -> Iterator[Case]:
    for file in ("config.json", "provenance.json"):
        for name, text in {
            "nothing": "",
            "half of it": '{"lr": 0.',
            "deep nesting": "[" * 200_000 + "]" * 200_000,
            "a huge number": '{"lr": ' + "9" * 100_000 + "}",
            "a surrogate": '{"lr": "\\ud800"}',
            "a list": "[1]",
            "null": "null",
            "infinity": '{"lr": Infinity}',
            "no UTF-8": "\udcff",
        }.items():
            yield Case(f"{file} holds {name}", written(file, text), READERS[file])
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
        yield Case(f"options {options}", config(lambda options=options: options))
    huge = {"model": {"_target_": "andiron.models.MLP", "hidden": [10**12]}}
    yield Case(f"options {huge}", config(lambda: huge), BUILDING)


def _checkpoints() -> Iterator[Case]:
    def damaged(change: Callable[[dict[str, Any]], None], file: str) -> Change:
        def apply(folder: Path) -> None:
            for path in folder.glob(f"checkpoints/step-*/{file}"):
                plain = json.loads(path.read_text())
                change(plain)
                path.write_text(json.dumps(plain))

        return apply

    for name in ("../../../../{canary}", "/etc/passwd", "model.safetensors/../../x", "a\0b"):
        yield Case(
            f"a manifest that lists {name!r}",
            damaged(lambda plain, name=name: plain["files"].update({name: {}}), "manifest.json"),
            (CHANGED,),
        )
    yield Case(
        "a state with other counters",
        damaged(lambda plain: plain.update(updates=-1), "state.json"),
        (CHANGED,),
    )
    for file in ("manifest.json", "state.json", "model.safetensors"):
        for name, change in {
            "a pipe": lambda path: os.mkfifo(path),
            "a device": lambda path: path.symlink_to("/dev/zero"),
            "a socket": socket_at,
            "a sparse file": lambda path: sparse(path, 10**11),
        }.items():
            apply = each_checkpoint(file, change)
            yield Case(f"{file} of checkpoints is {name}", apply, (CHANGED,))


def _links() -> Iterator[Case]:
    """Through none of them a file is removed or packed."""
    for name in (
        ".hydra", "checkpoints", "checkpoints/step-1", "tensorboard/train", "tensorboard/more",
        "experiment.log", "metrics.jsonl", "model.safetensors",
    ):  # fmt: skip
        file = name.endswith((".log", ".jsonl", ".safetensors"))

        def change(folder: Path, name: str = name, target: str = "precious" * file) -> None:
            path = folder / name
            if path.is_dir():
                shutil.rmtree(path)
            path.unlink(missing_ok=True)
            path.symlink_to(folder.parent / "outside" / target)

        yield Case(f"{name} is a link", change, (REMOVE,))
