"""A torch optimizer that already holds parameters, as groups of a model; with its scheduler."""

from collections import defaultdict
from typing import Any

import torch
from torch import nn
from torch.optim.lr_scheduler import LRScheduler, ReduceLROnPlateau

from andiron import errors
from andiron.optim.foreign.torch_step import WHOLE
from andiron.optim.grouped import Group, GroupedOptimizer
from andiron.optim.optimizer import Optimizer
from andiron.optim.owners.ownership import BASE
from andiron.optim.torch_schedule import OfGroup, OwnRates, TorchPlateau, TorchSchedule
from andiron.schedules import Constant, Linear, Schedule, from_value


def adapted(
    optimizer: torch.optim.Optimizer, lr: Any, model: nn.Module
) -> tuple[GroupedOptimizer, Schedule]:
    """A group for each of the optimizer's, which share its state, and the schedule of the run.

    Without `lr` each group has its own rate, also where the user's loop changes it; a number or a
    schedule replaces the first group's, and the others keep their ratio to it.
    Raises: MismatchError for parameters that the model lacks, or another optimizer's scheduler.
    """
    schedule = _schedule(lr, optimizer)
    groups = [
        _group(optimizer, number, model, schedule) for number in range(len(optimizer.param_groups))
    ]
    return GroupedOptimizer(model, groups), schedule


def _schedule(lr: Any, optimizer: torch.optim.Optimizer) -> Schedule:
    if lr is None:
        return OwnRates(optimizer, [*map(_kept, optimizer.param_groups)])
    if isinstance(lr, ReduceLROnPlateau):
        lr = TorchPlateau(lr)
    elif isinstance(lr, LRScheduler) or hasattr(lr, "step_update"):  # of timm
        lr = TorchSchedule(lr)
    if isinstance(lr, TorchSchedule | TorchPlateau) and lr.scheduler.optimizer is not optimizer:
        raise errors.MismatchError(
            f"{type(lr.scheduler).__name__} was made for another optimizer; give `build` that one"
        )
    return from_value(lr)


def _group(
    optimizer: torch.optim.Optimizer, number: int, model: nn.Module, schedule: Schedule
) -> Group:
    several = len(optimizer.param_groups) > 1
    group = optimizer.param_groups[number]
    names = {parameter: name for name, parameter in model.named_parameters()}
    absent = sum(parameter not in names for parameter in group["params"])
    if absent:
        raise errors.MismatchError(
            f"{absent} parameters of {type(optimizer).__name__} are not in the model: create it "
            "with model.parameters() of the model that is trained"
        )
    trained = {names[each]: each for each in group["params"] if each.requires_grad}
    inner = _part(optimizer, number) if several else optimizer
    scale = 1.0
    own: Schedule | None = None
    if isinstance(schedule, TorchSchedule | TorchPlateau | OwnRates):
        own = OfGroup(schedule, number)
    elif number:
        if not (first := float(optimizer.param_groups[0]["lr"])):
            why = "lr=0 in the first group: others have no ratio to it; give it a rate above 0"
            raise errors.MismatchError(why)
        scale = float(group["lr"]) / first
    return Group(
        name=f"group{number}" if several else BASE,
        parameters=trained,
        optimizer=Optimizer.around(inner, model, trained),
        lr_scale=scale,
        schedule=own if several else None,
    )


def _kept(group: dict[str, Any]) -> Schedule:
    """The group's own rate, which may be 0, for all updates."""
    lr = float(group["lr"])
    return Constant(lr) if lr else Linear(lr, lr, num_updates=1)


def _part(optimizer: torch.optim.Optimizer, number: int) -> Any:
    """The optimizer with one of its groups, whose options it shares, and that group's state.

    What the whole loads is the part's too, and what it saves has the part's state.
    """
    part: Any = object.__new__(type(optimizer))
    vars(part).update({**vars(optimizer), WHOLE: optimizer})
    vars(part).pop("step", None)  # of the whole optimizer

    def follow(whole: torch.optim.Optimizer) -> None:
        group = whole.param_groups[number]
        part.param_groups, part.state = [group], defaultdict(dict)
        part.state.update({p: whole.state[p] for p in group["params"] if p in whole.state})

    follow(optimizer)
    optimizer.register_load_state_dict_post_hook(follow)
    optimizer.register_state_dict_pre_hook(lambda whole: whole.state.update(part.state))
    return part
