"""Updates by graphs: steps of training, and their end: check, transformations, step, averages.

At the end the optimizers' fused kernels and the averages read the flag of the check; rates and
weights of averages are tensors that are filled before a repetition. Python makes the end where the
check is not read later, at log points, for other optimizers, and while anything that the kernels
read changes. As for steps of training, some repetitions are also made by Python and compared to the
bit.
"""

import inspect
import logging
from collections.abc import Callable, Mapping
from functools import partial
from itertools import chain
from operator import itemgetter
from typing import Any, NamedTuple

import torch
from torch import Tensor

from andiron.gradients import Gradients, flag_nonfinite
from andiron.learner.construction import Choices
from andiron.learner.state import LearnerState
from andiron.optim import model_weights
from andiron.optim.foreign import torch_step
from andiron.optim.own.averaging import WeightAverage
from andiron.optim.owners.group import Group
from andiron.optim.transformations import Chain
from andiron.plain import readable
from andiron_lab.graphs.device_graph import GRAPHS
from andiron_lab.graphs.graphed_step import GraphedStep
from andiron_lab.graphs.recordings import Recording, Recordings
from andiron_lab.graphs.step_state import NoGraphError, StateBefore, bits_of

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


class GraphedEnd:
    """Ends of updates by graphs, one for each choice of averages that are due."""

    def __init__(self, state: LearnerState, recordings: Recordings):
        self.recordings, self._averages = recordings, state.averages
        self._model, self._optimizer = state.model, state.optimizer
        for own, groups in state.optimizer.owned.items():
            for group in groups:
                if own.kind not in torch_step.OPTIONS or group.every > 1 or group.transform:
                    rule = "needs Adam, AdamW or SGD at each update, and no transformation of its"
                    recordings.refuse(f"group {group.name!r} {rule} own")

    def __call__(self, *arguments: Any) -> bool:
        """Whether the step is made; else Python has to make it."""
        try:
            return self.recordings.reason is None and self._is_made(End(*arguments))
        except NoGraphError as error:
            self.recordings.refuse(str(error))
            return False

    def _is_made(self, end: End) -> bool:
        due = {
            average: weight
            for average in self._averages.values()
            if (weight := average.rule.weight(end.updates, average.count)) is not None
        }
        recording = self._recorded(end, [*due])
        if recording is None:
            return False
        numbers = [*end.rates.values(), *due.values()]
        if recording.is_probe():
            self._compare(recording, end, numbers)
        else:
            _repeat(recording, end, numbers)
            for average in due:
                average.count += 1
        return True

    def _recorded(self, end: End, due: list[WeightAverage]) -> Recording | None:
        """The recording for such an end, made once enough were alike.

        Raises: NoGraphError if there can be none.
        """
        rates, steps = end.rates, list[tuple[Group, torch_step.Kernel]]()
        for own, groups in self._optimizer.owned.items():
            if rates.keys() >= {group.name for group in groups}:  # else some are frozen
                step = own.held.step
                numbers = step.set_rates([rates[group.name] for group in groups])
                steps += zip(groups, step.kernels([{**g.parameters} for g in groups], numbers))
        trained = {name for group, _ in steps for name in group.parameters}
        is_whole = trained == end.gradients.keys() and len(steps) == len(rates)
        if not is_whole or min(rates.values(), default=-1) < 0:
            return None
        states = chain.from_iterable(own.held.inner.state.values() for own in self._optimizer.owned)
        slots = filter(torch.is_tensor, chain.from_iterable(map(dict.values, states)))
        averaged = model_weights.entries(self._model).values() if due else ()
        tensors = chain(self._optimizer.parameters.values(), slots, averaged)
        is_of: list[object] = [end.transform, id(end.flag), *rates, *map(itemgetter(1), steps)]
        is_of += [*map(Tensor.data_ptr, tensors), *((t.shape, t.dtype) for t in end.given)]
        recording = self.recordings.turn(tuple(due), is_of)
        if recording.turns <= FIRST_EAGER:
            return None
        if recording.graph is None:
            self._record(recording, end, steps, due)
        return recording

    def _record(
        self,
        recording: Recording,
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
        def repeated() -> list[Tensor]:
            flag_nonfinite(end.gradients, end.flag)
            mean = end.gradients.replaced({**end.gradients})
            if end.transform is not None:
                mean = end.transform(mean, 0)
            for group, kernel in steps:
                kernel([mean[name] for name in group.parameters], rates[group.name], end.flag)
            for average, weight in zip(due, weights):
                average.blend(self._model, weight, end.flag)
            return [*rates.values(), *weights]

        before = StateBefore(self._model, self._optimizer, self._state(end))
        recording.capture(end.given, before, repeated)

    def _compare(self, recording: Recording, end: End, numbers: list[float]) -> None:
        """Makes the step by the graph and, from the same state, by Python, whose result is kept."""
        own = end.gradients.replaced({n: tensor.clone() for n, tensor in end.gradients.items()})
        own.found_inf = end.gradients.found_inf
        state = self._state(end)
        before = StateBefore(self._model, self._optimizer, state)
        _repeat(recording, end, numbers)
        actual = {name: bits_of(tensor) for name, tensor in state.items()}
        before.restore()
        end.step(own)
        try:
            if before.has_drawn_beside(end.flag.device.type):
                raise NoGraphError("the end of an update draws on the CPU, which is not repeated")
            recording.check({name: bits_of(tensor) for name, tensor in state.items()}, actual)
        except NoGraphError as error:
            self.recordings.refuse(str(error))

    def _state(self, end: End) -> dict[str, Tensor]:
        """The tensors that an end changes, by name."""
        own, averages = self._optimizer, self._averages.items()
        averaged = {f"{n} of {k}": t for n, a in averages for k, t in a.state_dict().items()}
        return {**own.parameters, **own.state_dict(), **averaged, "the flag": end.flag}


def _repeat(recording: Recording, end: End, numbers: list[float]) -> None:
    """Makes the step by the graph."""
    for tensor, number in zip(recording.output, numbers, strict=True):
        tensor.fill_(number)
    recording.repeat(end.given)


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
    said = set[str]()  # a reason against two of them is said once
    train, valid, end = (Recordings(GRAPHS[chosen.device.type], said) for _ in range(3))
    for transform in chosen.transforms:
        if "update" in inspect.signature(transform).parameters:
            name = readable.name_of(transform)
            end.refuse(f"gradients: {name} depends on the number of updates")
    keeps = options.grads_accumulation > 1
    return {
        "train_step": GraphedStep(lambda batch: model.train_step(batch), state, train, keeps=keeps),
        "valid_step": GraphedStep(lambda batch: model.valid_step(batch), state, valid),
        "end_by_graph": GraphedEnd(state, end),
    }
