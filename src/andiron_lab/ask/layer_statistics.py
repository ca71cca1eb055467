"""An update by layer: its gradients, activations, movement of weights, and weights."""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn

from andiron import errors
from andiron.data.structures import tensors_in
from andiron.plain import private_torch
from andiron.tasks.criterion import Supervised
from andiron_lab.ask.instruments import Instrument, Update

KINDS = ("gradients", "activations", "updates", "weights")


class LayerStatistics(Instrument):
    """Keeps tensors of the update `number`, and of the one before it, which it has to see too.

    `per_sample` gives `samples`: the norm of each sample's gradient, or why there is none.
    """

    def __init__(self, number: int, *, per_sample: bool = False):
        self.number, self._per_sample = number, per_sample
        self.update: Update | None = None
        self.samples: list[float] | str | None = None
        self.tensors: dict[str, dict[str, Tensor]] = {}  # by kind, then by layer
        self._former: dict[str, dict[str, Tensor]] = {}
        self._hooks: list[Any] = []

    def before(self, update: Update) -> None:
        """Keeps the weights, and collects outputs from now on."""
        if update.number > self.number:
            return
        if update.number == self.number and self.update is None:
            self._former = self.tensors
        self.tensors = {"weights": _weights(update), "activations": {}}
        for name, module in update.learner.model.named_modules():

            def keep(_: object, __: object, output: object, name: str = name) -> None:
                outputs = self.tensors["activations"]
                is_first = private_torch.backward_id() == -1  # not recomputed
                for tensor in tensors_in(output) if is_first else ():  # of all batches
                    former = [outputs[name]] if name in outputs else []
                    outputs[name] = torch.cat([*former, tensor.detach().flatten().float()])

            if name and update.number == self.number:
                self._hooks.append(module.register_forward_hook(keep))

    def computed(self, update: Update) -> None:
        """Keeps the gradients."""
        if update.number > self.number or update.gradients is None:
            return
        self.update = update if update.number == self.number else None
        for hook in self._hooks:
            hook.remove()
        gradients = update.gradients.items()
        self.tensors["gradients"] = {name: tensor.clone() for name, tensor in gradients}
        if self._per_sample and update.number == self.number:
            with torch.random.fork_rng():
                self.samples = _sample_norms(update.learner.model, update.batches)

    def after(self, update: Update) -> None:
        """Keeps how the weights moved."""
        if update.number <= self.number:
            before, now = self.tensors["weights"], _weights(update)
            self.tensors["updates"] = {name: now[name] - before[name] for name in now}

    def rows(self, kinds: Sequence[str]) -> dict[str, list[dict[str, Any]]]:
        """The statistics of each layer by kind; `cosine` is with the update before."""
        return {
            kind: [
                _row(name, tensor, self._former.get(kind, {}).get(name))
                for name, tensor in self.tensors[kind].items() if tensor.numel()
            ]
            for kind in kinds
        }  # fmt: skip


def _weights(update: Update) -> dict[str, Tensor]:
    named = update.learner.model.named_parameters()
    return {name: tensor.detach().clone() for name, tensor in named}


def _row(name: str, tensor: Tensor, former: Tensor | None) -> dict[str, Any]:
    flat = tensor.flatten().float()
    is_compared = former is not None and former.shape == tensor.shape and flat.any()
    return {
        "layer": name, "norm": float(flat.norm()), "largest": float(flat.abs().max()),
        "zeros": float((flat == 0).float().mean()), "nonfinite": int((~flat.isfinite()).sum()),
        "cosine": float(flat @ former.flatten().float() / (flat.norm() * former.norm().float()))
        if is_compared and former is not None else None,
    }  # fmt: skip


class _Loss(nn.Module):
    """The loss of a task for a batch, as a module's output."""

    def __init__(self, task: Supervised):
        super().__init__()
        self.task = task

    def forward(self, batch: Any) -> Tensor:
        loss: Tensor = self.task.predict(batch).loss
        return loss


def _sample_norms(task: nn.Module, batches: Sequence[object]) -> list[float] | str:
    """The norm of the gradient of each sample's loss, or why torch.func cannot compute it."""
    if not isinstance(task, Supervised):
        return f"a {type(task).__name__} has no loss of one sample"
    module = _Loss(task)
    named = module.named_parameters()
    weights = {name: tensor.detach() for name, tensor in named if tensor.requires_grad}

    def loss(weights: dict[str, Tensor], sample: Any) -> Any:
        alone = torch.utils._pytree.tree_map(lambda leaf: leaf[None], sample)
        return torch.func.functional_call(module, weights, (alone,))

    try:
        compute = torch.func.vmap(torch.func.grad(loss), (None, 0), randomness="different")
        norms: list[float] = []
        for batch in batches:
            gradients = compute(weights, batch).values()
            squares = [tensor.reshape(len(tensor), -1).square().sum(1) for tensor in gradients]
            norms += torch.stack(squares).sum(0).sqrt().tolist()
        return norms
    except Exception as error:  # of the network's own code, under torch.func
        return errors.one_line(error)
