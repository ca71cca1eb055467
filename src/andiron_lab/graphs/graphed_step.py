"""Forward and backward of a training step, and a validation step, as graphs of the device.

Starting the kernels of a small network takes longer than running them; a graph starts all of them
by one call. Each batch is copied into fixed memory, the random stream of its update is set before
the graph is repeated, and the optimizer's fused kernel follows: the bits equal the step
that Python makes. That is tried, not assumed: at the first repetitions, and again later, both are
made from the same state and compared to the bit.
"""

import logging
import traceback
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from andiron import errors
from andiron.data import structures
from andiron.gradients import Detachable, Gradients
from andiron.learner.state import LearnerState
from andiron.plain import private_torch
from andiron.protocols import TrainOutput
from andiron_lab.graphs.device_graph import CudaGraph
from andiron_lab.graphs.step_state import PLAIN, StateBefore, first_difference, outputs_by_name

FIRST_EAGER = 3  # steps of each kind, which load kernels and choose algorithms
# repetitions that are compared: the first, one with another stream, and later ones, since what
# Python does beside a step, such as counting, is not repeated
PROBES = 1, 2, 100, 1000
HOOKS = (
    "_forward_hooks", "_forward_pre_hooks", "_backward_hooks", "_backward_pre_hooks",
    "_post_accumulate_grad_hooks",
)  # fmt: skip
MOST_SHAPES = 8  # of batches: where they change all the time, recording takes longer than it saves
log = logging.getLogger("andiron")


class NoGraphError(Exception):
    """Why a step cannot be a graph."""


@dataclass
class Recorded:
    """A graph with the memory of its batch and of its outputs."""

    graph: CudaGraph
    held: list[Tensor]  # of the batch
    output: Any  # a TrainOutput, or the item of a validation
    repetitions: int = 0


class GraphedStep:
    """A `step` of a model by graphs, one for each shape of batch; by Python where none fits.

    The graphs are recorded again if the loss scale, autocast or the model's modules, modes, tensors
    or trainable flags change between two steps. What no graph can repeat is named in a warning,
    unless another step has `said` it, and later steps are made by Python. With `keeps` the
    gradients of a step outlast the next one.
    """

    def __init__(
        self,
        step: Callable[[Any], Any],
        state: LearnerState,
        make: Callable[[], CudaGraph],
        said: set[str],
        *,
        keeps: bool = False,
    ):
        self._step, self._make, self._said, self._keeps = step, make, said, keeps
        self._model, self._optimizer = state.model, state.optimizer
        self._precision = state.nonfinite.precision
        self._is_of: Hashable = None  # the state of the model that the graphs are of
        self._steps: dict[Hashable, int] = {}  # made so far, by shapes
        self._recorded: dict[Hashable, Recorded] = {}
        self.reason: str | None = None  # why there are no graphs any more

    @property
    def repetitions(self) -> int:
        """How often graphs were repeated."""
        return sum(recorded.repetitions for recorded in self._recorded.values())

    def __call__(self, batch: Any) -> Any:
        """The output of the step."""
        if self.reason is None:
            try:
                return self._by_graph(batch)
            except NoGraphError as error:
                self._refuse(str(error))
        return self._step(batch)

    def _refuse(self, reason: str) -> None:
        self.reason = reason
        self._recorded.clear()
        refuse(reason, self._said)

    def _by_graph(self, batch: Any) -> Any:
        if (state := self._state()) != self._is_of:
            self._is_of = state
            self._steps.clear()
            self._recorded.clear()
        shapes = _shapes_of(batch)
        number = self._steps[shapes] = self._steps.get(shapes, 0) + 1
        if len(self._steps) > MOST_SHAPES:
            raise NoGraphError(f"batches have more than {MOST_SHAPES} shapes")
        if number <= FIRST_EAGER:
            return self._first(batch)
        if shapes not in self._recorded:
            self._recorded[shapes] = self._record(batch)
        recorded = self._recorded[shapes]
        recorded.repetitions += 1
        if recorded.repetitions in PROBES:
            return self._compared(recorded, batch)
        return self._repeated(recorded, batch)

    def _first(self, batch: Any) -> Any:
        """The output of the step that Python makes; a step that replaces a buffer ends the graphs.
        """
        before = dict(self._model.named_buffers())
        output = self._step(batch)
        for name, buffer in self._model.named_buffers():
            if before.get(name) is not buffer:
                self._refuse(f"the step replaces the buffer {name!r}")
                break
        return output

    def _state(self) -> Hashable:
        """The modules, modes, tensors and trainable flags of the model, loss scale and autocast.

        Raises: NoGraphError for hooks, which a graph would leave out.
        """
        modules: list[Hashable] = []
        for name, module in self._model.named_modules():
            own = [*module.parameters(recurse=False)]
            for part in (module, *own):
                if any(map(vars(part).get, HOOKS)):
                    raise NoGraphError(f"{name or 'the model'} has a hook, which is not repeated")
            tensors = *own, *module.buffers(recurse=False)
            modules += [id(module), module.training]
            modules += [(id(t), t.data_ptr(), t.requires_grad) for t in tensors]
        is_autocast = torch.is_autocast_enabled(self._precision.device_type)
        return self._precision.scale, is_autocast, tuple(modules)

    def _record(self, batch: Any) -> Recorded:
        """The graph of a step on memory like the batch's; the model stays as it was.

        Raises: NoGraphError if the step cannot be repeated.
        """
        held = structures.mapped(torch.clone, batch)
        graph, before = self._make(), StateBefore(self._model, self._optimizer)
        try:
            output = graph.capture(lambda: self._step(held))
        except RuntimeError as error:
            why = f"{line_of(error)} cannot be recorded ({errors.one_line(error)})"
            raise NoGraphError(why) from error
        finally:
            before.restore()
        return Recorded(graph, [*structures.tensors_in(held)], output)

    def _repeated(self, recorded: Recorded, batch: Any) -> Any:
        """The output of the graph for a batch; its item is in memory of its own."""
        new, held, output = [*structures.tensors_in(batch)], recorded.held, recorded.output
        with torch.no_grad():
            if held:
                private_torch.foreach_copy_(held, new)
            recorded.graph.replay()
            inputs = dict(zip(map(id, held), new, strict=True))
            if not isinstance(output, TrainOutput):
                return _own(output, inputs)
            made = output.gradients
            tensors = {n: g.clone() for n, g in made.items()} if self._keeps else made
            loss = made.loss if tensors is made else _own(made.loss, inputs)
            weight, item = _own(output.weight, inputs), _own(output.item, inputs)
        return TrainOutput(Gradients(tensors, self._model, loss), item, weight)

    def _compared(self, recorded: Recorded, batch: Any) -> Any:
        """The output of the graph, which has the bits of the step that Python makes.

        Raises: NoGraphError naming the first tensor that differs; the state is as before.
        """
        before = StateBefore(self._model, self._optimizer)
        expected = outputs_by_name(self._model, self._step(batch))
        is_drawn = before.has_drawn_beside(self._precision.device_type)
        before.restore()
        if is_drawn:
            raise NoGraphError("the step draws on the CPU, which is not repeated")
        output = self._repeated(recorded, batch)
        actual = outputs_by_name(self._model, output)
        if (name := first_difference(expected, actual)) is not None:
            before.restore()
            why = f"{name} of repetition {recorded.repetitions}"
            raise NoGraphError(f"{why} differs from that of the step without a graph")
        return output


def refuse(reason: str, said: set[str]) -> None:
    """Warns of a reason for which there are no graphs, unless it was said."""
    if reason not in said:
        log.warning("graph: %s; such steps continue without graphs", reason)
    said.add(reason)


def _shapes_of(batch: Any) -> Hashable:
    """The shapes of a batch, and its numbers and texts, which a graph does not read again.

    Raises: NoGraphError for an object whose tensors are unknown.
    """
    if isinstance(batch, Tensor):
        return batch.shape, batch.dtype, batch.device
    if isinstance(batch, PLAIN):
        return batch
    named = structures.fields(batch)
    if named is None and type(batch) in structures.PLAIN:
        named = {str(number): part for number, part in enumerate(batch)}
    if named is None:
        raise NoGraphError(f"a batch of type {type(batch).__name__} is not made of tensors")
    return type(batch), *((name, _shapes_of(part)) for name, part in named.items())


def _own(value: Any, inputs: dict[int, Tensor]) -> Any:
    """A value of a step in memory that the next repetition does not write; inputs as given.

    Raises: NoGraphError for an object whose tensors are unknown.
    """
    if isinstance(value, Tensor):
        return inputs[id(value)] if id(value) in inputs else value.detach().clone()
    if isinstance(value, PLAIN):
        return value
    if isinstance(value, list | tuple) and not hasattr(value, "_fields"):
        return type(value)(_own(inner, inputs) for inner in value)
    named = vars(value) if isinstance(value, Detachable) else structures.fields(value)
    if named is None:
        raise NoGraphError(f"the step returns a {type(value).__name__}, whose tensors are unknown")
    own = {name: _own(inner, inputs) for name, inner in named.items()}
    return type(value)(**own) if isinstance(value, Detachable) else structures.rebuilt(value, own)


def line_of(error: BaseException) -> str:
    """The last line of the user's code, or of a task's, that led to an error."""
    while error.__context__ is not None:
        error = error.__context__
    folders = str(torch.__path__[0]), __file__.rpartition("/")[0]
    frames = [f for f in traceback.extract_tb(error.__traceback__)
              if not f.filename.startswith(folders)]  # fmt: skip
    return f"{frames[-1].filename}:{frames[-1].lineno}: {frames[-1].line}" if frames else "the step"
