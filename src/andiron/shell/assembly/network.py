"""The configured network in its task, with initial weights."""

import inspect
import itertools
import math
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.modules.module import register_module_parameter_registration_hook
from torch.nn.parameter import UninitializedParameter, is_lazy

from andiron import errors, randomness
from andiron.data import Splits
from andiron.data.splitting.described import Described
from andiron.models import activation_checkpointing
from andiron.plain import memory
from andiron.plain.plain_values import Named, Plain
from andiron.plain.readable import joined
from andiron.protocols import TrainStep, ValidStep
from andiron.shell.assembly import targets
from andiron.shell.config.schema import Train
from andiron.tasks.criterion import Supervised

TASKS_OF = {  # by the fact of the data that the task needs
    "num_classes": "task=classification",
    "num_outputs": "task=regression, or task=multilabel",
}
KINDS_OF = {"num_classes": "classification", "num_outputs": "regression"}  # of data=csv
# a network that replaces layers allocates more than its recorded weights
SLACK, SMALLEST_BYTES, SMALLEST_TENSORS = 4, 2**24, 256
TAKEN_AS_TASK = (
    "a torch.nn.Module with train_step(batch) and valid_step(batch), such as "
    "andiron.tasks.Classifier"
)


@dataclass(frozen=True)
class SizeLimit:
    """The size limit of a network: little more than its recorded weights."""

    num_bytes: int
    num_tensors: int
    source: str  # in messages: model.safetensors

    @classmethod
    def of(cls, weights: Mapping[str, Tensor], source: str) -> "SizeLimit":
        """The limit for these weights."""
        num_bytes = sum(tensor.nbytes for tensor in weights.values())
        num_tensors = SLACK * len(weights) + SMALLEST_TENSORS
        return cls(SLACK * num_bytes + SMALLEST_BYTES, num_tensors, source)


def model(
    config: Train,
    splits: Splits | Described,
    size_limit: SizeLimit | None = None,
) -> nn.Module:
    """The task around the configured network, initialised from the seed."""
    randomness.start_stream(config.seed, "init")
    kind = targets.resolve("task._target_", config.task["_target_"])
    _check_task(config, kind, splits)
    if inspect.isclass(kind) and issubclass(kind, Supervised):  # it calls the network
        _check_forward("model", config.model)
    if config.loss is not None:
        _check_forward("loss", config.loss)
    offered = splits.offered | getattr(kind, "network_facts", {})  # one logit for a binary task
    if shape := splits.facts.get("input_shape"):
        offered["in_chans"] = shape[0]
    with weights_counted(config.model, size_limit):
        network = targets.build_instance(
            "model", config.model, nn.Module, "a torch.nn.Module", **offered
        )
        if has_lazy(network):
            give_sizes(network, config.model, splits.facts)
    parts = {"network": _prepared(network, config), **loss_argument(config)}
    task: nn.Module = targets.build("task", config.task, **parts, **splits.offered)
    has_steps = isinstance(task, TrainStep) and isinstance(task, ValidStep)
    has_steps &= isinstance(task, nn.Module)
    targets.check_kind("task", config.task, task, has_steps, TAKEN_AS_TASK)
    if has_lazy(task):
        raise targets.refused(
            "task", config.task, "has lazy modules of its own, which get no sizes; give them, or "
            "move them to model"
        )
    return task


def _prepared(network: nn.Module, config: Train) -> nn.Module:
    """The network in the configured memory format, with checkpointed activations, compiled."""
    if config.channels_last:
        network = network.to(memory_format=torch.channels_last)
    if config.activation_checkpointing is not None:
        pattern = config.activation_checkpointing
        with targets.refusals_named(f"activation_checkpointing={pattern}"):
            activation_checkpointing.apply(network, pattern)
    if config.compile:
        network.compile()
    return network


def preprocessing(node: Named | None) -> Named:
    """How the configured network expects its inputs, if its own configuration says it."""
    kind = targets.resolve("model._target_", node["_target_"]) if node else None
    if not node or not inspect.isfunction(kind) or not hasattr(kind, "preprocessing"):
        return {}
    with targets.refusals_named("model", kind):
        own: Named = kind.preprocessing(**node)
    return own


def targets_field(kind: Any, node: Named) -> Any:
    """The field of a batch with the targets, if the task `kind` takes its name as `targets`."""
    declared = inspect.signature(kind).parameters.get("targets")
    return node.get("targets", declared and declared.default)


def loss_argument(config: Train) -> Plain:
    """The configured loss, as an argument of the task."""
    node = config.loss
    return {} if node is None else {"loss": targets.build_function("loss", node, num_given=2)}


def _excess(sizes: list[int], limit: SizeLimit | None, machine: int) -> str:
    """Why weights of these sizes in bytes are too many for a machine; empty if they are not."""
    total = sum(sizes)
    takes = f"takes {memory.in_words(total)} and more for"
    if limit is not None and (total > limit.num_bytes or len(sizes) > limit.num_tensors):
        return f"{takes} {len(sizes)} weights and more, which are not in {limit.source}"
    if 2 * total > machine:
        return (
            f"{takes} weights ({memory.in_words(max(sizes))} for the largest) and as much for "
            f"their gradients, and this machine has {memory.in_words(machine)}; make it smaller"
        )
    return ""


@contextmanager
def weights_counted(node: Named, limit: SizeLimit | None) -> Iterator[None]:
    """Refuses a network larger than memory or `limit`, before its weights are initialised.

    Until then torch has only reserved their memory. Gradients need the same size again.
    Raises: ConfigError.
    """
    machine, sizes = memory.of_machine(), dict[int, int]()

    def add(weight: nn.Parameter, num_bytes: int) -> None:
        sizes[id(weight)] = num_bytes
        if why := _excess([*sizes.values()], limit, machine):
            raise targets.refused("model", node, why)

    def count(module: nn.Module, name: str, weight: nn.Parameter | None) -> None:
        if weight is not None and not weight.is_meta and not is_lazy(weight):
            add(weight, weight.nbytes)

    def materialize(
        weight: nn.Parameter, shape: tuple[int, ...], *more: object, **named: object
    ) -> None:
        add(weight, math.prod(shape) * weight.data.element_size())
        give_size(weight, shape, *more, **named)

    lazy: Any = UninitializedParameter  # the weight of a lazy module
    give_size = lazy.materialize
    hook = register_module_parameter_registration_hook(count)
    lazy.materialize = materialize
    try:
        yield
    finally:
        hook.remove()
        lazy.materialize = give_size


def _check_forward(option: str, node: Named) -> None:
    """Refuses a class whose modules cannot be called, such as ModuleList."""
    target = targets.resolve(f"{option}._target_", node["_target_"])
    if getattr(target, "forward", None) is nn.Module.forward:
        raise targets.refused(option, node, "has no method forward(inputs); choose one that has")


def _check_task(config: Train, kind: Any, splits: Splits | Described) -> None:
    """Refuses data of another task, and an unused loss."""
    facts = [fact for fact in TASKS_OF if fact in splits.facts]
    wanted = getattr(kind, "wanted_fact", None)
    title, most = kind.__name__, getattr(kind, "most_classes", math.inf)
    number, names = splits.facts.get("num_classes", 0), splits.facts.get("class_names") or ()
    if number > most and (config.loss or {}).get("ignored_index") is None:
        raise errors.ConfigError(
            f"task: {title} is for {most} classes, and {splits.name} has {number}"
            f"{f' ({joined(names)})' if names else ''}; set task=classification"
        )
    if wanted and facts and wanted not in facts:
        has_kind = "kind" in config.data and splits.facts.get("num_outputs", 1) == 1
        or_kind = f", or data.kind={KINDS_OF[wanted]} to read its target so" if has_kind else ""
        raise errors.ConfigError(
            f"task: {title} is for {wanted}, and {splits.name} has {facts[0]}; set "
            f"{TASKS_OF[facts[0]]}{or_kind}"
        )
    if config.loss is not None and getattr(kind, "has_own_losses", False):
        raise errors.ConfigError(
            f"loss={config.loss['_target_']}: {title} has its own two losses; leave it out "
            "with ~loss"
        )


def has_lazy(module: nn.Module) -> bool:
    """Whether a parameter or buffer has no size yet."""
    return any(map(is_lazy, itertools.chain(module.parameters(), module.buffers())))


def give_sizes(network: nn.Module, node: Named, facts: Named) -> None:
    """Runs `network` on one sample of zeros, as the facts of the data describe it.

    It runs in evaluation mode: no random number is drawn except for the new weights.
    Raises: ConfigError if the shape of a sample is not known, or `forward` fails or leaves a module
    out.
    """
    inputs = _zeros(node, facts)
    was_training = network.training
    try:
        with torch.no_grad():
            network.eval()(inputs)
    except Exception as error:
        errors.explain(
            error, "model: lazy modules take their sizes from a forward pass of zeros "
            f"{[*inputs.shape]}", "give the modules their sizes"
        )
        raise
    finally:
        network.train(was_training)
    lazy = (name for name, value in network.named_parameters() if is_lazy(value))
    if name := next(lazy, None):
        raise targets.refused(
            "model", node, f"the lazy parameter {name!r} gets no size, since forward does not use "
            "its module in evaluation mode; give its sizes"
        )


def _zeros(node: Named, facts: Named) -> Tensor:
    if "input_shape" in facts:
        return torch.zeros(1, *facts["input_shape"])
    if "context_length" in facts:
        return torch.zeros(1, int(facts["context_length"]), dtype=torch.long)
    raise targets.refused(
        "model", node, "has lazy modules, and the data set has no fact input_shape to give them "
        "their sizes; add the fact, or give the sizes"
    )
