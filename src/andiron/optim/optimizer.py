"""The functional interface of a torch optimizer: gradients and learning rate in, model out.

>>> from andiron.gradients import backward
>>> model = nn.Linear(3, 1)
>>> optimizer = Optimizer(torch.optim.Adam, model, weight_decay=0.1)
>>> gradients = backward(model(torch.ones(2, 3)).mean(), model)
>>> model = optimizer.step(0.01, model, gradients)
"""

from collections.abc import Callable, Collection, Sequence
from contextlib import ExitStack
from functools import partial
from typing import Any, TypeVar

import torch
from torch import Tensor, nn

from andiron import errors
from andiron.gradients import Gradients, Tensors
from andiron.optim import model_weights
from andiron.optim.foreign import torch_class
from andiron.optim.foreign.held_class import HeldClass
from andiron.optim.own.flat_state import Groups
from andiron.plain import private_torch
from andiron.plain.plain_values import Named, Plain

Model = TypeVar("Model", bound=nn.Module)
Closure = Callable[[], Gradients]  # at the current weights
TRAINED = "training_weights"  # slot of the weights that are stepped, where others are evaluated


class Optimizer:
    """A `torch.optim` class, or one like it, whose `step` takes gradients and learning rate.

    It owns the parameters `names`, by default every trainable one of `model`. Other options have
    the class's defaults, except that torch's fastest implementation is used: fused, else foreach.
    A class of another package is constructed with the rate of the run, by `expect` or the first
    step, and its state is what its own `state_dict` returns.
    Raises: ValueError for an unknown parameter name, or for parameters that the class refuses;
    MismatchError for a class that has no learning rate.
    """

    def __init__(
        self,
        optimizer_class: type[torch.optim.Optimizer],
        model: nn.Module,
        names: Collection[str] | None = None,
        **options: Any,
    ):
        self._construct(optimizer_class, model, [names], [options])

    @classmethod
    def joint(
        cls,
        kind: torch_class.Kind,
        model: nn.Module,
        names: Sequence[Collection[str] | None],
        options: Sequence[Named],
    ) -> "Optimizer":
        """One optimizer of several groups, with the names of their parameters and the options."""
        made = cls.__new__(cls)
        made._construct(kind, model, names, options)
        return made

    @classmethod
    def around(
        cls, inner: torch.optim.Optimizer, model: nn.Module, groups: Groups, *, keeps_rate: bool
    ) -> "Optimizer":
        """An optimizer that steps by `inner`, which already holds the parameters of its groups.

        `keeps_rate`: the class may set its rate, which is the run's.
        """
        made = cls.__new__(cls)
        held = HeldClass(type(inner), groups, lambda rates: inner, keeps_rate=keeps_rate)
        made._own(held, model, groups)
        return made

    def _construct(
        self, kind: torch_class.Kind, model: nn.Module, names: Any, options: Any
    ) -> None:
        groups = [torch_class.named_parameters(model, name) for name in names]
        if not all(groups):
            owner = type(model).__name__
            raise ValueError(f"{owner} has no trainable parameter for {kind.__name__} to own")
        for parameter in (tensor for group in groups for tensor in group.values()):
            parameter.requires_grad_(True)  # a frozen one that `names` has
        made = partial(torch_class.constructed, kind, model, groups, options)
        needs_rate = torch_class.needs_rate(kind, options[0])
        self._own(HeldClass(kind, groups, made, needs_rate=needs_rate), model, groups)

    def _own(self, held: HeldClass, model: nn.Module, groups: Groups) -> None:
        self._groups = groups
        # the owned parameters
        self.parameters = {name: parameter for group in groups for name, parameter in group.items()}
        self.kind, self.held = held.kind, held
        self._model: nn.Module = model
        self.name, self.is_own = held.name, held.is_own
        self.takes_sparse_gradients = issubclass(held.kind, torch.optim.SparseAdam)
        self.needs_closure = torch_class.needs_closure(held.step.plain)
        self.has_evaluation_weights = held.has_evaluation_weights
        # the weights that are stepped, while others are evaluated
        self._trained: dict[str, Tensor] | None = None

    @property
    def options(self) -> Plain:
        """The constructor's options at the start, of the first group."""
        return self.held.options(0)

    def number_of(self, name: str) -> int:
        """The number of a parameter's group."""
        return next(number for number, group in enumerate(self._groups) if name in group)

    def step(
        self,
        lr: float | list[float],
        model: Model,
        gradients: Gradients,
        closure: Closure | None = None,
    ) -> Model:
        """`model` after one update of the parameters that have an entry in `gradients`.

        `lr` is a rate for all groups, or one for each.
        `closure` computes the gradients at the current weights, for optimizers with a line search
        (LBFGS, which moves all parameters as one vector and treats a missing gradient as zeros).
        Raises: KeyError if a gradient belongs to a parameter this optimizer does not own;
        ValueError if `model` lacks the parameters it owns, or a closure is required and missing;
        RuntimeError inside `evaluated`; MismatchError for a class of another package that needs
        more than gradients and a rate, sets another rate, or has a state that cannot be saved.
        """
        if model is not self._model:
            self._check_holds_parameters(model)
            self._model = model
        self._check_left("a step inside `evaluated` would be lost with its weights on exit")
        if not gradients:
            return model
        held, groups = self.held, self._groups
        rates: Sequence[float] = lr if isinstance(lr, list) else [lr] * len(groups)
        rates = held.step.set_rates(rates) if held.is_own else held.set_rates(rates)
        is_whole = gradients.keys() == self.parameters.keys()
        try:
            self._lend(gradients)  # torch checks their shapes, dtypes and devices
            with torch.set_grad_enabled(False):
                is_stepped = is_whole and held.step.by_kernel(groups, gradients, rates)
                # any other step would change something: it waits for the flag
                if not is_stepped and (gradients.flag is None or not gradients.flag.item()):
                    again = [self._evaluations(gradients, closure)] if self.needs_closure else []
                    held.public_step(rates, *again)
        except RuntimeError as error:
            if "sparse gradients" in str(error):
                errors.explain(error, f"optimizer {self.name}", "choose another, also for "
                               "some parameters alone (param_groups)")
            raise
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
            # schedulefree's step overwrites the gradients; torch's and ours do not
            parameter.grad = gradient if self.is_own else gradient.clone()

    def _take_back(self) -> None:
        for parameter in self.parameters.values():
            parameter.grad = None

    def _evaluations(self, given: Gradients, closure: Closure | None) -> Callable[[], Tensor]:
        """The closure for torch: its first call lends the gradients, later ones compute them."""
        if closure is None:
            raise ValueError(
                f"{self.name} evaluates the loss several times a step: give `step` a closure that "
                "returns the gradients at the current weights"
            )
        unused, versions = [given], self._versions()

        def evaluate() -> Tensor:
            self._take_back()  # or the closure's own backward would add to the lent gradients
            # schedulefree moves the weights before its first call: the given gradients are then
            # stale
            is_given = bool(unused) and self._versions() == versions
            with torch.enable_grad():
                current = unused.pop() if is_given else closure()
            unused.clear()
            if current.loss is None:
                raise ValueError(
                    f"{self.name} needs the loss: give gradients with one, as `backward` returns"
                )
            self._lend(current)
            return current.loss

        return evaluate

    def _versions(self) -> list[int]:
        return [*map(private_torch.version, self.parameters.values())]

    def evaluated(self) -> ExitStack:
        """A context in which the parameters are the weights to evaluate, save and export.

        For most optimizers they are the stepped weights. On exit those are restored bit for bit.
        Nested contexts change nothing. It begins with the call; see `model_weights.swapped_in`.
        """
        with ExitStack() as stack:
            if self.has_evaluation_weights and self.held.inner.state and self._trained is None:
                self._trained = {
                    name: parameter.detach().clone() for name, parameter in self.parameters.items()
                }
                stack.callback(self._leave_evaluation, self._trained)
                self.held.inner.eval()
            return stack.pop_all()

    def _leave_evaluation(self, trained: Tensors) -> None:
        self.held.inner.train()
        model_weights.copy(trained, self.parameters)  # the optimizer's own arithmetic would round
        self._trained = None

    def _check_left(self, problem: str) -> None:
        if self._trained is not None:
            raise RuntimeError(f"{problem}; leave it first")

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

        The state of a group is stored with its first parameter. If other weights are evaluated,
        the stepped weights are part of the state.
        Raises: ConfigError naming what no checkpoint can hold.
        """
        state = self.held.flat()
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
        self._check_left("a state loaded inside `evaluated` would lose its weights on exit")
        names = {key: key.rpartition("/")[0] for key in state}
        for key in (key for key, name in names.items() if name not in self.parameters):
            raise KeyError(f"saved optimizer state {key!r} is for no parameter of this model")
        trained = {names[key]: value for key, value in state.items() if key.endswith(f"/{TRAINED}")}
        missing = [name for name in self.parameters if name not in trained]
        if state and missing and self.has_evaluation_weights:
            raise ValueError(
                f"saved optimizer state lacks the weights that {self.name} steps of "
                f"{', '.join(missing)}; the model's file has others, for evaluation: load a state "
                "that this class saved"
            )
        self.held.load({key: state[key] for key in state if not key.endswith(f"/{TRAINED}")})
        model_weights.copy(trained, self.parameters)
