"""A scheduler of torch.optim.lr_scheduler as a schedule, with its state.

>>> import torch
>>> optimizer = torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))], lr=0.1)
>>> halved = TorchSchedule(torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.5), every="update")
>>> [halved(updates) for updates in (0, 1, 2)]
[0.1, 0.05, 0.025]
"""

import inspect
import json
import logging
import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from types import BuiltinFunctionType, FunctionType
from typing import Any, Literal

from torch.optim import Optimizer, lr_scheduler
from torch.optim.lr_scheduler import LambdaLR

from andiron import errors
from andiron.optim.foreign.torch_step import set_rate
from andiron.plain import improvement, private_torch
from andiron.schedules import Constant, Linear, Schedule

State = dict[str, Any]
FUNCTIONS = (FunctionType, BuiltinFunctionType, type)
MOVED = re.compile("lr|momentum|betas")  # settings of a group that schedulers change
EACH_UPDATE = (lr_scheduler.OneCycleLR, lr_scheduler.CyclicLR)
log = logging.getLogger("andiron")


class TorchSchedule:
    """The learning rates that a torch scheduler sets, stepped after each update or epoch.

    Without `every`, OneCycleLR and CyclicLR step after each update, all others after each epoch;
    a scheduler of timm hears of both. Momenta that the scheduler changes are used too. State: the
    scheduler's, and its groups'.
    Raises: MismatchError for a scheduler that steps by a metric.
    """

    def __init__(
        self, scheduler: Any, every: Literal["update", "epoch"] | None = None
    ):
        self.scheduler = scheduler
        self.counts_both = hasattr(scheduler, "step_update")  # of timm
        _check_steps(scheduler, self.counts_both)
        if every is None and not self.counts_both:
            every = "update" if isinstance(scheduler, EACH_UPDATE) else "epoch"
            name = type(scheduler).__name__
            # all schedules of transformers count updates
            level = logging.WARNING if isinstance(scheduler, LambdaLR) else logging.INFO
            remedy = 'if it counts updates, give TorchSchedule(scheduler, every="update")'
            log.log(level, "%s steps after each %s; %s", name, every, remedy)
        self._every = every
        self._position: Any = None
        self._updates = self._epochs = 0
        self._before = rates(scheduler.optimizer)

    def start(self, position: Any) -> None:
        """Sets the position of the run, which counts completed epochs, before training."""
        self._position = position

    def __call__(self, updates: int, group: int = 0) -> float:
        """The rate of a group for the update after `updates` completed ones.

        For updates before the last one, the rate of the last one.
        """
        while self._updates < updates:
            self._updates += 1
            self._before = rates(self.scheduler.optimizer)
            if self.counts_both:
                self.scheduler.step_update(self._updates)
            elif self._every == "update":
                _step(self.scheduler)
        # not so many updates: some are skipped, and a resume may change the length of an epoch
        while self._every != "update" and self._position and self._epochs < self._position.epoch:
            self._epochs += 1
            _step(self.scheduler, *([self._epochs] if self.counts_both else []))
        now = rates(self.scheduler.optimizer)  # which the user's loop may have changed
        return (now if updates == self._updates else self._before)[group]

    def state_dict(self) -> State:
        """The completed updates and epochs, and the scheduler's and its groups' state."""
        counts = {"updates": self._updates, "epochs": self._epochs}
        return {**counts, "torch": _states(self.scheduler)}

    def load_state_dict(self, state: State) -> None:
        """Continues from a saved state.

        Raises: ValueError for the state of another scheduler.
        """
        _restore(self.scheduler, state["torch"])
        # states of earlier versions have no epochs
        steps = getattr(self.scheduler, "last_epoch", 0)
        self._updates, self._epochs = int(state["updates"]), int(state.get("epochs", steps))
        self._before = rates(self.scheduler.optimizer)


class TorchPlateau:
    """A ReduceLROnPlateau: it observes `metric` on `split` after each validation."""

    def __init__(self, scheduler: Any, metric: str = "loss", split: str = "valid"):
        self.scheduler = scheduler
        self.metric = metric
        self.split = split
        self.direction = "lowest" if scheduler.mode == "min" else "highest"

    def __call__(self, updates: int, group: int = 0) -> float:
        """The current rate of a group."""
        return rates(self.scheduler.optimizer)[group]

    def observe(self, values: Mapping[str, Mapping[str, float]]) -> None:
        """Observes the latest values by split and metric."""
        waiting = "the learning rate"
        value = improvement.measured(values, self.split, self.metric, waiting=waiting)
        self.scheduler.step(value)

    def state_dict(self) -> State:
        """The state of the scheduler and its groups."""
        return {"torch": _states(self.scheduler)}

    def load_state_dict(self, state: State) -> None:
        """Continues from a saved state; ValueError for the state of another scheduler."""
        _restore(self.scheduler, state["torch"])


class OwnRates:
    """The rates that the groups of an optimizer have: the user's loop, or a scheduler that it
    steps, may change them between two updates. State: the rates, now and at the start.
    """

    def __init__(self, optimizer: Optimizer):
        self.optimizer = optimizer
        self._initial = rates(optimizer)

    @property
    def at_start(self) -> Schedule:
        """For the record: the first group's rate when the run began."""
        return self.group_at_start(0)

    def group_at_start(self, group: int) -> Schedule:
        """For the record: a group's rate, which may be 0, when the run began."""
        lr = self._initial[group]
        return Constant(lr) if lr else Linear(lr, lr, num_updates=1)

    def __call__(self, updates: int, group: int = 0) -> float:
        """The current rate of a group."""
        private_torch.mark_stepped(self.optimizer)  # a scheduler of the user's asks
        return rates(self.optimizer)[group]

    def state_dict(self) -> State:
        """The rates of the groups."""
        return {"rates": rates(self.optimizer), "initial": self._initial}

    def load_state_dict(self, state: State) -> None:
        """Continues from saved rates, in the ratio of the first rate now to the saved one."""
        groups = self.optimizer.param_groups
        before = state.get("initial", self._initial)  # states of earlier versions have none
        ratios = zip(groups, state["rates"], before, self._initial, strict=True)
        for group, rate, was, now in ratios:
            set_rate(group, float(rate if was == now or not was else rate * now / was))


@dataclass(frozen=True, repr=False)
class OfGroup:
    """The schedule of one group of a torch optimizer."""

    whole: TorchSchedule | TorchPlateau | OwnRates
    group: int

    def __call__(self, updates: int) -> float:
        return self.whole(updates, self.group)

    @property
    def at_start(self) -> Schedule:
        """For the record: the rate that the group began with, if the user's loop may change it."""
        is_own = isinstance(self.whole, OwnRates)
        return self.whole.group_at_start(self.group) if is_own else self  # type: ignore[union-attr]

    def __repr__(self) -> str:
        """For the record of the run, without an address in memory."""
        of = getattr(self.whole, "scheduler", self.whole)
        return f"{type(of).__name__}, group {self.group}"


def _step(scheduler: Any, *count: int) -> None:
    private_torch.mark_stepped(scheduler.optimizer)
    scheduler.step(*count)


def _check_steps(scheduler: Any, counts_both: bool) -> None:
    kind, inner = type(scheduler).__name__, getattr(scheduler, "lr_scheduler", None)
    if counts_both and inner is not None:  # of timm, which saves its best value alone
        why = f"{kind} does not save its state; give the {type(inner).__name__} in its lr_scheduler"
        raise errors.MismatchError(why)
    takes = inspect.signature(scheduler.step).parameters.values()
    needed = [parameter.name for parameter in takes if parameter.default is parameter.empty]
    if needed and not counts_both:
        why = f"{kind} steps by {needed[0]}; give TorchPlateau(scheduler), of this module"
        raise errors.MismatchError(why)


def rates(optimizer: Optimizer) -> list[float]:
    """The rate of each group now."""
    return [float(group["lr"]) for group in optimizer.param_groups]


def _states(scheduler: Any) -> list[State]:
    """The scheduler's state, and the settings of its optimizer's groups that it may change.

    Functions are the program's own.
    """
    state, groups = scheduler.state_dict(), scheduler.optimizer.param_groups
    return [
        {key: value for key, value in state.items() if not isinstance(value, FUNCTIONS)},
        *({key: group[key] for key in group if MOVED.search(key)} for group in groups),
    ]


def _restore(scheduler: Any, saved: Any) -> None:
    now = _states(scheduler)
    try:
        if isinstance(saved, str):  # of an earlier version
            saved = json.loads(saved, object_hook=_with_numbers)
        is_own = [group.keys() for group in saved] == [group.keys() for group in now]
    except (ValueError, AttributeError, TypeError):
        is_own = False
    if not is_own:
        raise ValueError(f"not the state of this {type(scheduler).__name__}")
    state, *groups = saved
    firsts = [[group.get("initial_lr") for group in made] for made in (groups, now[1:])]
    if firsts[0] != firsts[1]:
        raise ValueError(
            f"{type(scheduler).__name__} began with the rates {firsts[0]}, and this one with "
            f"{firsts[1]}; its state has all later rates, so that a resume cannot change them: "
            "give the same rates, or start another run from these weights"
        )
    for setting in inspect.signature(type(scheduler)).parameters.keys() - {"last_epoch"}:
        was, given = state.get(setting), now[0].get(setting)
        if isinstance(given, int | float) and was != given:
            log.warning("the checkpoint's %s=%s counts, not %s", setting, was, given)
    scheduler.load_state_dict({**scheduler.state_dict(), **state})
    for group, values in zip(scheduler.optimizer.param_groups, groups, strict=True):
        set_rate(group, float(values.pop("lr")))
        group.update(values)


def _with_numbers(saved: dict[str, Any]) -> Mapping[Any, Any]:
    """A dict that an earlier version wrote as JSON; one of numbers counts milestones."""
    is_counter = all(map(str.isdigit, saved))
    return Counter({int(key): saved[key] for key in saved}) if is_counter else saved
