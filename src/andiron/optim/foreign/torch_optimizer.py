"""Any optimizer as groups of a model, with the run's schedule; a torch one has its parameters."""

from typing import Any

import torch
from torch import nn
from torch.optim.lr_scheduler import LRScheduler, ReduceLROnPlateau

from andiron import errors
from andiron.optim.grouped import GroupedOptimizer
from andiron.optim.optimizer import Optimizer
from andiron.optim.owners.group import Group
from andiron.optim.owners.ownership import BASE
from andiron.optim.torch_schedule import OfGroup, OwnRates, TorchPlateau, TorchSchedule
from andiron.schedules import Schedule, from_value


def adapted(optimizer: object, lr: Any, model: nn.Module) -> tuple[GroupedOptimizer, Schedule]:
    """A group for each of a torch optimizer's, which steps them at once, and the run's schedule.

    Without `lr` each group has its own rate, also where the user's loop changes it; a number or a
    schedule replaces the first group's, and the others keep their ratio to it, times `lr_scale`.
    Raises: MismatchError for parameters that the model lacks, a group without a rate, or another
    optimizer's scheduler; TypeError for what is no optimizer, or none with a rate.
    """
    if isinstance(optimizer, Optimizer):
        optimizer = GroupedOptimizer.of(optimizer, model)
    if isinstance(optimizer, GroupedOptimizer) and not isinstance(lr, LRScheduler | None):
        return optimizer, from_value(lr)
    if not isinstance(optimizer, torch.optim.Optimizer):
        raise TypeError(
            f"optimizer={type(optimizer).__name__}, lr={lr}: give `build` the torch optimizer that "
            "has the rate, or one of andiron.optim, such as a GroupedOptimizer of several, and a "
            "number or schedule as lr"
        )
    trained = [_trained(optimizer, group, model) for group in optimizer.param_groups]
    whole = Optimizer.around(optimizer, model, trained, keeps_rate=lr is None)
    schedule = _schedule(lr, optimizer)
    groups = [_group(optimizer, n, whole, own, schedule) for n, own in enumerate(trained)]
    return GroupedOptimizer(model, groups), schedule


def _schedule(lr: Any, optimizer: torch.optim.Optimizer) -> Schedule:
    if isinstance(lr, ReduceLROnPlateau):
        lr = TorchPlateau(lr)
    elif isinstance(lr, LRScheduler) or hasattr(lr, "step_update"):  # torch's, or timm's
        lr = TorchSchedule(lr)
    scales = {group.get("lr_scale", 1.0) for group in optimizer.param_groups}
    multiplies = isinstance(lr, int | float) or isinstance(lr, TorchSchedule) and lr.counts_both
    if scales != {1.0} and not multiplies:
        raise errors.MismatchError(
            f"{type(optimizer).__name__}: its groups have an lr_scale, which torch ignores; give "
            "`build` the rate as lr, or a scheduler of timm, which multiply by it; or remove it"
        )
    if isinstance(lr, TorchSchedule | TorchPlateau) and lr.scheduler.optimizer is not optimizer:
        raise errors.MismatchError(
            f"{type(lr.scheduler).__name__} was made for another optimizer; give `build` that one"
        )
    return OwnRates(optimizer) if lr is None else from_value(lr)


def _trained(
    optimizer: torch.optim.Optimizer, group: dict[str, Any], model: nn.Module
) -> dict[str, nn.Parameter]:
    names = {parameter: name for name, parameter in model.named_parameters()}
    absent = sum(parameter not in names for parameter in group["params"])
    if absent:
        raise errors.MismatchError(
            f"{absent} parameters of {type(optimizer).__name__} are not in the model: create it "
            "with model.parameters() of the model that is trained"
        )
    return {names[parameter]: parameter for parameter in group["params"] if parameter.requires_grad}


def _group(
    optimizer: torch.optim.Optimizer,
    number: int,
    whole: Optimizer,
    trained: dict[str, nn.Parameter],
    schedule: Schedule,
) -> Group:
    several = len(optimizer.param_groups) > 1
    first, group = optimizer.param_groups[0], optimizer.param_groups[number]
    own: Schedule | None = None
    scale = float(group.get("lr_scale", 1.0))
    if isinstance(schedule, TorchSchedule | TorchPlateau | OwnRates):
        own, scale = OfGroup(schedule, number), 1.0
    elif number:
        if not float(first["lr"]):
            why = "lr=0 in the first group: others have no ratio to it; give it a rate above 0"
            raise errors.MismatchError(why)
        scale *= float(group["lr"]) / float(first["lr"])
    return Group(
        name=f"group{number}" if several else BASE,
        parameters=trained,
        optimizer=whole,
        number=number,
        lr_scale=scale,
        schedule=own if several else None,
    )
