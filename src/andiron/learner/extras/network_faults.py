"""Names tensors of a network that do not train or are in no checkpoint, at the first updates."""

import logging
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from torch import Tensor, nn

from andiron import errors
from andiron.gradients import Gradients
from andiron.plain.readable import joined

log = logging.getLogger("andiron")


class NetworkFaults:
    """One of the `instruments` of two updates; a model without `network` may train by parts."""

    def __init__(self, model: nn.Module, instruments: list[Any]):
        self._model, self._instruments = model, instruments
        self._state: dict[str, tuple[object, ...]] | None = None

    def before(self, batches: Sequence[object], position: object) -> None:
        """Names tensors that no module has, and after an update what changed and is not saved."""
        if (before := self._state) is None:
            if names := [*_outside(self._model)]:
                log.warning("%s: tensors in no module, so not trained, saved or moved to a device; "
                            "keep them in a ModuleList, ModuleDict or ParameterList", joined(names))
            self._state = dict(_unsaved(self._model))
            return
        now = dict(_unsaved(self._model))
        if names := [name for name in before if before[name][:2] != now.get(name, ())[:2]]:
            log.warning("%s: changed in training, and in no checkpoint: a resumed run, evaluate "
                        "and predict begin with the first value; keep it in a buffer",
                        joined(names))
        self._instruments.remove(self)

    def computed(self, gradients: Gradients, items: Sequence[object]) -> None:
        """Names parameters without a gradient."""
        named = self._model.named_parameters() if hasattr(self._model, "network") else ()
        if names := [n for n, tensor in named if tensor.requires_grad and n not in gradients]:
            log.warning("%s: no gradient in this update: the loss does not depend on them; are "
                        "they unused, or behind detach() or no_grad()?", joined(names))


def _outside(model: nn.Module) -> Iterator[str]:
    """Attributes with tensors to train that are no parameters, such as a list of layers."""
    registered = {id(parameter) for parameter in model.parameters()}
    for name, module in model.named_modules():
        for key, value in vars(module).items():
            values: Any = value.values() if isinstance(value, Mapping) else value
            values = [value] if isinstance(value, Tensor) else values
            for part in values if isinstance(value, Tensor | list | tuple | Mapping) else ():
                tensors = [*part.parameters()] if isinstance(part, nn.Module) else [part]
                leaves = (t for t in tensors if isinstance(t, Tensor) and t.is_leaf)
                if any(t.requires_grad and id(t) not in registered for t in leaves):
                    yield f"{name}.{key}"
                    break


def _unsaved(model: nn.Module) -> Iterator[tuple[str, tuple[object, ...]]]:
    """Numbers and tensors that no checkpoint holds, with what differs once they change."""
    for name, module in model.named_modules():
        if type(module).__module__.partition(".")[0] in (*errors.OWN, *errors.LIBRARIES):
            continue
        buffers = module.named_buffers(recurse=False)
        passing = {key: t for key, t in buffers if key in module._non_persistent_buffers_set}
        for key, value in (vars(module) | passing).items():
            if isinstance(value, Tensor) and not value.is_inference():
                yield f"{name}.{key}", (id(value), value._version, value)
            elif isinstance(value, int | float) and key != "training":
                yield f"{name}.{key}", (value,)
