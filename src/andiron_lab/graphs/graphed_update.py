"""Updates by graphs: steps of training, and their end: check, transformations, step, averages.

At the end the optimizers' fused kernels and the averages read the flag of the check; rates and
weights of averages are tensors that are filled before a repetition. Python makes the end where the
check is not read later, at log points, for other optimizers, and while anything that the kernels
read changes. As for steps of training, some repetitions are also made by Python and compared to the
bit.
"""

import inspect
import logging
from collections.abc import Callable, Hashable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import partial
from itertools import chain
from operator import attrgetter, is_not
from typing import Any, NamedTuple

import torch
from torch import Tensor

from andiron import errors
from andiron.gradients import Gradients, flag_nonfinite
from andiron.learner.construction import Choices
from andiron.learner.state import LearnerState
from andiron.optim import model_weights
from andiron.optim.foreign import torch_step
from andiron.optim.optimizer import Optimizer
from andiron.optim.own.averaging import WeightAverage
from andiron.optim.owners.group import Group
from andiron.optim.transformations import Chain, Transformation
from andiron.plain import private_torch, readable
from andiron_lab.graphs.device_graph import GRAPHS, CudaGraph
from andiron_lab.graphs.graphed_step import PROBES, GraphedStep, NoGraphError, line_of, refuse
from andiron_lab.graphs.step_state import StateBefore, first_difference

FIRST_EAGER = 4  # ends alike: by then gradients have the memory of the step's graph
log = logging.getLogger("andiron")


class End(NamedTuple):
    """The end of an update whose check is read later: made by `step`, and what it depends on."""

    step: Callable[[Gradients], None]
    gradients: Gradients
    rates: Mapping[str, float]
    flag: Tensor
    transform: Chain | None
    updates: int  # with this one

    @property
    def given(self) -> list[Tensor]:
        """The tensors of the gradients: also their loss, and what their division has found."""
        more = [] if self.gradients.found_inf is None else [self.gradients.found_inf]
        return [*self.gradients.with_loss, *more]


@dataclass
class RecordedEnd:
    """The graph of ends that are alike, once enough were, with the memory that it reads."""

    is_of: list[Any] = field(default_factory=list)  # kernels, memory and shapes
    alike: int = 0  # ends, one after the other
    graph: CudaGraph | None = None
    held: list[Tensor] = field(default_factory=list)  # the gradients' `given`
    numbers: list[Tensor] = field(default_factory=list)  # rates, then weights of averages
    repetitions: int = 0


class GraphedEnd:
    """Ends of updates by graphs, one for each choice of averages that are due.

    They are recorded again when what they were recorded for has changed. What no graph can repeat
    is named in a warning, unless it was `said`.
    """

    def __init__(
        self,
        state: LearnerState,
        make: Callable[[], CudaGraph],
        said: set[str],
        transforms: Iterable[Transformation],
    ):
        self._make, self._said, self._averages = make, said, state.averages
        self._model, self._optimizer = state.model, (optimizer := state.optimizer)
        groups = sorted(optimizer.groups.values(), key=attrgetter("number"))
        self._groups = {o: [g for g in groups if g.optimizer is o] for o in optimizer.optimizers}
        self.reason: str | None = None  # why there are no graphs any more
        self.repetitions = 0
        self._recorded: dict[Hashable, RecordedEnd] = {}  # by the averages that are due
        for transform in transforms:
            if "update" in inspect.signature(transform).parameters:
                name = readable.name_of(transform)
                self._refuse(f"gradients: {name} depends on the number of updates")
        for own, owned in self._groups.items():
            for group in owned:
                if own.kind not in torch_step.OPTIONS or group.every > 1 or group.transform:
                    rule = "needs Adam, AdamW or SGD at each update, and no transformation of its"
                    self._refuse(f"group {group.name!r} {rule} own")

    def _refuse(self, reason: str) -> None:
        self.reason = reason
        self._recorded.clear()
        refuse(reason, self._said)

    def __call__(self, *arguments: Any) -> bool:
        """Whether the step is made; else Python has to make it."""
        if self.reason is not None:
            return False
        end, due = End(*arguments), dict[WeightAverage, float]()
        for average in self._averages.values():
            if (weight := average.rule.weight(end.updates, average.count)) is not None:
                due[average] = weight
        recorded = self._recorded.setdefault(tuple(due), RecordedEnd())
        try:
            if not self._is_recorded(recorded, end, [*due]):
                return False
        except NoGraphError as error:
            self._refuse(str(error))
            return False
        self.repetitions += 1
        recorded.repetitions += 1
        numbers = [*end.rates.values(), *due.values()]
        if recorded.repetitions in PROBES:
            self._compare(recorded, end, numbers)
        else:
            _repeat(recorded, end, numbers)
            for average in due:
                average.count += 1
        return True

    def _is_recorded(self, recorded: RecordedEnd, end: End, due: list[WeightAverage]) -> bool:
        """Whether there is a graph for such an end; it is recorded once enough were alike.

        Raises: NoGraphError if there can be none.
        """
        rates, optimizer = end.rates, self._optimizer
        stepped = {o: groups for o, groups in self._groups.items() if groups[0].name in rates}
        owned = [*chain.from_iterable(stepped.values())]
        trained = {*chain.from_iterable(group.parameters for group in owned)}
        is_whole = trained == end.gradients.keys() and len(owned) == len(rates)
        is_other = recorded.is_of and end.transform is not recorded.is_of[0]
        if not is_whole or is_other or min(rates.values(), default=-1) < 0:
            return False
        kernels = [_kernels(own, groups, rates) for own, groups in stepped.items()]
        states = chain.from_iterable(own.held.inner.state.values() for own in optimizer.optimizers)
        slots = filter(torch.is_tensor, chain.from_iterable(map(dict.values, states)))
        averaged = model_weights.entries(self._model).values() if due else ()
        tensors = chain(optimizer.parameters.values(), slots, averaged)
        is_of: list[object] = [end.transform, id(end.flag), *rates, *kernels]
        is_of += [*map(Tensor.data_ptr, tensors), *((t.shape, t.dtype) for t in end.given)]
        if is_of != recorded.is_of:
            recorded.is_of, recorded.graph, recorded.alike = is_of, None, 0
        recorded.alike += 1
        if recorded.alike <= FIRST_EAGER or not all(kernels):
            return False
        if recorded.graph is None:
            self._record(recorded, end, [*zip(owned, chain.from_iterable(kernels))], due)
        return True

    def _record(
        self,
        recorded: RecordedEnd,
        end: End,
        steps: list[tuple[Group, torch_step.Kernel]],
        due: list[WeightAverage],
    ) -> None:
        """Records a graph on the memory of these gradients; nothing is changed.

        Raises: NoGraphError if the end cannot be repeated.
        """
        zero = partial(torch.zeros, (), device=end.flag.device)
        rates = {name: zero() for name in end.rates}
        weights = [zero(dtype=torch.float64) for _ in due]

        @torch.no_grad()
        def repeated() -> None:
            mean = end.gradients.replaced({**end.gradients})
            mean.found_inf = end.gradients.found_inf
            flag_nonfinite(mean, end.flag)
            if end.transform is not None:
                mean = end.transform(mean, 0)
            for group, kernel in steps:
                kernel([mean[name] for name in group.parameters], rates[group.name], end.flag)
            for average, weight in zip(due, weights):
                average.blend(self._model, weight, end.flag)

        graph, state = self._make(), self._state(end)
        before, copies = StateBefore(self._model, self._optimizer), _copies(state)
        try:
            graph.capture(repeated)
        except Exception as error:
            why = f"{line_of(error)} cannot be recorded ({errors.one_line(error)})"
            raise NoGraphError(why) from error
        finally:
            before.restore()
            model_weights.copy(copies, state)
        recorded.graph, recorded.held, recorded.repetitions = graph, end.given, 0
        recorded.numbers = [*rates.values(), *weights]

    def _compare(self, recorded: RecordedEnd, end: End, numbers: list[float]) -> None:
        """Makes the step by the graph and, from the same state, by Python, whose result is kept."""
        own = end.gradients.replaced(_copies(end.gradients))
        own.found_inf = end.gradients.found_inf
        state = self._state(end)
        before, copies = StateBefore(self._model, self._optimizer), _copies(state)
        _repeat(recorded, end, numbers)
        actual = _copies(state)
        before.restore()
        model_weights.copy(copies, state)
        end.step(own)
        is_drawn = before.has_drawn_beside(end.flag.device.type)
        name = "a draw on the CPU" if is_drawn else first_difference(state, actual)
        if name is not None:
            why = f"{name} of repetition {recorded.repetitions}"
            self._refuse(f"{why} differs from that of the step without a graph")

    def _state(self, end: End) -> dict[str, Tensor]:
        """The tensors that an end changes, by name."""
        own, averages = self._optimizer, self._averages.items()
        averaged = {f"{n} of {k}": t for n, a in averages for k, t in a.state_dict().items()}
        return {**own.parameters, **own.state_dict(), **averaged, "the flag": end.flag}


def _repeat(recorded: RecordedEnd, end: End, numbers: list[float]) -> None:
    """Makes the step by the graph."""
    with torch.no_grad():
        if any(map(is_not, end.given, recorded.held)):
            private_torch.foreach_copy_(recorded.held, end.given)
        for held, number in zip(recorded.numbers, numbers, strict=True):
            held.fill_(number)
        if recorded.graph is not None:
            recorded.graph.replay()


def _copies(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    return {name: tensor.detach().clone() for name, tensor in tensors.items()}


def _kernels(
    optimizer: Optimizer, groups: list[Group], rates: Mapping[str, float]
) -> list[torch_step.Kernel]:
    """The kernels of an optimizer's groups, with these rates; empty where it has none now."""
    step = optimizer.held.step
    numbers = step.set_rates([rates[group.name] for group in groups])
    return step.kernels([{**group.parameters} for group in groups], numbers)


def steps_for(chosen: Choices, state: LearnerState) -> dict[str, Any]:
    """The fields of an `Updater` that are made by graphs; empty where there can be none.

    The reason is said in a warning unless the option is `auto`.
    """
    options = chosen.options
    refusals = {
        f"device {chosen.device.type} has no graphs": chosen.device.type not in GRAPHS,
        "several processes or slices have none": chosen.world.is_divided,
        f"sam={options.sam}: has none": options.sam is not None,
        "an optimizer with a line search has none": state.optimizer.needs_closure,
        "profile: traces the step of Python": bool(options.profile),
    }
    for refusal in (reason for reason, applies in refusals.items() if applies):
        if options.graph != "auto":
            log.warning("graph: %s; the run continues without graphs", refusal)
        return {}
    model: Any = state.model
    parts = state, GRAPHS[chosen.device.type], set[str]()
    keeps = options.grads_accumulation > 1
    return {
        "train_step": GraphedStep(lambda batch: model.train_step(batch), *parts, keeps=keeps),
        "valid_step": GraphedStep(lambda batch: model.valid_step(batch), *parts),
        "end_by_graph": GraphedEnd(*parts, chosen.transforms),
    }
