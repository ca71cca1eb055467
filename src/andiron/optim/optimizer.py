"""The functional face of a torch optimizer: gradients and the learning rate go in, the model comes out."""

import inspect
from collections.abc import Mapping
from typing import Any, TypeVar

import torch
from torch import Tensor, nn

from andiron.gradients import Gradients

Model = TypeVar("Model", bound=nn.Module)


class Optimizer:
    """A `torch.optim` class (or one with its interface) that is told its gradients and its learning rate.

    It owns every trainable parameter of `model`. Options not given are torch's own, except that the fastest
    implementation torch has for the parameters' device is chosen: fused, else foreach.
    """

    def __init__(self, optimizer_class: type[torch.optim.Optimizer], model: nn.Module, **options: Any):
        self._parameters = {name: p for name, p in model.named_parameters() if p.requires_grad}
        if not self._parameters:
            raise ValueError(f"{type(model).__name__} has no trainable parameter for {optimizer_class.__name__} to own")
        self._model: nn.Module = model
        self.name = _public_name(optimizer_class)
        inner_class = _without_dynamo(optimizer_class)
        self._inner_step = inner_class.step  # taken before torch wraps it for its profiler, at 30 us a step
        self._inner = inner_class(list(self._parameters.values()), **_fastest(optimizer_class, options), **options)
        self.options = {name: value for name, value in self._inner.defaults.items() if name != "lr"}

    @property
    def parameters(self) -> Mapping[str, nn.Parameter]:
        """The parameters it owns, by name."""
        return self._parameters

    def step(self, lr: float, model: Model, gradients: Gradients) -> Model:
        """`model` after one update of the parameters that have an entry in `gradients`; no other is touched.

        Raises: KeyError if a gradient belongs to a parameter this optimizer does not own; ValueError if `model` does
        not hold the parameters it owns.
        """
        if model is not self._model:
            self._check_holds_parameters(model)
            self._model = model
        for name in gradients:
            if name not in self._parameters:
                raise KeyError(f"the optimizer does not own parameter {name!r}; it owns: {', '.join(self._parameters)}")
        for group in self._inner.param_groups:
            group["lr"] = lr
        try:
            for name, gradient in gradients.items():
                self._parameters[name].grad = gradient
            with torch.no_grad():
                self._inner_step(self._inner)
        finally:
            for name in gradients:
                self._parameters[name].grad = None
        return model

    def _check_holds_parameters(self, model: nn.Module) -> None:
        held = {id(parameter) for parameter in model.parameters()}
        strange = [name for name, parameter in self._parameters.items() if id(parameter) not in held]
        if strange:
            raise ValueError(
                f"this {type(model).__name__} is not the model the optimizer was made for: it does not hold "
                f"{', '.join(strange)}; make an optimizer for it"
            )

    def state_dict(self) -> dict[str, Tensor]:
        """Its state as `<parameter>/<slot>` to tensor; empty before the first step."""
        return {
            f"{name}/{slot}": torch.as_tensor(value)
            for name, parameter in self._parameters.items()
            for slot, value in self._inner.state.get(parameter, {}).items()
            if value is not None
        }

    def load_state_dict(self, state: Mapping[str, Tensor]) -> None:
        """Continues from a saved state.

        Raises: KeyError if the state is for a parameter this optimizer does not own.
        """
        fresh: dict[Tensor, dict[str, Tensor]] = {}
        for key, value in state.items():
            name, _, slot = key.rpartition("/")
            if name not in self._parameters:
                raise KeyError(f"saved optimizer state {key!r} is for no parameter of this model")
            parameter = self._parameters[name]
            stays_on_cpu = slot == "step" and not (self.options.get("fused") or self.options.get("capturable"))
            device = value.device if stays_on_cpu else parameter.device
            fresh.setdefault(parameter, {})[slot] = value.to(device, copy=True)
        self._inner.state.clear()
        self._inner.state.update(fresh)


def _public_name(optimizer_class: type[torch.optim.Optimizer]) -> str:
    """`torch.optim.Adam` rather than the module it is defined in; any other class by its module."""
    name = optimizer_class.__name__
    module = "torch.optim" if getattr(torch.optim, name, None) is optimizer_class else optimizer_class.__module__
    return f"{module}.{name}"


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
    does itself.
    """
    if not optimizer_class.__module__.startswith("torch.optim."):
        return optimizer_class
    plain = {name: inspect.unwrap(getattr(optimizer_class, name)) for name in ("add_param_group", "step")}
    return type(optimizer_class.__name__, (optimizer_class,), plain)
