"""The typed shape of a run's configuration, its check, and its record as JSON.

Each option stands once, with its type, range, default, meaning and resume policy: the learner's in
`andiron.options`, the others here.
"""

import dataclasses
import os
from collections.abc import Sequence
from dataclasses import MISSING, dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field

from andiron import errors
from andiron.disk import files
from andiron.options import LearnerOptions, Resume, option
from andiron.plain import readable, wings
from andiron.plain.plain_values import Named, Plain
from andiron.ranges import Count, Device, Every, Index, Positive, RunName, SetName, StartFrom
from andiron.shell.config import former_options, node_checks, rules, violations
from andiron.shell.config.trust import LIST_ALONE, Trust
from andiron.shell.config.violations import Problems, fields_of

Node = Plain  # a `_target_` and its arguments, checked against the target's signature
Nodes = Plain  # nodes by name
NODE_GROUPS = ("data", "task", "loss", "model", "optimizer", "scheduler", "checkpoint", "render")
NAMED_GROUPS = (
    "metrics", "averages", "augmentation", "early_stopping", "gradients", "observers", "writers",
)  # fmt: skip
RULES = "param_groups"
CHOSEN = (*NODE_GROUPS, *NAMED_GROUPS, RULES)  # by the names of files
PATH_ARGUMENTS = ("root", "path", "cache")  # of a data set
MAY_BE_PATHS = (*PATH_ARGUMENTS, "test")  # if they are texts
VARIABLES = "variables"  # of the user's, in a record; in a configuration at its top level
SETS, LATER = "valid_sets", "changes"  # of a data set: paths by name; what holds from a sample on
OF_A_SWEEP = ("jobs", "sweep_name", "objective")  # options that need -m
INSTRUCTIONS = (*OF_A_SWEEP, "resume", "resume_allow", "overwrite", "trust")  # not in a record
MOST_TEXT = 500  # characters of a text of a run folder in a message
FROM_PYTHON = "from_python"  # entry of the record of a run that Python code built
# options of how a run is started and shown, not of what is trained
APART = frozenset((*INSTRUCTIONS, "render", "restart"))
DEFAULT_WRITERS = {
    "tensorboard": {"_target_": "andiron.writers.TensorBoardWriter"},
    "json_lines": {"_target_": "andiron.writers.JsonLinesWriter"},
}


@dataclass(frozen=True)
class Demands:
    """The options that decide what a run takes of the machine, as in its configuration."""

    device: str
    batch_size: int
    slices: int | None
    num_workers: int


@dataclass(frozen=True, kw_only=True)
class Train(LearnerOptions):
    """One training run: what `conf/train.yaml` composes and what `config.json` records."""

    lr: Positive = option(MISSING, "learning rate; each optimizer sets its usual one", hparam=True)
    data: Node = option(MISSING, "data set", resume="never", hparam=True)
    task: Node = option(MISSING, "training and validation steps", hparam=True)
    model: Node = option(MISSING, "network", resume="never", hparam=True)
    loss: Node | None = option(None, "loss function", hparam=True)
    metrics: Nodes = option(MISSING, "metrics of training, validation and test", resume="never")
    valid_sets_every: dict[SetName, Every] | None = option(
        None, "cadence of the sets in data.valid_sets: {night: 500}; others as validate_every"
    )
    augmentation: Nodes | None = option(
        None, "random transformations of training samples", hparam="if set"
    )
    optimizer: Node = option(
        MISSING, "optimizer of every parameter that no group claims", hparam=True
    )
    param_groups: Plain | None = option(
        None, "groups of parameters with their own settings", resume="never", hparam="if set"
    )
    scheduler: Node = option(MISSING, "learning rate schedule", hparam=True)
    gradients: Nodes | None = option(None, "gradient transformations, in order", hparam="if set")
    averages: Nodes | None = option(None, "averages of the weights", hparam="if set")
    early_stopping: Nodes | None = option(
        None, "early stopping rules", resume="free", hparam="if set"
    )
    observers: Nodes | None = option(
        None, "code of your own after updates and validations", hparam="if set"
    )
    checkpoint: Node | None = option(
        None, "when to save checkpoints, and which to keep", resume="free"
    )
    writers: Nodes | None = option(
        DEFAULT_WRITERS, "where to write logged values; a choice replaces the two", resume="free"
    )
    render: Node | None = option(None, "progress on the terminal", resume="free")
    batch_size: Count = option(64, "samples per training batch", hparam=True)
    strategy: Literal["auto", "none", "ddp", "fsdp"] = option(
        "auto", "how processes share the run; auto: ddp if torchrun started several", resume="free"
    )
    shards: Count | None = option(
        None, "with fsdp, the processes of a copy of the model; default: all", resume="free"
    )
    sync_batchnorm: bool = option(
        False, "BatchNorm normalises by the whole batch of all processes, on GPUs", hparam="if set"
    )
    slices: Count | None = option(
        None,
        "fixed parts of a batch, each with a forward and backward of its own, such as 8",
        hparam="if set",
    )
    peer_timeout: Positive = option(
        600.0, "seconds to wait for an unresponsive process before the run ends", resume="free"
    )
    num_workers: Index = option(
        0, "data loading processes; data in memory needs none", resume="free"
    )
    device: Device = option("auto", "auto, cpu, cuda, cuda:1 or mps", resume="free")
    deterministic: bool = option(
        False, "deterministic kernels only; an operation without one ends the run", hparam="if set"
    )
    compile: bool = option(False, "torch.compile the network")
    channels_last: bool = option(False, "channels-last memory format for images")
    activation_checkpointing: str | None = option(
        None, "regex of modules whose activations are recomputed in backward"
    )
    start_from: StartFrom | None = option(
        None,
        "weights of a run, timm, Hugging Face...: a file, a folder, or {path: x, partial: true}",
        resume="never",
        hparam="if set",
    )
    show_layers: bool = option(
        False, "print layers, output shapes, operations and memory before training", resume="free"
    )
    debug: bool = option(
        False, "test the configuration on a few batches, below outputs/debug", resume="never"
    )
    name: RunName | None = option(
        None, "name of the run, part of its folder name", resume="never", hparam="if set"
    )
    overwrite: bool = option(False, "replace the run in hydra.run.dir", resume="free")
    fork_from: str | None = option(
        None,
        "a run, whose whole state and options this one begins with: RUN, RUN@1234, RUN@best, "
        "RUN@epoch:3",
        resume="never",
        hparam="if set",
    )
    resume: str | None = option(
        None, "a run folder; latest; or auto: the run in hydra.run.dir", resume="free"
    )
    resume_allow: list[str] = option(
        [], "options that a resumed run may change: [lr, batch_size]", resume="free"
    )
    trust: list[str] = option([], "packages whose classes a run folder may name", resume="free")
    jobs: Count = option(1, "runs of a sweep in parallel; they share cores and GPUs", resume="free")
    sweep_name: RunName | None = option(
        None, "name of a sweep's folder; the same command continues the sweep", resume="free"
    )
    objective: str | list[str] | None = option(
        None,
        "metric that ranks the runs of a sweep: valid/accuracy; null: the checkpoint's",
        resume="free",
    )
    interrupted_exit_code: Annotated[int, Field(ge=1, le=255)] | None = option(
        None, "exit code after a signal; null: 128 + its number, 130 for Ctrl-C", resume="free"
    )

    variables: Plain = option(
        {}, "top-level keys of your own that others interpolate", resume="free", hparam="if set"
    )

    @property
    def demands(self) -> Demands:
        return Demands(self.device, self.batch_size, self.slices, self.num_workers)

    def recorded(self) -> Plain:
        """The content of config.json, which `load` reads: without instructions to the command."""
        plain = dataclasses.asdict(self)
        return {name: value for name, value in plain.items() if name not in INSTRUCTIONS}

    def with_absolute_paths(self) -> "Train":
        """The configuration with paths made absolute against the current directory."""
        start: Any = self.start_from
        path = start["path"] if isinstance(start, dict) else start
        if path and "://" not in path:  # the address of a mirror stays
            path = os.path.abspath(path)
        start = {**start, "path": path} if isinstance(start, dict) else path
        return dataclasses.replace(self, data=_absolute(self.data), start_from=start)

    @classmethod
    def load(cls, path: Path, trust: Trust = LIST_ALONE) -> "Train":
        """The configuration in the JSON file at `path`; missing fields take their defaults.

        The file is untrusted: it may name only what `trust` allows; instructions are left out.
        Raises: ConfigError naming every unknown, missing or wrong value, and every refused name.
        """
        try:
            plain = files.read_json(Path(path))
        except ValueError as error:
            raise errors.ConfigError(f"{path}: not JSON: {error}") from error
        if not isinstance(plain, dict):
            raise errors.ConfigError(
                f"{path}: holds {type(plain).__name__}, not an object of options"
            )
        if FROM_PYTHON in plain:
            match plain[FROM_PYTHON]:
                case {"built_at": str(built)} if len(built) <= MOST_TEXT:
                    code = f" ({readable.printable_line(built)})"
                case _:
                    code = ""
            raise errors.ConfigError(
                f"{path}: a run started from Python; run its code again{code}, with resume=True to "
                "resume it, in another run_dir to repeat it"
            )
        kept = {name: value for name, value in plain.items() if name not in INSTRUCTIONS}
        recorded = former_options.current(kept)
        trust.check(recorded)
        lines = problems(recorded)
        if lines:
            raise errors.ConfigError(f"{path}: {line}" for line in lines.values())
        return cls(**recorded)


def _absolute(node: Node, paths: Sequence[str] = MAY_BE_PATHS) -> Node:
    """The node of a data set with absolute paths, also in the nodes inside it.

    A `path` of another class than Andiron's may be a name: it stays as typed if nothing is there.
    """
    absolute = {
        name: _absolute(value, [*value] if name == SETS else MAY_BE_PATHS)
        for name, value in node.items()
        if isinstance(value, dict)
    }
    is_own = node_checks.is_shipped(str(node.get("_target_", "andiron.")))
    for name in paths:
        is_path = isinstance(node.get(name), str)
        if is_path and (is_own or name in ("root", "cache") or os.path.exists(node[name])):
            absolute[name] = os.path.abspath(node[name])
    return node | absolute


def resume_policy() -> dict[str, Resume]:
    """Whether a resumed run may change each option: free, ask (if allowed), or never."""
    return {field.name: field.metadata["resume"] for field in dataclasses.fields(Train)}


def hyperparameters(plain: Named) -> Plain:
    """The options that distinguish runs; rarely set options only if they are set."""
    return {
        field.name: plain[field.name]
        for field in dataclasses.fields(Train)
        if (hparam := field.metadata["hparam"]) and field.name in plain
        if hparam is True or plain[field.name] != field.default
    }


def problems(plain: Named) -> Problems:
    """The mistakes in a composed configuration: a line for each option."""
    lines = _length_problems(plain)
    lines |= violations.signature_problems(fields_of(Train), plain, "", supplied=[VARIABLES])
    lines |= node_checks.problems(plain) | rules.problems(plain)
    for group in CHOSEN:
        chosen = plain.get(group)
        if isinstance(chosen, str | list):  # in a file, or of a group without files
            text = str(chosen).replace("'", "")
            remedy = f"`override /{group}: {text}`; files of your own need --config-dir"
            why = f"should be an object, as the defaults of a file choose it: {remedy}"
            lines[group] = f"{group}={text}: {why}"
        if not isinstance(chosen, dict) or group == RULES:
            continue
        for name, node in chosen.items() if group in NAMED_GROUPS else [("", chosen)]:
            path = f"{group}.{name}".rstrip(".")
            if not isinstance(node, dict):
                reason = f"should be an object with a _target_, as {group}=... chooses"
                lines[path] = f"{path}={node}: {reason}"
            elif node and name and "_target_" not in node:
                reason = f"has options but no _target_; give {group}={name} too, or a _target_"
                lines[path] = f"{path}: {reason}"
            elif "_target_" not in node:
                lines |= node_checks.no_target(path, None)
    misplaced = wings.optional("explain.misplaced") if lines else None
    return misplaced.corrected(lines, plain) if misplaced else lines


def _length_problems(plain: Named) -> Problems:
    """Requires one of num_epochs and num_updates; num_updates replaces a default num_epochs."""
    default = LearnerOptions().num_epochs
    num_epochs, num_updates = plain.get("num_epochs", default), plain.get("num_updates")
    if num_epochs is num_updates is None:
        return {"num_epochs": "num_epochs: no value; give num_epochs or num_updates"}
    if num_updates is None or num_epochs in (None, default):
        return {}
    reason = f"num_updates={num_updates} is given too; set one to null"
    return {"num_epochs": f"num_epochs={num_epochs}: {reason}"}
