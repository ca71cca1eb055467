"""A learner's whole state as one record, in any format and precision that a recorder writes."""

from pathlib import Path

import torch
from torch import Tensor

from andiron import errors, serialization
from andiron.checkpoint import Checkpoint
from andiron.serialization import Record

EXACT = ("optimizer/", "metrics/")  # parts of the record that no precision may round
NUMBERS_OF_STATE = 16  # for each weight: the optimizer's, and those of open windows of metrics
BITS = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}  # by bytes of an element


def as_record(saved: Checkpoint) -> Record:
    """A checkpoint as one record with each tensor's dtype, which a recorder may change.

    Tensors other than weights are stored as the integers of the same bits, which every recorder
    keeps: in half precision the second moments of Adam would become zeros, and its next step divide
    by them.
    """
    named = {"model": saved.model, "optimizer": saved.optimizer, "metrics": saved.metrics}
    named |= {f"averages/{name}": average for name, average in saved.averages.items()}
    tensors = {f"{part}/{name}": t for part, group in named.items() for name, t in group.items()}
    types = {name: str(tensor.dtype).removeprefix("torch.") for name, tensor in tensors.items()}
    exact = {name: t for name, t in tensors.items() if name.startswith(EXACT)}
    as_bits = [name for name, tensor in exact.items() if tensor.is_floating_point()]
    for name in as_bits:
        tensor = tensors[name].detach().contiguous()
        tensors[name] = tensor.view(BITS[tensor.element_size()])
    values = {"state": saved.state, "types": types, "bits": as_bits, "averages": [*saved.averages]}
    return Record(tensors, values)


def read_record(path: Path, num_weights: int) -> Checkpoint:
    """The checkpoint in a file of a record, of so many weights, its tensors in the dtypes they had.

    Raises: DataError if the record is damaged or larger, or holds something else.
    """
    record = serialization.load(path, most_numbers=NUMBERS_OF_STATE * num_weights)
    if not {"state", "types", "bits", "averages"} <= record.values.keys():
        remedy = "load a file of weights with andiron.serialization.load_file(model, path)"
        raise errors.DataError(f"{path}: no learner's state; {remedy}")
    types = {name: getattr(torch, dtype) for name, dtype in record.values["types"].items()}
    as_bits = {*record.values["bits"]}
    tensors = {
        name: tensor.view(types[name]) if name in as_bits else tensor.to(types[name])
        for name, tensor in record.tensors.items()
    }

    def part(prefix: str) -> dict[str, Tensor]:
        names = [name for name in tensors if name.startswith(prefix)]
        return {name.removeprefix(prefix): tensors[name] for name in names}

    averages = {name: part(f"averages/{name}/") for name in record.values["averages"]}
    state = record.values["state"]
    return Checkpoint(part("model/"), part("optimizer/"), state, averages, part("metrics/"))
