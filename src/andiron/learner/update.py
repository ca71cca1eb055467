"""One update of the parameters: gradients of its batches, transformations, finite check, step."""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, runtime_checkable

from torch import Tensor, is_grad_enabled, nn

from andiron import errors, randomness
from andiron.checkpoint.contents import Checkpoint
from andiron.data import structures
from andiron.distributed import ALONE, World
from andiron.gradients import Gradients, flag_nonfinite
from andiron.learner.extras.group_statistics import GroupStatistics
from andiron.learner.extras.nonfinite_cause import Step
from andiron.learner.extras.unread_checks import LATE, UnreadChecks
from andiron.learner.nonfinite import Nonfinite, RejectedError, StateBefore
from andiron.learner.position import Position
from andiron.learner.precision import Precision
from andiron.optim import model_weights
from andiron.optim.divided.sliced_mean import SlicedMean
from andiron.optim.gradient_mean import GradientsAccumulator, Reduction
from andiron.optim.grouped import GroupedOptimizer
from andiron.optim.own.averaging import WeightAverage
from andiron.optim.transformations import Chain
from andiron.plain import private_torch
from andiron.protocols import Loader, TrainOutput, Values, network_of
from andiron.schedules.schedule import Schedule, stateful

OUT_OF_BOUNDS = re.compile(r"Target (\d+) is out of bounds")  # of torch's cross entropy


@dataclass(frozen=True)
class Updated:
    """A completed update: its batches' items, and its readings at a log point."""

    items: list[Any]
    readings: Values | None = None
    histograms: Mapping[str, Tensor] = field(default_factory=dict)


@runtime_checkable
class Instrument(Protocol):
    """Sees how an update is computed; after it, the loop yields its `Step`."""

    def before(self, batches: Sequence[Any], position: Position) -> None:
        """The model has the weights that the update begins with, and is about to be called."""

    def computed(self, gradients: Gradients, items: Sequence[Any]) -> None:
        """The mean gradients are computed; transformations and the step come next."""


@dataclass
class Updater:
    """Makes updates of `model` with its components; it has no state to save."""

    model: nn.Module
    optimizer: GroupedOptimizer
    schedule: Schedule
    precision: Precision
    nonfinite: Nonfinite
    transform: Chain | None = None
    sam: float | None = None  # rho
    histograms: frozenset[str] = frozenset()  # of these parameters, at log points
    world: World = ALONE
    averages: Sequence[WeightAverage] = ()
    instruments: list[Instrument] = field(default_factory=list)
    train_step: Callable[[Any], TrainOutput] | None = None  # None: the model's
    valid_step: Callable[[Any], Any] | None = None
    # whether a graph made the step, with its check and transformation; of `GraphedEnd`
    end_by_graph: Callable[..., bool] | None = None
    may_read_late: bool = False  # the check for NaN and infinity

    def __post_init__(self) -> None:
        self.evaluations = 0  # of the gradients of the current update, with SAM's and the step's
        self.unread = self._unread_checks()
        # the model's modules, and the children that each had when they were listed
        self._modules: list[nn.Module] = [self.model]
        self._children: list[dict[str, Any]] = []

    def _unread_checks(self) -> UnreadChecks | None:
        """Where the check of an update waits for a device; None also if none could be undone."""
        schedules = self.schedule, *self.optimizer.schedules
        is_final = self.world.is_divided or self.sam is not None or self.optimizer.needs_closure
        is_late = self.may_read_late and self.nonfinite.checks
        if is_final or any(map(stateful, schedules)) or not is_late:
            return None
        device = next(iter(self.optimizer.parameters.values())).device
        return UnreadChecks(device) if device.type in LATE else None

    def rates(self, updates: int) -> dict[str, float]:
        """The learning rate of every group that is not frozen, for the update after `updates`."""
        return self.optimizer.learning_rates(self.schedule(updates), updates)

    def update(
        self,
        batches: Sequence[object],
        position: Position,
        loader: Loader | None = None,
        is_log_point: bool = False,
        snapshot: Callable[[], Checkpoint] | None = None,
        unread: UnreadChecks | None = None,
    ) -> Updated | None:
        """One update by the mean gradients of `batches`; None if it was skipped as non-finite.

        `snapshot` gives the state to save where a non-finite update stops the run. With `unread`,
        it may be undone later.
        Raises: NonFiniteError, the weights unchanged, if the policy is to stop.
        """
        optimizer, transform, updates = self.optimizer, self.transform, position.updates
        before, rates = self._begin(updates), self.rates(updates)
        for instrument in [*self.instruments]:  # one may leave
            instrument.before(batches, position)
        gradients, items = self.gradients(batches, position, loader)
        for instrument in self.instruments:
            instrument.computed(gradients, items)
        late = None if optimizer.waiting else unread  # a group that was thawed stays so
        flag = None if late is None else late.defers(self._undo(before, position))

        def again() -> Gradients:
            mean = self.nonfinite.checked(self.gradients(batches, position, loader)[0])
            return mean if transform is None else transform(mean, updates)

        def step(mean: Gradients) -> None:
            if flag is not None:
                flag_nonfinite(mean, flag)
            if transform is not None:  # of the mean: clipping each micro-batch would bias it
                mean = transform(mean, updates)
            mean.flag = flag
            optimizer.step(rates, self.model, mean, again, updates=updates)
            for average in self.averages:
                average.update(self.model, updates + 1, flag)
        try:
            if flag is None and not self.nonfinite.passes(gradients):
                raise RejectedError(gradients)
            statistics = self._statistics(gradients, rates) if is_log_point else None
            graph = None if flag is None or is_log_point else self.end_by_graph
            if graph is None or not graph(step, gradients, rates, flag, transform, updates + 1):
                step(gradients)
        except RejectedError as error:
            self._leave_out(error.gradients, before, position, batches, loader, snapshot)
            return None
        position.use(updates=1)
        if self.precision.has_loss_scale:
            self.precision.updated()
        if statistics is None:
            return Updated(items)
        readings = {f"lr/{name}": lr for name, lr in rates.items()} | statistics.readings()
        return Updated(items, readings | self.nonfinite.readings(), statistics.histograms())

    def _statistics(self, gradients: Gradients, rates: Mapping[str, float]) -> GroupStatistics:
        """The statistics of the step that follows, of parameters that still have their owners."""
        return GroupStatistics(self.model, self.optimizer, gradients, rates, self.histograms)

    def _begin(self, updates: int) -> StateBefore | None:
        """Thaws groups that are due; returns the state to bring back if the update is not applied.

        None if there is none.
        """
        self.evaluations = 0
        if self.optimizer.waiting:
            self.optimizer.thaw(updates)
        if self.optimizer.frozen_modules.held:
            self.optimizer.frozen_modules.hold()
        for parameter in self.optimizer.parameters.values():
            parameter.grad = None  # of a backward of the user's, between two updates
        if not self.nonfinite.checks:
            return None
        if [*map(private_torch.children, self._modules)] != self._children:
            self._modules = [*self.model.modules()]
            self._children = [*map(dict, map(private_torch.children, self._modules))]
        buffers = [*filter(None, map(private_torch.buffers, self._modules))]
        if not buffers and not self.optimizer.needs_closure:
            return None
        return StateBefore(buffers, self.optimizer)

    def _leave_out(
        self,
        rejected: Gradients,
        before: StateBefore | None,
        position: Position,
        batches: Sequence[object],
        loader: Loader | None,
        snapshot: Callable[[], Checkpoint] | None,
    ) -> None:
        """Brings back the state before the update, then skips it or stops the run."""
        if before is not None:
            before.restore()
        place = position.updates, position.epoch, position.first_batch
        step = Step.of(*place, len(batches), loader)
        self.nonfinite.leave_out(step, self.model, rejected, batches, snapshot)
        position.use()

    def _undo(self, before: StateBefore | None, position: Position) -> Callable[[], None]:
        """Brings back the state before the update that is computed now; its step is not made."""
        at = position.state_dict() | {"batch": position.first_batch}
        scale = self.precision.state_dict()
        counts = {average: average.count for average in self.averages}

        def undo() -> None:
            if before is not None:
                before.restore()
            position.load_state_dict(at)
            self.precision.load_state_dict(scale)
            for average, count in counts.items():
                average.count = count

        return undo

    def reduction(self) -> Reduction:
        """The mean of one update's gradients, before its first step."""
        world, model, size = self.world, self.model, structures.size_or_one
        if world.sharding is not None:
            return world.sharding.reduction(model, size)
        return SlicedMean(world, model, size) if world.is_divided else GradientsAccumulator()

    def gradients(
        self,
        batches: Sequence[object],
        position: Position,
        loader: Loader | None = None,
        *,
        is_perturbed: bool = False,
    ) -> tuple[Gradients, list[Any]]:
        """The mean gradients of the micro-batches, and their items; with SAM of perturbed weights.

        They are the same when recomputed for one update.
        """
        self.evaluations += 1
        reduction = self.reduction()
        model: Any = self.model
        train_step = self.train_step or model.train_step
        items: list[Any] = []
        for number, slice_number, batch in reduction.steps(batches):
            counters = (number, *slice_number) if number or slice_number else ()
            randomness.start_stream(position.seed, "update", position.updates, *counters)
            try:
                if reduction.during_backward is None and not self.precision.changes_step:
                    output: TrainOutput = train_step(batch)
                else:
                    with self.precision.step(reduction.during_backward):
                        output = train_step(batch)
                items.append(output.item)
                gradients, weight = output.gradients, output.weight
                if not isinstance(gradients, Gradients):
                    raise errors.MismatchError(
                        f"TrainOutput: gradients are a {type(gradients).__name__}; should be what "
                        "backward(loss, self) returns; of two losses, `first.update(second)` has "
                        "both"
                    )
            except errors.SampleError as error:
                place = position.epoch, position.first_batch + number, *slice_number
                raise error.located(loader, *place) from error
            except Exception as error:
                explain_step(error, model, batch)
                raise
            reduction.add(gradients, weight)
        mean, items = reduction.mean(), reduction.by_batch(items)
        if self.world.is_divided:
            # an optimizer that draws must not depend on which slices this process computed
            randomness.start_stream(position.seed, "step", position.updates)
        # weights moved by an overflow would be NaN, and no smaller loss scale would help
        if self.sam is not None and not is_perturbed and self.nonfinite.passes(mean):
            with model_weights.perturbed(model, mean, self.sam):
                mean, _ = self.gradients(batches, position, loader, is_perturbed=True)
        return mean, items


def explain_step(error: Exception, model: nn.Module, batch: object) -> None:
    """Raises a MismatchError if `batch` does not fit a step of `model`.

    Returns if the user's own code failed, or the error is clear already.
    """
    network = type(network_of(model)).__name__
    shown = errors.shapes(batch, "inputs", "targets") or type(batch).__name__
    what = f"task {type(model).__name__} with model {network} cannot be computed for {shown}"
    if isinstance(error, IndexError) and (match := OUT_OF_BOUNDS.match(str(error))):
        number = int(match[1]) + 1
        raise errors.MismatchError(
            f"{what}: target {match[1]} is not one of the network's classes, counted from 0; set "
            f"data.num_classes={number}, or the number of classes if it is larger"
        ) from error
    remedy = (
        "choose a model, a task (task=forward takes batches that are no pair, and "
        "task.inputs={ARGUMENT: FIELD} the network's names), a loss and data that fit each other; "
        "train_step returns a TrainOutput"
    )
    outside = "train outside of torch.no_grad() and torch.inference_mode()"
    errors.explain(error, what, remedy if is_grad_enabled() else outside)
