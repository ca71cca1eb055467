"""The functional face of a torch optimizer: gradients and the learning rate go in, the model comes out."""

import inspect
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, TypeVar

import torch
from torch import Tensor, nn

from andiron import errors
from andiron.gradients import Gradients
from andiron.optim import slots

Model = TypeVar("Model", bound=nn.Module)
GROUP, TRAINED = "group.", "training_weights"  # slots: what the whole group shares; the weights that are stepped


class Optimizer:
    """A `torch.optim` class (or one with its interface) that is told its gradients and its learning rate.

    It owns the parameters called `names`, by default every trainable one of `model`. Options not given are torch's own,
    except that the fastest implementation torch has for the parameters' device is chosen: fused, else foreach.
    Raises: ValueError for a name that no parameter has, or naming every parameter that the class does not take.
    """

    def __init__(
        self, optimizer_class: type[torch.optim.Optimizer], model: nn.Module, names: Collection[str] | None = None, **options: Any
    ):
        self._parameters = _owned(model, names)
        if not self._parameters:
            raise ValueError(f"{type(model).__name__} has no trainable parameter for {optimizer_class.__name__} to own")
        self._model: nn.Module = model
        self.name = _public_name(optimizer_class)
        inner_class = _without_dynamo(optimizer_class)
        self._inner_step: Callable[..., Any] = inner_class.step  # taken before torch wraps it for its profiler, at 30 us a step
        options = {**_required(optimizer_class), **_fastest(optimizer_class, options), **options}
        self._inner = _constructed(inner_class, self.name, self._parameters, options)
        self.options = _told(optimizer_class, self._inner.defaults)
        closure = inspect.signature(self._inner_step).parameters.get("closure")
        self.needs_closure = closure is not None and closure.default is closure.empty
        self.has_evaluation_weights = all(hasattr(self._inner, name) for name in ("eval", "train"))
        self._trained: dict[str, Tensor] | None = None  # the weights that are stepped, while others are evaluated
        self._group_at_first = dict(self._inner.param_groups[0])
        if self.has_evaluation_weights:
            self._inner.train()

    @property
    def parameters(self) -> Mapping[str, nn.Parameter]:
        """The parameters it owns, by name."""
        return self._parameters

    def step(self, lr: float, model: Model, gradients: Gradients, closure: Callable[[], Gradients] | None = None) -> Model:
        """`model` after one update of the parameters that have an entry in `gradients`; no other is touched.

        `closure` takes the gradients again at the weights as they are then, for those that search (LBFGS).
        Raises: KeyError if a gradient belongs to a parameter this optimizer does not own; ValueError if `model` does
        not hold the parameters it owns, or a closure is needed and not given.
        """
        if model is not self._model:
            self._check_holds_parameters(model)
            self._model = model
        for group in self._inner.param_groups:
            group["lr"] = lr
        try:
            self._lend(gradients)
            with torch.no_grad():
                if self.needs_closure:
                    self._inner_step(self._inner, self._evaluations(gradients, closure))
                else:
                    self._inner_step(self._inner)
        finally:
            for name in gradients:
                if name in self._parameters:
                    self._parameters[name].grad = None
        return model

    def _lend(self, gradients: Gradients) -> None:
        for name, gradient in gradients.items():
            if name not in self._parameters:
                raise KeyError(f"the optimizer does not own parameter {name!r}; it owns: {', '.join(self._parameters)}")
            self._parameters[name].grad = gradient

    def _evaluations(self, given: Gradients, closure: Callable[[], Gradients] | None) -> Callable[[], Tensor]:
        """What torch calls a closure: the first call finds the gradients given, each later one takes them again."""
        if closure is None or given.loss is None:
            raise ValueError(
                f"{self.name} evaluates the loss several times a step: give `step` a closure that returns the gradients "
                "at the present weights, and gradients that know their loss, as those of `backward` do"
            )
        first = [given]

        def evaluate() -> Tensor:
            found = first.pop() if first else closure()
            self._lend(found)
            return torch.zeros(()) if found.loss is None else found.loss

        return evaluate

    @contextmanager
    def evaluated(self) -> Iterator[None]:
        """Within it the parameters hold the weights to be measured, saved and exported; afterwards, bit for bit, those it steps.

        For most optimizers they are the same. Within another such block it changes nothing.
        """
        if not self.has_evaluation_weights or self._trained is not None:
            yield
            return
        self._trained = {name: parameter.detach().clone() for name, parameter in self._parameters.items()}
        self._inner.eval()
        try:
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
        strange = [name for name, parameter in self._parameters.items() if id(parameter) not in held]
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
            for slot, value in slots.flattened(self._inner.state.get(parameter, {})).items()
        }
        first = next(iter(self._parameters))
        found |= {f"{first}/{GROUP}{slot}": value for slot, value in slots.flattened(self._moved()).items()}
        if self.has_evaluation_weights:
            weights = self._trained or {name: parameter.detach() for name, parameter in self._parameters.items()}
            found |= {f"{name}/{TRAINED}": tensor for name, tensor in weights.items()}
        return found

    def load_state_dict(self, state: Mapping[str, Tensor]) -> None:
        """Continues from a saved state.

        Raises: KeyError if the state is for a parameter this optimizer does not own.
        """
        by_parameter: dict[str, dict[str, Tensor]] = {}
        for key, value in state.items():
            name, _, slot = key.rpartition("/")
            if name not in self._parameters:
                raise KeyError(f"saved optimizer state {key!r} is for no parameter of this model")
            by_parameter.setdefault(name, {})[slot] = value
        group: dict[str, Tensor] = {}
        trained: dict[str, Tensor] = {}
        self._inner.state.clear()
        for name, found in by_parameter.items():
            group |= {slot.removeprefix(GROUP): found.pop(slot) for slot in [*found] if slot.startswith(GROUP)}
            if TRAINED in found:
                trained[name] = found.pop(TRAINED)
            if found:
                parameter = self._parameters[name]
                self._inner.state[parameter] = slots.restored({slot: self._placed(slot, t, parameter) for slot, t in found.items()})
        self._inner.param_groups[0].update({name: self._group_at_first[name] for name in self._moved()} | slots.restored(group))
        self._put(trained)

    def _placed(self, slot: str, value: Tensor, parameter: nn.Parameter) -> Tensor:
        stays_on_cpu = slot == "step" and not (self.options.get("fused") or self.options.get("capturable"))
        return value.to(value.device if stays_on_cpu else parameter.device, copy=True)

    def _moved(self) -> dict[str, Any]:
        """The numbers of the group, other than the learning rate, that stepping has changed."""
        return {
            name: value
            for name, value in self._inner.param_groups[0].items()
            if name not in ("lr", "train_mode") and isinstance(value, int | float) and value != self._group_at_first[name]
        }


def _owned(model: nn.Module, names: Collection[str] | None) -> dict[str, nn.Parameter]:
    known = dict(model.named_parameters())
    if names is None:
        return {name: parameter for name, parameter in known.items() if parameter.requires_grad}
    unknown = [f"{name!r}{errors.nearest(name, known)}" for name in names if name not in known]
    if unknown:
        raise ValueError(f"{type(model).__name__} has no parameter named {', '.join(unknown)}")
    return {name: parameter for name, parameter in known.items() if name in {*names}}


def _constructed(
    inner_class: type[torch.optim.Optimizer], name: str, parameters: Mapping[str, nn.Parameter], options: Mapping[str, Any]
) -> Any:
    try:
        return inner_class(list(parameters.values()), **options)
    except ValueError as error:
        refused = [] if not _takes(inner_class, torch.zeros(2, 2), options) else [
            f"{key!r} {list(tensor.shape)}" for key, tensor in parameters.items() if not _takes(inner_class, tensor, options)
        ]  # fmt: skip
        if not refused:  # it is the options that are wrong
            raise
        raise ValueError(f"{name} does not take {', '.join(refused)}; give them to another group ({error})") from error


def _takes(inner_class: type[torch.optim.Optimizer], tensor: Tensor, options: Mapping[str, Any]) -> bool:
    try:
        inner_class([tensor], **options)
    except ValueError:
        return False
    return True


def _public_name(optimizer_class: type[torch.optim.Optimizer]) -> str:
    """`torch.optim.Adam` rather than the module it is defined in; any other class by its module."""
    name = optimizer_class.__name__
    module = "torch.optim" if getattr(torch.optim, name, None) is optimizer_class else optimizer_class.__module__
    return f"{module}.{name}"


def _required(optimizer_class: type[torch.optim.Optimizer]) -> dict[str, Any]:
    """A learning rate for the constructors that insist on one; each step is told its own."""
    lr = inspect.signature(optimizer_class).parameters.get("lr")
    return {"lr": 1.0} if lr is not None and lr.default is lr.empty else {}


def _told(optimizer_class: type[torch.optim.Optimizer], defaults: Mapping[str, Any]) -> dict[str, Any]:
    """The options that the class takes, without what it keeps among them for its own use."""
    known = inspect.signature(optimizer_class).parameters.values()
    names = {parameter.name for parameter in known}
    is_open = any(parameter.kind is parameter.VAR_KEYWORD for parameter in known)
    return {name: value for name, value in defaults.items() if name != "lr" and (is_open or name in names)}


def _fastest(optimizer_class: type[torch.optim.Optimizer], options: Mapping[str, Any]) -> dict[str, Any]:
    known = inspect.signature(optimizer_class).parameters
    if options.get("differentiable") or "fused" in options or "foreach" in options:
        return {}
    for name in ("fused", "foreach"):
        if name in known:
            return {name: True}
    return {}


def _without_dynamo(optimizer_class: type[torch.optim.Optimizer]) -> type[torch.optim.Optimizer]:
    """The class without the wrappers by which torch's own import torch._dynamo on the way to their first step.

    That import takes 1.4 s and serves only a compiled `step`. What they also do, switching gradients off, `step` above
    does itself. Of a class from elsewhere only what it has from torch is unwrapped.
    """
    is_torchs = optimizer_class.__module__.startswith("torch.optim.")
    names = ("add_param_group", "step") if is_torchs else ("add_param_group",)
    plain = {name: inspect.unwrap(getattr(optimizer_class, name)) for name in names}
    return type(optimizer_class.__name__, (optimizer_class,), plain)
