"""The differences between the record of a run from Python and the learner that resumes it.

Options and the arguments of recorded components are compared one by one. Of a component that is
described only, the class and the repr are.
"""

import dataclasses
import re
from collections.abc import Mapping, Sequence
from typing import Any

from andiron.options import LearnerOptions
from andiron.shell.config import former_options, leaves
from andiron.shell.config.leaves import MISSING
from andiron.shell.config.schema import FROM_PYTHON
from andiron.shell.python_run import python_record
from andiron.shell.python_run.python_record import Built
from andiron.shell.run import provenance, run_record

ADDRESS = re.compile(r" at 0x[0-9a-f]+")  # in the repr of an object
LATE = ("batch_size", "seed", "augmentation", "lr")  # known with the loader, or of some schedules


def changes(built: Built, train: object) -> leaves.Differences:
    """The options and components that differ from the record, as far as both can be compared.

    Without `train`, the loader of the training data, its options are left out.
    Raises: DataError if the run was trained on other data, as far as both are known.
    """
    folder, data = built.chosen.folder, built.chosen.data
    if data is not None and provenance.read(folder)["data"]["sha256"] is not None:
        provenance.check_data(folder, data, {})
    before = former_options.current(run_record.read_json(folder, folder.config))
    now = python_record.config_of(built, train)
    was, is_now = _compared(before), _compared(now)
    missing = [{*plain[FROM_PYTHON]["not_recorded"]} for plain in (before, now)]
    half_known = missing[0] ^ missing[1] | {"data"} & (missing[0] | missing[1])
    return {
        path: sides
        for path, sides in leaves.flat_differences(was, is_now).items()
        if _is_comparable(path, sides, half_known)
    }


def _compared(plain: Mapping[str, Any]) -> dict[leaves.Path, Any]:
    """The values on record by path; of a component that is described only, its class and repr."""
    entry = plain[FROM_PYTHON]
    known = {name: plain[name] for name in plain if name != FROM_PYTHON}
    known["optimizer"] = plain.get("optimizer", entry["optimizers"])
    flat = dict(leaves.leaves(dataclasses.asdict(LearnerOptions()) | known))
    flat |= dict(leaves.leaves(entry.get("loader", {})))
    flat |= {("lr", *path): rate for path, rate in leaves.leaves(entry.get("rates", {}))}
    for option, component in entry["not_recorded"].items():
        described = {"_target_": component["class"], "repr": component.get("repr", "")}
        flat |= {(*option.split("."), name): text for name, text in described.items()}
    return {path: _without_place(path, value) for path, value in flat.items()}


def _without_place(path: leaves.Path, value: Any) -> Any:
    """The value without the module of a class, which may move, or an address in memory."""
    if path[-1] == "_target_":
        return str(value).rpartition(".")[2]
    return ADDRESS.sub("", value) if path[-1] == "repr" else value


def _is_comparable(path: leaves.Path, sides: Sequence[object], half_known: set[str]) -> bool:
    """Whether both records can have the value; of a `half_known` component only the class."""
    options = (".".join(path[:length]) for length in range(1, len(path)))
    if not half_known.isdisjoint(options):
        is_class = path[-1] == "_target_" and ".".join(path[:-1]) in half_known
        return is_class and path[0] != "data"
    return MISSING not in sides or not (path[0] in LATE or sides[1] is False)
