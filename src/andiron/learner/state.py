"""All that a learner needs to go on: out of it into a checkpoint, and back."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from andiron import checkpoint, errors, randomness, schedules
from andiron.checkpoint import Checkpoint
from andiron.serialization import Record, layouts, matching

if TYPE_CHECKING:
    from andiron.learner.learner import Learner

CHECKPOINTS = "checkpoints"  # in a run's folder
EXACT = ("optimizer/", "metrics/")  # parts of a record
BITS = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}  # by bytes


def captured(learner: "Learner", journal: tuple[dict[str, Any], dict[str, Tensor]]) -> Checkpoint:
    """The state after the last completed update; the model's part holds the weights to be measured and exported.

    Where an optimizer trains others than those, they are among its own state. `journal` is what was measured until then.
    """
    optimizer = learner.optimizer.state_dict()
    with learner.optimizer.evaluated():
        model = learner.model.state_dict()
        if learner.optimizer.has_evaluation_weights:
            model = {name: tensor.clone() for name, tensor in model.items()}
    averages = {
        name: average.state_dict() for name, average in learner.averages.items()
    } | learner.stopping.weights()
    measured, windows = journal
    state = {
        "updates": learner.updates,
        "epoch": learner.epoch,
        "batch": learner.batch,
        "seed": learner.seed,
        "owners": learner.optimizer.owners(),
        "frozen": learner.optimizer.frozen,
        "guard": learner.guard.state_dict(),
        "schedules": [schedule.state_dict() for schedule in stateful_schedules(learner)],
        "stopping": learner.stopping.state_dict(),
        "averages": {name: average.count for name, average in learner.averages.items()},
        "random": randomness.others(),
        "journal": measured,
    }
    return Checkpoint(model, optimizer, state, averages, windows)


def exported(learner: "Learner") -> dict[str, dict[str, Tensor]]:
    """The weights to be measured, as `model`, and those of each average, as `model-<average>`."""
    with learner.optimizer.evaluated():
        model = {name: tensor.clone() for name, tensor in learner.model.state_dict().items()}
    averages = {
        f"model-{name}": average.state_dict()
        for name, average in learner.averages.items()
        if average.count
    }
    return {"model": model} | averages


def restore(learner: "Learner", saved: Checkpoint) -> None:
    """Puts a learner where `captured` found another one that was built the same.

    Raises: OwnershipError if its optimizer state belongs to other groups than these; ValueError if it measured other metrics,
    or if its weights or averages are those of another model.
    """
    state = saved.state
    _check(learner, saved)
    learner.optimizer.continue_from(state["owners"], state["frozen"], state["updates"])
    device = next(
        (parameter.device for parameter in learner.model.parameters()), torch.device("cpu")
    )
    learner.journal.load_state_dict(state["journal"], saved.metrics, device)
    learner.model.load_state_dict(saved.model)
    learner.optimizer.load_state_dict(
        saved.optimizer
    )  # after the model: it may bring other weights to train
    for name, average in learner.averages.items():
        average.load_state_dict(saved.averages[name], state["averages"][name])
    stateful = stateful_schedules(learner)
    if len(stateful) == len(state["schedules"]):  # else others were chosen since, which begin now
        for schedule, seen in zip(stateful, state["schedules"], strict=True):
            schedule.load_state_dict(seen)
    learner.stopping.load_state_dict(state["stopping"], saved.averages)
    learner.guard.load_state_dict(state["guard"])
    randomness.put_others(state["random"])
    learner.updates, learner.epoch, learner.batch = state["updates"], state["epoch"], state["batch"]
    learner.seed = state["seed"]


def _check(learner: "Learner", saved: Checkpoint) -> None:
    """Refuses another model's state before anything is changed."""
    places = layouts.places(learner.model, "torch")
    found = matching.differences(places, saved.model)
    if found:
        told = matching.told(found, places, saved.model)
        raise errors.MismatchError(
            f"the state does not fit the model:\n{told}\nbuild the model that it is of"
        )
    missing = [name for name in learner.averages if name not in saved.averages]
    if missing:
        there = ", ".join(saved.averages) or "none"
        why = f"are not in the state, which has {there}; build the learner with those"
        raise errors.MismatchError(f"averages {', '.join(missing)} {why}")


def resume(learner: "Learner", found: tuple[Path, Checkpoint] | None = None) -> Path:
    """Goes on from the newest whole checkpoint of the learner's run, whose folder comes back; the writers go back there too.

    `found` is that one where it was looked up already.
    Raises: DataError if there is none; what `restore` raises, and nothing was cut back then.
    """
    if learner.run_dir is None:
        raise errors.RunFolderError(
            "a learner without a run_dir has no checkpoints to go on from; build it with one"
        )
    folder, newest = found or checkpoint.newest_whole(learner.run_dir / CHECKPOINTS)
    learner.load(newest)
    if learner.checkpointer:
        learner.checkpointer.adopt(folder, newest)
    learner.journal.rewind(newest.state["journal"]["writers"], learner.updates)
    return folder


def stateful_schedules(learner: "Learner") -> list[Any]:
    """The schedules that have a state_dict, those of groups and users' own included."""
    return [
        part
        for whole in (learner.schedule, *learner.optimizer.schedules)
        for part in schedules.stateful(whole)
    ]


def as_record(saved: Checkpoint) -> Record:
    """A checkpoint as one record, whose values tell the type that each tensor had: a recorder may write weights in another.

    What is no weight goes as the integers of the same bits, which every recorder keeps: an Adam's second moments would come
    back from half precision as zeros, and its first step divide by them.
    """
    parts = {"model": saved.model, "optimizer": saved.optimizer, "metrics": saved.metrics}
    parts |= {f"averages/{name}": average for name, average in saved.averages.items()}
    tensors = {
        f"{part}/{name}": tensor for part, named in parts.items() for name, tensor in named.items()
    }
    types = {name: str(tensor.dtype).removeprefix("torch.") for name, tensor in tensors.items()}
    as_bits = [
        name for name, tensor in tensors.items() if name.startswith(EXACT) and _has_bits(tensor)
    ]
    tensors |= {
        name: tensors[name].detach().contiguous().view(BITS[tensors[name].element_size()])
        for name in as_bits
    }
    return Record(
        tensors,
        {"state": saved.state, "types": types, "bits": as_bits, "averages": [*saved.averages]},
    )


def _has_bits(tensor: Tensor) -> bool:
    return tensor.is_floating_point() and tensor.element_size() in BITS


def from_record(record: Record, path: Path) -> Checkpoint:
    """The checkpoint in a record, its tensors in the types they had.

    Raises: DataError if it is the record of something else.
    """
    if not {"state", "types", "bits", "averages"} <= record.values.keys():
        raise errors.DataError(
            f"{path}: no learner's state; load a file of weights with andiron.serialization.load_file(model, path)"
        )
    types = {name: getattr(torch, dtype) for name, dtype in record.values["types"].items()}
    as_bits = {*record.values["bits"]}
    tensors = {
        name: tensor.view(types[name]) if name in as_bits else tensor.to(types[name])
        for name, tensor in record.tensors.items()
    }

    def part(prefix: str) -> dict[str, Tensor]:
        return {
            name.removeprefix(prefix): tensor
            for name, tensor in tensors.items()
            if name.startswith(prefix)
        }

    averages = {name: part(f"averages/{name}/") for name in record.values["averages"]}
    return Checkpoint(
        part("model/"), part("optimizer/"), record.values["state"], averages, part("metrics/")
    )
