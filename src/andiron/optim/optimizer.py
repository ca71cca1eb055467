"""The functional face of a torch optimizer: gradients and the learning rate go in, the model comes out."""

import itertools
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from typing import Any, TypeVar

import torch
from torch import Tensor, nn

from andiron.gradients import Gradients
from andiron.optim import flat_state, torch_class

Model = TypeVar("Model", bound=nn.Module)
GROUP, TRAINED = (
    "group.",
    "training_weights",
)  # slots: what the whole group shares; the weights that are stepped


class Optimizer:
    """A `torch.optim` class (or one with its interface) that is told its gradients and its learning rate.

    It owns the parameters called `names`, by default every trainable one of `model`. Options not given are torch's own,
    except that the fastest implementation torch has for the parameters' device is chosen: fused, else foreach.
    Raises: ValueError for a name that no parameter has, or naming every parameter that the class does not take.
    """

    def __init__(
        self,
        optimizer_class: type[torch.optim.Optimizer],
        model: nn.Module,
        names: Collection[str] | None = None,
        **options: Any,
    ):
        self._parameters = torch_class.owned(model, names)
        if not self._parameters:
            raise ValueError(
                f"{type(model).__name__} has no trainable parameter for {optimizer_class.__name__} to own"
            )
        self._model: nn.Module = model
        self.name = torch_class.public_name(optimizer_class)
        self._lends_copies = torch_class.overwrites_gradients(optimizer_class)
        inner_class = torch_class.without_dynamo(optimizer_class)
        self._inner_step: Callable[..., Any] = (
            inner_class.step
        )  # taken before torch wraps it for its profiler, at 30 us a step
        self._inner = torch_class.constructed(inner_class, self.name, self._parameters, options)
        self.options = torch_class.told(optimizer_class, self._inner.defaults)
        self.needs_closure = torch_class.needs_closure(self._inner_step)
        self.has_evaluation_weights = all(hasattr(self._inner, name) for name in ("eval", "train"))
        self._trained: dict[str, Tensor] | None = (
            None  # the weights that are stepped, while others are evaluated
        )
        if self.has_evaluation_weights:
            self._inner.train()
        self._group_at_first = dict(self._inner.param_groups[0])

    @property
    def parameters(self) -> Mapping[str, nn.Parameter]:
        """The parameters it owns, by name."""
        return self._parameters

    def step(
        self,
        lr: float,
        model: Model,
        gradients: Gradients,
        closure: Callable[[], Gradients] | None = None,
    ) -> Model:
        """`model` after one update of the parameters that have an entry in `gradients`; no other is touched.

        `closure` takes the gradients again at the weights as they are then, for those that search (LBFGS, which moves
        all it owns as one vector and takes a gradient that is missing for zeros).
        Raises: KeyError if a gradient belongs to a parameter this optimizer does not own; ValueError if `model` does
        not hold the parameters it owns, or a closure is needed and not given; RuntimeError within `evaluated`.
        """
        if model is not self._model:
            self._check_holds_parameters(model)
            self._model = model
        if self._trained is not None:
            raise RuntimeError(
                "a step within `evaluated` would be lost on the way out, with the weights it made; leave it first"
            )
        if not gradients:
            return model
        for group in self._inner.param_groups:
            group["lr"] = lr
        try:
            self._lend(gradients)
            with torch.no_grad() if torch.is_grad_enabled() else nullcontext():
                if self.needs_closure:
                    self._inner_step(self._inner, self._evaluations(gradients, closure))
                else:
                    self._inner_step(self._inner)
        finally:
            self._take_back()
        return model

    def _lend(self, gradients: Gradients) -> None:
        for name, gradient in gradients.items():
            parameter = self._parameters.get(name)
            if parameter is None:
                raise KeyError(
                    f"the optimizer does not own parameter {name!r}; it owns: {', '.join(self._parameters)}"
                )
            parameter.grad = gradient.clone() if self._lends_copies else gradient

    def _take_back(self) -> None:
        for parameter in self._parameters.values():
            parameter.grad = None

    def _evaluations(
        self, given: Gradients, closure: Callable[[], Gradients] | None
    ) -> Callable[[], Tensor]:
        """What torch calls a closure: the first call finds the gradients given, each later one takes them again."""
        if closure is None:
            raise ValueError(
                f"{self.name} evaluates the loss several times a step: give `step` a closure that returns the gradients "
                "at the present weights"
            )
        versions = self._versions()
        evaluations = itertools.count()

        def evaluate() -> Tensor:
            self._take_back()  # or the closure's own backward would add to what is lent
            # a class may move the weights before it first asks (schedulefree's): what was given is then of other weights
            is_given = next(evaluations) == 0 and self._versions() == versions
            with torch.enable_grad():
                found = given if is_given else closure()
            if found.loss is None:
                raise ValueError(
                    f"{self.name} goes by the loss: give gradients that know theirs, as those of `backward` do"
                )
            self._lend(found)
            return found.loss

        return evaluate

    def _versions(self) -> list[int]:
        return [parameter._version for parameter in self._parameters.values()]

    @contextmanager
    def evaluated(self) -> Iterator[None]:
        """Within it the parameters hold the weights to be measured, saved and exported; afterwards, bit for bit, those it steps.

        For most optimizers they are the same. Within another such block it changes nothing.
        """
        if not self.has_evaluation_weights or self._trained is not None:
            yield
            return
        self._trained = {
            name: parameter.detach().clone() for name, parameter in self._parameters.items()
        }
        try:
            self._inner.eval()
            yield
        finally:
            self._inner.train()
            self._put(self._trained)  # the way back by arithmetic would round
            self._trained = None

    def _put(self, weights: Mapping[str, Tensor]) -> None:
        with torch.no_grad():
            for name, tensor in weights.items():
                self._parameters[name].copy_(tensor)

    def _check_holds_parameters(self, model: nn.Module) -> None:
        held = {id(parameter) for parameter in model.parameters()}
        strange = [
            name for name, parameter in self._parameters.items() if id(parameter) not in held
        ]
        if strange:
            raise ValueError(
                f"this {type(model).__name__} is not the model the optimizer was made for: it does not hold "
                f"{', '.join(strange)}; make an optimizer for it"
            )

    def state_dict(self) -> dict[str, Tensor]:
        """Its state as `<parameter>/<slot>` to tensor; empty before the first step of most.

        What belongs to all parameters stands with the first. Where other weights are evaluated, those that are stepped
        are part of the state.
        """
        found = {
            f"{name}/{slot}": value
            for name, parameter in self._parameters.items()
            for slot, value in flat_state.flattened(self._inner.state.get(parameter, {})).items()
        }
        first = next(iter(self._parameters))
        found |= {
            f"{first}/{GROUP}{slot}": value
            for slot, value in flat_state.flattened(self._moved()).items()
        }
        if self.has_evaluation_weights:
            weights = self._trained or {
                name: parameter.detach() for name, parameter in self._parameters.items()
            }
            found |= {f"{name}/{TRAINED}": tensor for name, tensor in weights.items()}
        return found

    def load_state_dict(self, state: Mapping[str, Tensor]) -> None:
        """Continues from a saved state.

        Raises: KeyError if the state is for a parameter this optimizer does not own; ValueError if it lacks the weights
        that are stepped where other weights are evaluated; RuntimeError within `evaluated`. Nothing is then loaded.
        """
        if self._trained is not None:
            raise RuntimeError(
                "a state loaded within `evaluated` would lose its weights on the way out; leave it first"
            )
        by_parameter: dict[str, dict[str, Tensor]] = {}
        for key, value in state.items():
            name, _, slot = key.rpartition("/")
            if name not in self._parameters:
                raise KeyError(f"saved optimizer state {key!r} is for no parameter of this model")
            by_parameter.setdefault(name, {})[slot] = value
        trained = {
            name: found.pop(TRAINED) for name, found in by_parameter.items() if TRAINED in found
        }
        missing = [name for name in self._parameters if name not in trained]
        if state and missing and self.has_evaluation_weights:
            raise ValueError(
                f"saved optimizer state lacks the weights that {self.name} steps of {', '.join(missing)}; the model's file "
                "has others, for evaluation: load a state that this class saved"
            )
        shared: dict[str, Tensor] = {}
        self._inner.state.clear()
        for name, found in by_parameter.items():
            shared |= {
                slot.removeprefix(GROUP): found.pop(slot)
                for slot in [*found]
                if slot.startswith(GROUP)
            }
            if found:
                parameter = self._parameters[name]
                here = {
                    slot: flat_state.placed(slot, tensor, parameter, self._is_on_device)
                    for slot, tensor in found.items()
                }
                self._inner.state[parameter] = flat_state.restored(here)
        for name in self._moved():
            del self._inner.param_groups[0][name]
        self._inner.param_groups[0].update(self._group_at_first | flat_state.restored(shared))
        self._put(trained)

    @property
    def _is_on_device(self) -> bool:
        """Whether even its counters are."""
        return bool(self.options.get("fused") or self.options.get("capturable"))

    def _moved(self) -> dict[str, Any]:
        """The numbers of the group, other than the learning rate, that stepping has changed."""
        return {
            name: value
            for name, value in self._inner.param_groups[0].items()
            if name not in ("lr", "train_mode")
            and isinstance(value, int | float)
            and value != self._group_at_first.get(name)
        }
