"""One object of a torch optimizer class with its groups: constructed, stepped and saved as a whole.

A class of torch has fused kernels, and slots that a saved state can be compared with. A class of
another package is constructed with the run's rate, and keeps what its own `state_dict` returns.
"""

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from andiron import errors
from andiron.gradients import Tensors
from andiron.optim.foreign import torch_class
from andiron.optim.own.flat_state import Groups, SlotState
from andiron.optim.foreign.torch_step import TorchStep
from andiron.optim.foreign.whole_state import WholeState


class HeldClass:
    """An object of `kind` for these groups, as `made` constructs it from their rates or None.

    `keeps_rate`: the class may set its rate, which is the run's.
    """

    def __init__(
        self,
        kind: torch_class.Kind,
        groups: Groups,
        made: Callable[[Sequence[float] | None], Any],
        *,
        needs_rate: bool = False,
        keeps_rate: bool = False,
    ):
        self.kind, self._groups, self._made = kind, groups, made
        self.name = torch_class.public_name(kind)
        self.is_own = torch_class.is_own(kind)
        self.needs_rate = needs_rate  # before its first step
        self._keeps_rate = keeps_rate
        self._rates: Sequence[float] | None = None  # that it was constructed with
        self._is_proven = self.is_own  # that gradients and a rate are enough, and a state is saved
        self._hold(made(None))

    def _hold(self, inner: Any) -> None:
        if not all("lr" in group for group in inner.param_groups):
            raise self._refusal("a group has no learning rate `lr`, which a run sets")
        self.inner = inner
        self.step = TorchStep(self.kind, inner)
        self.has_evaluation_weights = all(hasattr(inner, name) for name in ("eval", "train"))
        if self.has_evaluation_weights:
            inner.train()
        self.slots = SlotState(inner, self._groups)
        self._whole = None if self.is_own else WholeState(inner, self._groups)
        made = [group["lr"] for group in inner.param_groups]
        given = self._rates or made
        # some constructors divide the rate
        self._factors = [own / rate if own and rate else 1.0 for own, rate in zip(made, given)]

    def expect(self, rates: Sequence[float]) -> None:
        """Constructs the class again, with the rate of each group."""
        self.needs_rate, self._rates = False, [*map(float, rates)]
        self._hold(self._made(self._rates))

    def options(self, number: int) -> dict[str, Any]:
        """The constructor's options of a group at the start, without what the class adds."""
        group = self.slots.initial[number]
        names = [name for name in self.inner.defaults if torch_class.takes(self.kind, name)]
        return {name: group.get(name) for name in names if name != "lr"}

    def set_rates(self, rates: Sequence[float]) -> Sequence[float]:
        """Sets the rates of a class of another package, and returns those that it gets."""
        if self.needs_rate:
            self.expect(rates)
        rates = [float(rate) * factor for rate, factor in zip(rates, self._factors)]
        for group, rate in zip(self.inner.param_groups, rates):
            group["lr"] = rate
        return rates

    def public_step(self, rates: Sequence[float], *closure: Callable[[], Tensor]) -> None:
        """The class's own step.

        Raises: MismatchError for a class of another package that needs more than gradients and a
        rate, sets another rate, or has a state that no checkpoint can hold.
        """
        try:
            self.step.public(*closure)
        except Exception as error:
            if self._is_proven or closure or isinstance(error, torch.OutOfMemoryError):
                raise
            why = f"its first step needs more than gradients and a rate ({errors.one_line(error)})"
            raise self._refusal(why) from error
        left = [group["lr"] for group in self.inner.param_groups]
        if not self.is_own and left != rates and not self._keeps_rate:
            raise self._refusal(f"its step sets the rates {left}, and the run's are {rates}")
        if not self._is_proven:
            try:
                self.flat()
            except errors.ConfigError as error:
                raise self._refusal(f"its state cannot be saved: {error.problems[0]}") from error
            self._is_proven = True

    def _refusal(self, why: str) -> errors.MismatchError:
        return errors.MismatchError(f"{self.name}: {why}; choose another optimizer")

    def flat(self) -> dict[str, Tensor]:
        """The state as tensors by `<parameter>/<slot>`.

        Raises: ConfigError naming what no checkpoint can hold.
        """
        if self._whole is None:
            return self.slots.flat()
        return {} if self.needs_rate else self._whole.flat(self._rates)

    def load(self, state: Tensors) -> None:
        """Continues from a saved state.

        Raises: DataError for a damaged one of a class of another package.
        """
        self._is_proven |= bool(state)
        try:
            plain = self._whole and self._whole.parsed(state)
            if not plain:  # an earlier version stepped it with the rate of its constructor
                self.needs_rate &= not state
                self.slots.load(state)
                return
            if plain["rates"] is not None:
                self.expect(plain["rates"])
            self.needs_rate = False
            self._whole.load(plain, state)  # type: ignore[union-attr]
        except (LookupError, TypeError, ValueError, AttributeError, RuntimeError) as error:
            if self.is_own:
                raise
            why = f"the saved state of {self.name} is damaged ({errors.one_line(error)})"
            raise errors.DataError(f"{why}; use another checkpoint") from error
