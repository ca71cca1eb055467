"""The rules of a run for stopping early, all together, and the weights that it then comes back with."""

import logging
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from torch import Tensor, nn

from andiron import errors
from andiron.learner.best_weights import BestWeights
from andiron.learner.early_stopping import EarlyStopping, Stop
from andiron.protocols import Values

BEST = "best_epoch"  # the name of the kept weights in a checkpoint
log = logging.getLogger("andiron")


class Stopping:
    """Rules by name, observed after every epoch; the run of `model` ends as soon as one of them says so."""

    def __init__(self, rules: Mapping[str, EarlyStopping], model: nn.Module):
        self.rules = dict(rules)
        self.best = (
            BestWeights(model) if any(rule.restores_best for rule in self.rules.values()) else None
        )

    @property
    def decision(self) -> Stop | None:
        """The end of the run, for the reasons of all rules that have one; or nothing."""
        stops = [stop for stop in (rule.decision for rule in self.rules.values()) if stop]
        return Stop("; ".join(stop.reason for stop in stops)) if stops else None

    def observe(self, latest: Mapping[str, Values], epoch: int, model: nn.Module) -> None:
        """Shows every rule the values after `epoch`, counted from 1, and keeps the weights they are of if they are the best."""
        for rule in self.rules.values():
            rule.observe(latest, epoch)
            if self.best is not None and rule.restores_best and rule.is_best:
                self.best.take(model)
        if self.decision:
            log.info("stopped early after epoch %d: %s", epoch, self.decision.reason)

    @contextmanager
    def restored(self, model: nn.Module) -> Iterator[None]:
        """Within it `model` has the weights of the best epoch, where a rule restores them; afterwards its own."""
        if self.best is None or not self.best.is_taken:
            yield
            return
        with self.best.swapped_in(model):
            yield

    def state_dict(self) -> dict[str, Any]:
        """What every rule observed, as plain values."""
        return {name: rule.state_dict() for name, rule in self.rules.items()}

    def weights(self) -> dict[str, dict[str, Tensor]]:
        """The weights of the best epoch under their name in a checkpoint, if any are kept."""
        return {} if self.best is None or not self.best.is_taken else {BEST: self.best.state_dict()}

    def load_state_dict(
        self, state: Mapping[str, Any], weights: Mapping[str, Mapping[str, Tensor]]
    ) -> None:
        """Goes on from what `state_dict` and `weights` gave; a rule that was not there then, or of another metric, begins now."""
        known = {
            name
            for name, rule in self.rules.items()
            if name in state and state[name]["of"] == rule.of
        }
        for name in known:
            self.rules[name].load_state_dict(state[name])
        if self.best is not None:
            is_same = any(name in known and rule.restores_best for name, rule in self.rules.items())
            self.best.load_state_dict(weights.get(BEST, {}) if is_same else {})


def check(rules: Mapping[str, EarlyStopping], measured: Mapping[str, Sequence[str]]) -> None:
    """Refuses rules that wait for what nobody measures; `measured` has the names of the metrics on each split.

    Raises: ConfigError with all of them, and with several that would restore the weights of different epochs.
    """
    problems = [
        line
        for name, rule in rules.items()
        for line in _problems(f"early_stopping.{name}", rule, measured)
    ]
    restoring = [
        f"early_stopping.{name}.restores_best" for name, rule in rules.items() if rule.restores_best
    ]
    if len(restoring) > 1:
        problems.append(
            f"{', '.join(restoring)}: a run comes back with the weights of one epoch; leave it to one of these"
        )
    if problems:
        raise errors.ConfigError(problems)


def _problems(option: str, rule: EarlyStopping, measured: Mapping[str, Sequence[str]]) -> list[str]:
    if rule.split not in measured:
        there = f"there is: {', '.join(measured)}"
        return [
            f"{option}.split={rule.split}: nothing is measured on it{errors.nearest(rule.split, measured)}; {there}"
        ]
    names = measured[rule.split]
    if {rule.metric, rule.metric.partition("/")[0]} & {*names}:  # recall/cat is a part of recall
        return []
    there = f"there is: {', '.join(names) or 'nothing'}"
    return [
        f"{option}.metric={rule.metric}: not measured on {rule.split}{errors.nearest(rule.metric, names)}; {there}"
    ]
