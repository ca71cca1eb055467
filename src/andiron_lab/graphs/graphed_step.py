"""Forward and backward of a training step, and a validation step, as graphs of the device.

Starting the kernels of a small network takes longer than running them; a graph starts all of them
by one call. Each batch is copied into fixed memory, the random stream of its update is set before
the graph is repeated, and the optimizer's fused kernel follows: the bits equal the step
that Python makes. That is tried, not assumed: at the first repetitions, and again later, both are
made from the same state and compared to the bit.
"""

from collections.abc import Callable, Hashable
from typing import Any

import torch
from torch import Tensor

from andiron.data import structures
from andiron.gradients import Gradients
from andiron.learner.state import LearnerState
from andiron.protocols import TrainOutput
from andiron_lab.graphs import step_state
from andiron_lab.graphs.recordings import Recording, Recordings
from andiron_lab.graphs.step_state import NoGraphError, StateBefore, outputs_by_name

FIRST_EAGER = 3  # steps of each kind, which load kernels and choose algorithms
HOOKS = (
    "_forward_hooks", "_forward_pre_hooks", "_backward_hooks", "_backward_pre_hooks",
    "_post_accumulate_grad_hooks",
)  # fmt: skip
MOST_SHAPES = 8  # of batches: where they change all the time, recording takes longer than it saves


class GraphedStep:
    """A `step` of a model by graphs, one for each shape of batch; by Python where none fits.

    A graph is recorded again if the loss scale, autocast or the model's modules, modes, tensors or
    trainable flags change between two steps. With `keeps` the gradients of a step outlast the next.
    """

    def __init__(
        self,
        step: Callable[[Any], Any],
        state: LearnerState,
        recordings: Recordings,
        *,
        keeps: bool = False,
    ):
        self._step, self.recordings, self._keeps = step, recordings, keeps
        self._model, self._optimizer = state.model, state.optimizer
        self._precision = state.nonfinite.precision

    def __call__(self, batch: Any) -> Any:
        """The output of the step."""
        if self.recordings.reason is None:
            try:
                return self._by_graph(batch)
            except NoGraphError as error:
                self.recordings.refuse(str(error))
        return self._step(batch)

    def _by_graph(self, batch: Any) -> Any:
        # its numbers and texts too, which a graph does not read again
        shapes = step_state.described(batch, _shape_of)
        recording = self.recordings.turn(shapes, self._state())
        if len(self.recordings) > MOST_SHAPES:
            raise NoGraphError(f"batches have more than {MOST_SHAPES} shapes")
        if recording.turns <= FIRST_EAGER:
            return self._first(batch)
        if recording.graph is None:
            held = structures.mapped(torch.clone, batch)
            before = StateBefore(self._model, self._optimizer, {})
            tensors = [*structures.tensors_in(held)]
            recording.capture(tensors, before, lambda: self._step(held))
        if recording.is_probe():
            return self._compared(recording, batch)
        return self._repeated(recording, batch)

    def _first(self, batch: Any) -> Any:
        """The output of the step that Python makes; a step that replaces a buffer ends the graphs.
        """
        before = dict(self._model.named_buffers())
        output = self._step(batch)
        for name, buffer in self._model.named_buffers():
            if before.get(name) is not buffer:
                self.recordings.refuse(f"the step replaces the buffer {name!r}")
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

    def _repeated(self, recording: Recording, batch: Any) -> Any:
        """The output of the graph for a batch; its item is in memory of its own."""
        new, output = [*structures.tensors_in(batch)], recording.output
        recording.repeat(new)
        with torch.no_grad():
            inputs = dict(zip(map(id, recording.held), new, strict=True))
            if not isinstance(output, TrainOutput):
                return _own(output, inputs)
            made = output.gradients
            tensors = {n: g.clone() for n, g in made.items()} if self._keeps else made
            loss = made.loss if tensors is made else _own(made.loss, inputs)
            weight, item = _own(output.weight, inputs), _own(output.item, inputs)
        return TrainOutput(Gradients(tensors, self._model, loss), item, weight)

    def _compared(self, recording: Recording, batch: Any) -> Any:
        """The output of the graph, which has the bits of the step that Python makes.

        Raises: NoGraphError naming the first tensor that differs; the state is as before.
        """
        before = StateBefore(self._model, self._optimizer, {})
        try:
            expected = outputs_by_name(self._model, self._step(batch))
            is_drawn = before.has_drawn_beside(self._precision.device_type)
            before.restore()
            if is_drawn:
                raise NoGraphError("the step draws on the CPU, which is not repeated")
            output = self._repeated(recording, batch)
            recording.check(expected, outputs_by_name(self._model, output))
        except NoGraphError:
            before.restore()
            raise
        return output


def _shape_of(tensor: Tensor) -> Hashable:
    return tensor.shape, tensor.dtype, tensor.device


def _own(value: Any, inputs: dict[int, Tensor]) -> Any:
    """A value of a step in memory that the next repetition does not write; inputs as given.

    Raises: NoGraphError for an object whose tensors are unknown.
    """
    if isinstance(value, Tensor):
        return inputs[id(value)] if id(value) in inputs else value.detach().clone()
    if isinstance(value, step_state.PLAIN):
        return value
    own = {name: _own(part, inputs) for name, part in step_state.parts_of(value).items()}
    is_list = type(value) in structures.PLAIN
    return type(value)(own.values()) if is_list else structures.rebuilt(value, own)
