"""The functional interface of a torch optimizer: gradients and learning rate in, model out.

>>> from andiron.gradients import backward
>>> model = nn.Linear(3, 1)
>>> optimizer = Optimizer(torch.optim.Adam, model, weight_decay=0.1)
>>> gradients = backward(model(torch.ones(2, 3)).mean(), model)
>>> model = optimizer.step(0.01, model, gradients)
"""

import itertools
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

import torch
from torch import Tensor, nn

from andiron.gradients import Gradients, Tensors
from andiron.optim import model_weights
from andiron.optim.foreign import torch_class
from andiron.optim.foreign.torch_step import TorchStep, set_rate
from andiron.optim.own import flat_state
from andiron.plain import private_torch

Model = TypeVar("Model", bound=nn.Module)
Closure = Callable[[], Gradients]  # at the current weights
GROUP = "group."  # prefix of slots that the whole group shares; stored with the first parameter
TRAINED = "training_weights"  # slot of the weights that are stepped, where others are evaluated


class Optimizer:
    """A `torch.optim` class, or one like it, whose `step` takes gradients and learning rate.

    It owns the parameters `names`, by default every trainable one of `model`. Other options have
    torch's defaults, except that torch's fastest implementation is used: fused, else foreach.
    Raises: ValueError for an unknown parameter name, or for parameters that the class refuses.
    """

    def __init__(
        self,
        optimizer_class: type[torch.optim.Optimizer],
        model: nn.Module,
        names: Collection[str] | None = None,
        **options: Any,
    ):
        parameters = torch_class.named_parameters(model, names)
        if not parameters:
            kind, owner = type(model).__name__, optimizer_class.__name__
            raise ValueError(f"{kind} has no trainable parameter for {owner} to own")
        for parameter in parameters.values():
            parameter.requires_grad_(True)  # a frozen one that `names` has
        inner = torch_class.constructed(optimizer_class, parameters, options)
        self._own(optimizer_class, inner, model, parameters)

    @classmethod
    def around(
        cls, inner: torch.optim.Optimizer, model: nn.Module, parameters: dict[str, nn.Parameter]
    ) -> "Optimizer":
        """An optimizer that steps by `inner`, which already holds these parameters in one group."""
        made = cls.__new__(cls)
        made._own(type(inner), inner, model, parameters)
        return made

    def _own(
        self, kind: torch_class.Kind, inner: Any, model: nn.Module, parameters: dict[str, Any]
    ) -> None:
        self.parameters = parameters  # the owned parameters
        self._names = list(parameters)
        self._kind = kind
        self._model: nn.Module = model
        self.name = torch_class.public_name(kind)
        # schedulefree's step overwrites the gradients; torch's and ours do not
        own = ("torch.optim.", "andiron.optim.")
        self._lends_copies = not kind.step.__module__.startswith(own)
        self._inner = inner
        self._step = TorchStep(kind, inner)
        options = {name: inner.param_groups[0].get(name) for name in inner.defaults}
        self.options = torch_class.public_options(kind, options)
        self.takes_sparse_gradients = issubclass(kind, torch.optim.SparseAdam)
        self.needs_closure = torch_class.needs_closure(self._step.plain)
        self.has_evaluation_weights = all(hasattr(self._inner, name) for name in ("eval", "train"))
        # the weights that are stepped, while others are evaluated
        self._trained: dict[str, Tensor] | None = None
        if self.has_evaluation_weights:
            self._inner.train()
        group = self._inner.param_groups[0]
        self._initial_group = {name: value for name, value in group.items() if name != "lr"}

    def like(self, model: nn.Module) -> "Optimizer":
        """An optimizer of the same class and options for the parameters of `model`."""
        return Optimizer(self._kind, model, **self.options)

    @property
    def option_slots(self) -> list[str]:
        """The slots of the group's numeric options, which may change between steps."""
        return [f"{GROUP}{slot}" for slot in flat_state.flattened(self._numbers())]

    def step(
        self,
        lr: float,
        model: Model,
        gradients: Gradients,
        closure: Closure | None = None,
    ) -> Model:
        """`model` after one update of the parameters that have an entry in `gradients`.

        `closure` computes the gradients at the current weights, for optimizers with a line search
        (LBFGS, which moves all parameters as one vector and treats a missing gradient as zeros).
        Raises: KeyError if a gradient belongs to a parameter this optimizer does not own;
        ValueError if `model` lacks the parameters it owns, or a closure is required and missing;
        RuntimeError inside `evaluated`.
        """
        if model is not self._model:
            self._check_holds_parameters(model)
            self._model = model
        if self._trained is not None:
            raise RuntimeError(
                "a step inside `evaluated` would be lost with its weights on exit; leave it first"
            )
        if not gradients:
            return model
        set_rate(self._inner.param_groups[0], lr)
        tensors, parameters = [*gradients.values()], [*self.parameters.values()]
        is_whole = [*gradients] == self._names
        try:
            self._lend(gradients)  # torch checks their shapes, dtypes and devices
            with torch.set_grad_enabled(False):
                if not (is_whole and self._step.by_kernel(parameters, tensors, lr)):
                    again = [self._evaluations(gradients, closure)] if self.needs_closure else []
                    self._step.public(*again)
        finally:
            self._take_back()
        return model

    def _lend(self, gradients: Gradients) -> None:
        for name, gradient in gradients.items():
            parameter = self.parameters.get(name)
            if parameter is None:
                raise KeyError(
                    f"the optimizer does not own parameter {name!r}; it owns: "
                    f"{', '.join(self.parameters)}"
                )
            parameter.grad = gradient.clone() if self._lends_copies else gradient

    def _take_back(self) -> None:
        for parameter in self.parameters.values():
            parameter.grad = None

    def _evaluations(
        self, given: Gradients, closure: Closure | None
    ) -> Callable[[], Tensor]:
        """The closure for torch: its first call lends the gradients, later ones compute them."""
        if closure is None:
            raise ValueError(
                f"{self.name} evaluates the loss several times a step: give `step` a closure that "
                "returns the gradients at the current weights"
            )
        versions = self._versions()
        evaluations = itertools.count()

        def evaluate() -> Tensor:
            self._take_back()  # or the closure's own backward would add to the lent gradients
            # schedulefree moves the weights before its first call: the given gradients are then
            # stale
            is_given = next(evaluations) == 0 and self._versions() == versions
            with torch.enable_grad():
                current = given if is_given else closure()
            if current.loss is None:
                raise ValueError(
                    f"{self.name} needs the loss: give gradients with one, as `backward` returns"
                )
            self._lend(current)
            return current.loss

        return evaluate

    def _versions(self) -> list[int]:
        return [*map(private_torch.version, self.parameters.values())]

    @contextmanager
    def evaluated(self) -> Iterator[None]:
        """A context in which the parameters are the weights to evaluate, save and export.

        For most optimizers they are the stepped weights. On exit those are restored bit for bit.
        Nested contexts change nothing.
        """
        if not self.has_evaluation_weights or self._trained is not None:
            yield
            return
        self._trained = {
            name: parameter.detach().clone() for name, parameter in self.parameters.items()
        }
        try:
            self._inner.eval()
            yield
        finally:
            self._inner.train()
            # the optimizer's own arithmetic would round
            model_weights.copy(self._trained, self.parameters)
            self._trained = None

    def _check_holds_parameters(self, model: nn.Module) -> None:
        held = {*model.parameters()}
        missing = [name for name, parameter in self.parameters.items() if parameter not in held]
        if missing:
            raise ValueError(
                f"this {type(model).__name__} is not the model of this optimizer: it lacks "
                f"{', '.join(missing)}; create an optimizer for it"
            )

    def state_dict(self) -> dict[str, Tensor]:
        """The state by `<parameter>/<slot>`; for most classes empty before the first step.

        The group's state is stored with the first parameter. If other weights are evaluated, the
        stepped weights are part of the state.
        """
        state = {
            f"{name}/{slot}": value
            for name, parameter in self.parameters.items()
            for slot, value in flat_state.flattened(
                self._inner.state.get(parameter, {}), parameter
            ).items()
        }
        shared = flat_state.flattened(self._changed_options())
        state |= {f"{self._names[0]}/{GROUP}{slot}": value for slot, value in shared.items()}
        if self.has_evaluation_weights:
            weights = self._trained or self.parameters
            state |= {f"{name}/{TRAINED}": tensor.detach() for name, tensor in weights.items()}
        return state

    def load_state_dict(self, state: Tensors) -> None:
        """Continues from a saved state.

        Raises: KeyError if the state is for a parameter this optimizer does not own; ValueError if
        stepped weights are missing although others are evaluated; RuntimeError inside `evaluated`.
        Nothing is then loaded.
        """
        if self._trained is not None:
            raise RuntimeError(
                "a state loaded inside `evaluated` would lose its weights on exit; leave it first"
            )
        slots = self._slots_by_parameter(state)
        trained = {name: each.pop(TRAINED) for name, each in slots.items() if TRAINED in each}
        missing = [name for name in self.parameters if name not in trained]
        if state and missing and self.has_evaluation_weights:
            raise ValueError(
                f"saved optimizer state lacks the weights that {self.name} steps of "
                f"{', '.join(missing)}; the model's file has others, for evaluation: load a state "
                "that this class saved"
            )
        shared: dict[str, Tensor] = {}
        self._inner.state.clear()
        for name, each in slots.items():
            of_group = [slot for slot in each if slot.startswith(GROUP)]
            shared |= {slot.removeprefix(GROUP): each.pop(slot) for slot in of_group}
            if each:
                self._inner.state[self.parameters[name]] = self._restored_slots(name, each)
        group = self._inner.param_groups[0]
        for name in self._changed_options():
            del group[name]
        group.update(self._initial_group | flat_state.restored(shared))
        model_weights.copy(trained, self.parameters)

    def _slots_by_parameter(self, state: Tensors) -> dict[str, dict[str, Tensor]]:
        slots: dict[str, dict[str, Tensor]] = {}
        for key, value in state.items():
            name, _, slot = key.rpartition("/")
            if name not in self.parameters:
                raise KeyError(f"saved optimizer state {key!r} is for no parameter of this model")
            slots.setdefault(name, {})[slot] = value
        return slots

    def _restored_slots(self, name: str, slots: Tensors) -> dict[str, Any]:
        """The state of a parameter, on its device and in its memory layout."""
        on_device = bool(self.options.get("fused") or self.options.get("capturable"))
        parameter = self.parameters[name]
        placed = {
            slot: flat_state.placed(slot, tensor, parameter, on_device)
            for slot, tensor in slots.items()
        }
        return flat_state.restored(placed)

    def _changed_options(self) -> dict[str, Any]:
        """The group's numeric options that have changed, without the learning rate."""
        initial = self._initial_group
        return {n: value for n, value in self._numbers().items() if value != initial.get(n)}

    def _numbers(self) -> dict[str, Any]:
        """The group's numeric options, without the learning rate; betas are two numbers."""
        return {
            name: value
            for name, value in self._inner.param_groups[0].items()
            if name not in ("lr", "train_mode", "params")
            and flat_state.is_numeric(value)
        }
