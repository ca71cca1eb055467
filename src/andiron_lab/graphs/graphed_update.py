"""Updates by graphs: steps of training, and their end: check, transformations, optimizer's step.

At the end the optimizers' fused kernels read the flag of the check, and their rates from tensors
that are filled before a repetition. Python makes the end where the check is not read later, at log
points, for other optimizers, and while anything that the kernels read changes. As for steps of
training, some repetitions are also made by Python and compared to the bit.
"""

import inspect
import logging
from collections.abc import Callable, Iterable, Mapping
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

    @property
    def given(self) -> list[Tensor]:
        """The tensors of the gradients: also their loss, and what their division has found."""
        more = [] if self.gradients.found_inf is None else [self.gradients.found_inf]
        return [*self.gradients.with_loss, *more]


class GraphedEnd:
    """Ends of updates by a graph, recorded again when what it was recorded for has changed.

    What no graph can repeat is named in a warning, unless it was `said`.
    """

    def __init__(
        self,
        state: LearnerState,
        make: Callable[[], CudaGraph],
        said: set[str],
        transforms: Iterable[Transformation],
    ):
        self._make, self._said = make, said
        self._model, self._optimizer = state.model, (optimizer := state.optimizer)
        groups = sorted(optimizer.groups.values(), key=attrgetter("number"))
        self._groups = {o: [g for g in groups if g.optimizer is o] for o in optimizer.optimizers}
        self.reason: str | None = None  # why there is no graph any more
        self.repetitions = 0
        self._alike = 0  # ends, one after the other
        self._is_of: list[Any] = []  # kernels, memory and shapes by which they were made
        self._graph: CudaGraph | None = None
        self._held: list[Tensor] = []  # gradients, and the other tensors of their mean
        self._rates: dict[str, Tensor] = {}
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
        self.reason, self._graph = reason, None
        refuse(reason, self._said)

    def __call__(self, *arguments: Any) -> bool:
        """Whether the step is made; else Python has to make it."""
        end = End(*arguments)
        try:
            if self.reason is not None or not self._is_recorded(end):
                return False
        except NoGraphError as error:
            self._refuse(str(error))
            return False
        self.repetitions += 1
        if self.repetitions in PROBES:
            self._compare(end)
        else:
            self._repeat(end)
        return True

    def _is_recorded(self, end: End) -> bool:
        """Whether there is a graph for such an end; it is recorded once enough were alike.

        Raises: NoGraphError if there can be none.
        """
        rates, optimizer = end.rates, self._optimizer
        stepped = {o: groups for o, groups in self._groups.items() if groups[0].name in rates}
        owned = [*chain.from_iterable(stepped.values())]
        trained = {*chain.from_iterable(group.parameters for group in owned)}
        is_whole = trained == end.gradients.keys() and len(owned) == len(rates)
        is_other = self._is_of and end.transform is not self._is_of[0]
        if not is_whole or is_other or min(rates.values(), default=-1) < 0:
            return False
        kernels = [_kernels(own, groups, rates) for own, groups in stepped.items()]
        states = chain.from_iterable(own.held.inner.state.values() for own in optimizer.optimizers)
        slots = filter(torch.is_tensor, chain.from_iterable(map(dict.values, states)))
        tensors = chain(optimizer.parameters.values(), slots)
        is_of: list[object] = [end.transform, id(end.flag), *rates, *kernels]
        is_of += [*map(Tensor.data_ptr, tensors), *((t.shape, t.dtype) for t in end.given)]
        if is_of != self._is_of:
            self._is_of, self._graph, self._alike = is_of, None, 0
        self._alike += 1
        if self._alike <= FIRST_EAGER or not all(kernels):
            return False
        if self._graph is None:
            self._record(end, [*zip(owned, chain.from_iterable(kernels))])
        return True

    def _record(self, end: End, steps: list[tuple[Group, torch_step.Kernel]]) -> None:
        """Records a graph on the memory of these gradients; nothing is changed.

        Raises: NoGraphError if the end cannot be repeated.
        """
        rates = {name: torch.zeros((), device=end.flag.device) for name in end.rates}

        @torch.no_grad()
        def repeated() -> None:
            mean = end.gradients.replaced({**end.gradients})
            mean.found_inf = end.gradients.found_inf
            flag_nonfinite(mean, end.flag)
            if end.transform is not None:
                mean = end.transform(mean, 0)
            for group, kernel in steps:
                kernel([mean[name] for name in group.parameters], rates[group.name], end.flag)

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
        self._graph, self._rates, self._held = graph, rates, end.given

    def _repeat(self, end: End) -> None:
        """Makes the step by the graph."""
        with torch.no_grad():
            if any(map(is_not, end.given, self._held)):
                private_torch.foreach_copy_(self._held, end.given)
            for name, rate in end.rates.items():
                self._rates[name].fill_(rate)
            if self._graph is not None:
                self._graph.replay()

    def _compare(self, end: End) -> None:
        """Makes the step by the graph and, from the same state, by Python, whose result is kept."""
        own = end.gradients.replaced(_copies(end.gradients))
        own.found_inf = end.gradients.found_inf
        state = self._state(end)
        before, copies = StateBefore(self._model, self._optimizer), _copies(state)
        self._repeat(end)
        actual = _copies(state)
        before.restore()
        model_weights.copy(copies, state)
        end.step(own)
        is_drawn = before.has_drawn_beside(end.flag.device.type)
        name = "a draw on the CPU" if is_drawn else first_difference(state, actual)
        if name is not None:
            why = f"{name} of repetition {self.repetitions}"
            self._refuse(f"{why} differs from that of the step without a graph")

    def _state(self, end: End) -> dict[str, Tensor]:
        """The tensors that an end changes, by name."""
        own = self._optimizer
        return {**own.parameters, **own.state_dict(), "the flag": end.flag}


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
