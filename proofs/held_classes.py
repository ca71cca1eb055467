"""Every optimizer class of torch and of packages for it: the bits of a plain loop, or a refusal.

    python proofs/held_classes.py            a line for each class
    python proofs/held_classes.py --page     the table of docs/optimizer_classes.md

A class is given by itself (`Optimizer`), and constructed (`LearnerBuilder.build`), with one group
and two, at a constant rate and one that rises and falls. 24 updates must end in the bits of a plain
loop of torch, and so must 7, saved to files, and 17 of new objects; or the class is refused by
then.
"""

import argparse
import importlib.metadata
import inspect
import random
import tempfile
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy
import torch
from torch import nn
from torch.nn import functional

from andiron import errors, gradients, serialization
from andiron.optim import Group, GroupedOptimizer, Optimizer
from andiron.optim.foreign import slot_checks, torch_optimizer
from andiron.optim.torch_schedule import TorchSchedule

PACKAGES = {
    "torch.optim": "torch", "timm.optim": "timm", "pytorch_optimizer": "pytorch-optimizer",
    "schedulefree": "schedulefree", "lion_pytorch": "lion-pytorch", "prodigyopt": "prodigyopt",
}  # fmt: skip
PAGE = Path(__file__).parents[1] / "docs" / "optimizer_classes.md"
RATE, SAVED, END = 3e-3, 7, 24
FACTORS = (0.125, 0.25, 0.5, 1.0, 1.0, 0.5)  # of two: the product with a rate is exact
NEEDED: dict[str, dict[str, Any]] = {
    "Ranger21": {"num_iterations": END}, "BSAM": {"num_data": 6},
    **{f"{name}SAM": {"base_optimizer": torch.optim.AdamW} for name in ("", "Friendly", "Look")},
}  # fmt: skip
SAME, NO_PLAIN = "the same bits", "trains in no plain loop"
REASONS = (  # parts of a refusal that say why
    NO_PLAIN, "its first step needs more than gradients and a rate", "its step sets the rates",
    "does not take a list of parameters", "has no learning rate", "its state cannot be saved",
    "`use_muon` must be set", "need to pass `params`",
)  # fmt: skip


class Case(NamedTuple):
    """How a class is constructed."""

    groups: int
    is_scheduled: bool
    has_marks: bool = False  # groups say which of them are matrices
    are_matrices: bool = False  # no vectors
    has_closure: bool = False
    wraps: bool = False  # AdamW
    creates_graph: bool = False


def classes() -> Iterator[tuple[str, type[torch.optim.Optimizer]]]:
    """The classes of all installed packages by name, each once."""
    seen = set()
    for module, _ in PACKAGES.items():
        try:
            names = vars(importlib.import_module(module))
        except ImportError:
            continue
        for name, kind in sorted(names.items()):
            is_class = isinstance(kind, type) and issubclass(kind, torch.optim.Optimizer)
            if is_class and kind not in seen and kind is not torch.optim.Optimizer:
                seen.add(kind)
                yield f"{module}.{name}", kind


def network(case: Case) -> nn.Module:
    """A small network, whose biases and LayerNorm begin at zeros and ones."""
    torch.manual_seed(0)
    if case.are_matrices:
        return nn.Sequential(nn.Linear(6, 9, bias=False), nn.Tanh(), nn.Linear(9, 4, bias=False))
    return nn.Sequential(nn.Linear(6, 9), nn.Tanh(), nn.LayerNorm(9), nn.Linear(9, 4))


def loss_of(model: nn.Module, update: int) -> torch.Tensor:
    stream = torch.Generator().manual_seed(update)
    inputs = torch.randn(5 + update % 3, 6, generator=stream)
    return functional.cross_entropy(model(inputs), inputs[:, 0].gt(0).long() + 2)


def split(model: nn.Module, case: Case) -> list[list[str]]:
    """The names of the parameters of each group: matrices, and the rest or the last ones."""
    names = [name for name, _ in model.named_parameters()]
    if case.groups == 1:
        return [names]
    first = [n for n, parameter in model.named_parameters() if parameter.dim() > 1]
    first = first[:1] if case.are_matrices else first
    return [first, [name for name in names if name not in first]]


def scales(case: Case) -> list[float]:
    return [1.0, 1.0 if case.has_marks else 0.5][: case.groups]


def constructed(kind: Any, model: nn.Module, case: Case, options: dict[str, Any]) -> Any:
    """An object of the class, as a plain program has it."""
    own = dict(model.named_parameters())
    lists = [[own[name] for name in names] for names in split(model, case)]
    if case.wraps:
        return kind(constructed(torch.optim.AdamW, model, case._replace(wraps=False), {}))
    if case.groups == 1 and not case.has_marks:
        return kind(lists[0], lr=RATE, **options)
    groups: list[dict[str, Any]] = [{"params": list_} for list_ in lists]
    for number, scale in enumerate(scales(case)):
        groups[number] |= {} if scale == 1 else {"lr": RATE * scale}
        groups[number] |= {"use_muon": not number} if case.has_marks else {}
    return kind(groups, lr=RATE, **options)


def begin(update: int) -> None:
    """Some classes draw from the global generators."""
    torch.default_generator.manual_seed(update)  # torch.manual_seed seeds those of devices too
    numpy.random.seed(update)
    random.seed(update)


def factor(update: int, case: Case) -> float:
    return FACTORS[update % len(FACTORS)] if case.is_scheduled else 1.0


def plain(kind: Any, case: Case, options: dict[str, Any]) -> nn.Module:
    """The network that a plain loop trains."""
    model = network(case)
    optimizer = constructed(kind, model, case, options)
    if hasattr(optimizer, "train"):
        optimizer.train()
    first = [group.get("lr") for group in optimizer.param_groups]
    for update in range(END):
        begin(update)
        if case.is_scheduled:
            for group, rate in zip(optimizer.param_groups, first):
                group["lr"] = rate * factor(update, case)

        def closure() -> torch.Tensor:
            with torch.enable_grad():
                optimizer.zero_grad()
                loss = loss_of(model, update)  # noqa: B023
                loss.backward(create_graph=case.creates_graph)
            return loss

        if case.has_closure:
            optimizer.step(closure)
        else:
            closure()
            optimizer.step()
    return model


def by_class(
    kind: Any, model: nn.Module, case: Case, options: dict[str, Any]
) -> tuple[GroupedOptimizer, Callable[[int], float]]:
    """The class, as the command line and `Optimizer(cls, model)` have it."""
    names = split(model, case)
    if case.groups == 1:
        optimizer = Optimizer(kind, model, **options)
    else:
        optimizer = Optimizer.joint(kind, model, names, [options] * case.groups)
    own = dict(model.named_parameters())
    grouped = GroupedOptimizer(model, [
        Group(name=str(number), parameters={name: own[name] for name in value},
              optimizer=optimizer, number=number, lr_scale=scale)
        for number, (value, scale) in enumerate(zip(names, scales(case)))
    ])  # fmt: skip
    schedule = lambda update: RATE * factor(update, case)  # noqa: E731
    grouped.expect(schedule, END)
    return grouped, schedule


def by_object(
    kind: Any, model: nn.Module, case: Case, options: dict[str, Any]
) -> tuple[GroupedOptimizer, Callable[[int], float]]:
    """An object of the class, as `LearnerBuilder.build` has it."""
    optimizer = constructed(kind, model, case, options)
    rates: Any = None
    if case.is_scheduled:
        moved = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: factor(step, case))
        rates = TorchSchedule(moved, every="update")
    return torch_optimizer.adapted(optimizer, rates, model)


def trained(
    made: Callable[..., Any], kind: Any, case: Case, options: dict[str, Any], stops: bool
) -> nn.Module:
    """The network after all updates; if it `stops`, new objects make those after the seventh.

    Raises: AndironError or ValueError by the seventh for a class that is refused.
    """
    model = network(case)
    try:
        optimizer, schedule = made(kind, model, case, options)
    except TypeError as error:  # of the constructor
        raise errors.MismatchError(str(error)) from error
    for update in range(END):
        if update == SAVED and stops:
            old = model, optimizer, schedule
            model, optimizer, schedule = resumed(made, kind, case, options, *old)
        begin(update)

        def again() -> Any:
            return gradients.backward(loss_of(model, update), model)  # noqa: B023

        rates = optimizer.learning_rates(schedule(update), update)
        optimizer.step(rates, model, again(), again, updates=update)
    return model


def resumed(
    made: Callable[..., Any], kind: Any, case: Case, options: Any, model: nn.Module, optimizer: Any,
    schedule: Any,
) -> tuple[nn.Module, GroupedOptimizer, Callable[[int], float]]:
    """New objects with the state of these, through files."""
    with tempfile.TemporaryDirectory() as folder:
        weights, slots = (Path(folder) / f"{name}.safetensors" for name in ("model", "optimizer"))
        serialization.save_tensors(weights, model.state_dict())
        state, moved = optimizer.state_dict(), getattr(schedule, "state_dict", dict)()
        stateless = optimizer.without_state(state)
        serialization.save_tensors(slots, state)
        torch.manual_seed(99)
        model = network(case)
        optimizer, schedule = made(kind, model, case, options)
        state = serialization.load_tensors(slots)
        owners = optimizer.owners()
        saved = {"stateless": stateless, "frozen": [], "updates": SAVED, "owners": owners}
        if problems := [*slot_checks.problems(optimizer, state, saved)]:
            raise RuntimeError(f"at the resume: {problems[0]}")
        model.load_state_dict(serialization.load_tensors(weights))
        optimizer.load_state_dict(state)
        if moved:
            schedule.load_state_dict(moved)
    return model, optimizer, schedule


def outcome(made: Any, kind: Any, case: Case, options: dict[str, Any], expected: nn.Module) -> str:
    for stops in (False, True):
        try:
            model = trained(made, kind, case, options, stops)
        except (errors.AndironError, ValueError) as error:
            return f"refused: {getattr(error, 'problems', [errors.one_line(error)])[0]}"
        except Exception as error:
            return f"CRASHED: {type(error).__name__} {errors.one_line(error)}"
        pairs = zip(model.state_dict().values(), expected.state_dict().values())
        if not all(torch.equal(*pair) for pair in pairs):
            return "OTHER BITS" + " after a resume" * stops
    return SAME


def forms() -> Iterator[dict[str, bool]]:
    """The ways to construct a class and to step it, the usual one first."""
    for has_closure in (False, True):
        yield {"has_closure": has_closure}
        yield {"are_matrices": True, "has_closure": has_closure}
    yield {"has_marks": True}
    yield {"wraps": True}
    yield {"creates_graph": True}


def outcomes(kind: Any) -> dict[str, str]:
    """The outcome of the class itself, and of an object of it: the worst of all cases."""
    options = NEEDED.get(kind.__name__, {})
    if kind.__module__.startswith("torch."):  # the implementation that `Optimizer` chooses
        takes = inspect.signature(kind).parameters
        options = dict.fromkeys([name for name in ("fused", "foreach") if name in takes][:1], True)
    why = ""
    for form in forms():
        cases = [Case(groups, is_scheduled, **form) for groups in (1, 2) for is_scheduled in (0, 1)]
        cases = cases[2 * form.get("has_marks", False) :]
        expected = []
        for case in cases:  # LBFGS has one group
            try:
                expected.append((case, options, plain(kind, case, options)))
            except Exception as error:
                why = why or f"{NO_PLAIN}: {type(error).__name__} {errors.one_line(error)}"
        if not expected:
            continue
        answer = {}
        for name, made in {"class": by_class, "object": by_object}.items():
            value = [outcome(made, kind, *given) for given in expected]
            answer[name] = next((result for result in value if result != SAME), SAME)
        return answer
    case, answer = Case(1, False), {}
    for name, made in {"class": by_class, "object": by_object}.items():
        own = outcome(made, kind, case, options, network(case))
        answer[name] = f"{why}; {own.replace('CRASHED', 'its own error')}"
    return answer


def listed(part: str = "", every: int = 1) -> Iterator[tuple[str, dict[str, str]]]:
    """The outcomes by class, of each `every`-th class with a part of its name."""
    warnings.simplefilter("ignore")
    chosen = [pair for pair in classes() if part in pair[0]][::every]
    yield from ((name, outcomes(kind)) for name, kind in chosen)


def page(results: dict[str, dict[str, str]]) -> str:
    """The page of the documentation."""
    same = [name for name, value in results.items() if {*value.values()} == {SAME}]
    lines = [
        "# Optimizer classes", "",
        f"Made by `python proofs/held_classes.py --page`, which trains {len(results)} classes by "
        "themselves and as objects, with one group",
        "and two, at a constant rate and a schedule's, and resumes them. "
        f"{len(same)} end in the bits of a plain loop of torch both ways; the others:", "",
        "| given by itself | as an object | classes |", "| --- | --- | --- |",
    ]  # fmt: skip
    alike: dict[tuple[str, str], list[str]] = {}
    for name, result in results.items():
        if name not in same:
            reasons = reason(result["class"]), reason(result["object"])
            alike.setdefault(reasons, []).append(name)
    lines += [f"| {one} | {other} | {', '.join(names)} |" for (one, other), names in alike.items()]
    lines += ["", "The same bits both ways:", ""]
    for module, package in PACKAGES.items():
        names = [name.rpartition(".")[2] for name in same if name.rpartition(".")[0] == module]
        version = importlib.metadata.version(package)
        lines.append(f"- {package} {version} (`{module}`): {', '.join(names)}")
    return "\n".join(lines) + "\n"


def reason(text: str) -> str:
    """The outcome without the name of the class, its numbers and the remedy."""
    known = next((words for words in REASONS if words in text), "")
    return f"refused: {known}" if known.strip() and known != NO_PLAIN else known or text[:80]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--page", action="store_true", help="write the page")
    parser.add_argument("--only", default="", help="a part of the names")
    given = parser.parse_args()
    result = {}
    for name, value in listed(given.only):
        result[name] = value
        print(f"{name}: {value['class'][:300]} | {value['object'][:300]}", flush=True)
    if given.page:
        PAGE.write_text(page(result), encoding="utf-8")


if __name__ == "__main__":
    main()
