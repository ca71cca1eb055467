"""All that a learner needs to go on: out of it into a checkpoint, and back."""

from typing import TYPE_CHECKING

from torch import Tensor

from andiron.checkpoint import Checkpoint

if TYPE_CHECKING:
    from andiron.learner.learner import Learner


def captured(learner: "Learner") -> Checkpoint:
    """The state after the last completed update; the model's part holds the weights to be measured and exported.

    Where an optimizer trains others than those, they are among its own state.
    """
    optimizer = learner.optimizer.state_dict()
    with learner.optimizer.evaluated():
        model = learner.model.state_dict()
        if learner.optimizer.has_evaluation_weights:
            model = {name: tensor.clone() for name, tensor in model.items()}
    averages = {name: average.state_dict() for name, average in learner.averages.items()} | learner.stopping.weights()
    state = {
        "updates": learner.updates,
        "epoch": learner.epoch,
        "seed": learner.seed,
        "history": learner.journal.history.state_dict(),
        "owners": learner.optimizer.owners(),
        "frozen": learner.optimizer.frozen,
        "guard": learner.guard.state_dict(),
        "schedules": [schedule.state_dict() for schedule in learner.stateful_schedules],
        "stopping": learner.stopping.state_dict(),
        "averages": {name: average.count for name, average in learner.averages.items()},
    }
    return Checkpoint(model, optimizer, state, averages)


def exported(learner: "Learner") -> dict[str, dict[str, Tensor]]:
    """The weights to be measured, as `model`, and those of each average, as `model-<average>`."""
    with learner.optimizer.evaluated():
        model = {name: tensor.clone() for name, tensor in learner.model.state_dict().items()}
    averages = {f"model-{name}": average.state_dict() for name, average in learner.averages.items() if average.count}
    return {"model": model} | averages


def restore(learner: "Learner", checkpoint: Checkpoint) -> None:
    """Puts a learner where `captured` found another one that was built the same.

    Raises: OwnershipError if its optimizer state belongs to other groups than these.
    """
    state = checkpoint.state
    learner.optimizer.continue_from(state["owners"], state["frozen"], state["updates"])
    learner.model.load_state_dict(checkpoint.model)
    learner.optimizer.load_state_dict(checkpoint.optimizer)  # after the model: it may bring other weights to train
    for name, average in learner.averages.items():
        average.load_state_dict(checkpoint.averages[name], state["averages"][name])
    for schedule, saved in zip(learner.stateful_schedules, state["schedules"], strict=True):
        schedule.load_state_dict(saved)
    learner.stopping.load_state_dict(state["stopping"], checkpoint.averages)
    learner.guard.load_state_dict(state["guard"])
    learner.updates, learner.epoch, learner.seed = state["updates"], state["epoch"], state["seed"]
    learner.journal.history.load_state_dict(state["history"])
