"""Which classes a run folder may name: the folder is untrusted data.

The user's command line and `conf/` are trusted. A `_target_` that only the folder's record names is
built if it is on the list below, or in a package that `trust=[package]` names.

>>> Trust().allows("model", "torch.nn.Linear"), Trust().allows("scheduler", "torch.nn.Linear")
(True, False)
>>> Trust(packages=("mine",)).allows("model", "mine.networks.Net")
True
"""

import importlib.util
import itertools
import re
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import yaml

from andiron import errors
from andiron.plain import readable
from andiron.ranges import DOTTED_NAME
from andiron.shell.config.signatures import class_constant

CLASS, FUNCTION = r"[A-Z]\w*", r"[a-z]\w*"
TRANSFORMATIONS = ("centralise", "clip_global_norm", "clip_norm", "clip_value", "noise")
# allowed names by place and module; a pattern for other libraries, whose objects the build checks
# again (`andiron.shell.assembly.target_kinds`)
LISTED: dict[str, dict[str, str | Sequence[str]]] = {
    "data": {
        "andiron.data": (
            "balanced", "cifar10", "cifar100", "csv", "diabetes", "digit_pairs", "digits",
            "fashion_mnist", "image_folder", "kfold", "mnist", "partial", "safetensors",
            "synthetic", "text", "torch_dataset",
        ),
        "torchvision.transforms.v2": CLASS,
    },
    "augmentation": {
        "andiron.data": ("Crop", "Cutout", "Flip", "Mixup", "OnFields", "Rotate", "Shift",
                         "Torchvision"),
        "torchvision.transforms.v2": CLASS,
    },
    "task": {
        "andiron.tasks": (
            "Adversarial", "BinaryClassifier", "Classifier", "Forward", "LanguageModel",
            "MultiLabelClassifier", "Regressor",
        ),
    },
    "loss": {
        "andiron.tasks": ("BinaryCrossEntropy", "CrossEntropy", "MeanSquaredError"),
        "torch.nn": CLASS,
        "torch.nn.functional": FUNCTION,
    },
    "model": {
        "andiron.models": f"{CLASS}|torchvision|timm|hf",
        "torch.nn": CLASS,
        "torch.nn.functional": FUNCTION,
        "torchvision.models": FUNCTION,
    },
    "metrics": {
        "andiron.metrics": CLASS,
        "andiron.tasks.adversarial": ("discriminator_loss", "judged_generated", "judged_real"),
        "torch.nn.functional": FUNCTION,
    },
    "optimizer": {"andiron.optim": ("Adan", "Lamb"), "torch.optim": CLASS},
    "scheduler": {"andiron.schedules": CLASS, "torch.optim.lr_scheduler": CLASS},
    "param_groups": {"andiron.optim": ("layerwise",)},
    "gradients": {
        "andiron.optim": TRANSFORMATIONS,
        "andiron.optim.transformations": TRANSFORMATIONS,
    },
    "averages": {"andiron.optim": ("Ema", "Swa")},
    "early_stopping": {"andiron.learner": ("EarlyStopping",)},
    "observers": {},  # only classes of the user's own
    "checkpoint": {
        "andiron.checkpoint": (
            "AnyOf", "KeepBest", "KeepEvery", "KeepLast", "checkpointing", "last_and_best",
        ),
    },
    "writers": {"andiron.writers": CLASS},  # with `sends_data = False`
    "render": {"andiron.render": ("Dashboard", "Live", "Plain", "auto")},
}  # fmt: skip
OURS = ("andiron.", "torch.", "torchvision.")  # restricted to the list, also for names in `conf/`
KNOWN_PACKAGES = {"andiron", "torch", "torchvision", *sys.stdlib_module_names}  # not the user's own
NAMED = re.compile(r":\s*[\"']?([^\W\d]\w*(?:\.[^\W\d]\w*)+)")  # a dotted name as a value in YAML
Option = tuple[str, str, Any]  # an option's name, its place, and its node or value


@dataclass(frozen=True)
class Trust:
    """Names allowed besides the list: from trusted packages, or given by the user."""

    packages: tuple[str, ...] = ()
    said: frozenset[tuple[str, str]] = frozenset()  # place and target
    spelling: str = "trust=[{}]"  # of the option that trusts packages, in messages
    builds_writers: bool = True  # else one that sends data may be named

    def allows(self, place: str, name: str) -> bool:
        """Whether a record may name the callable of this dotted name at this place."""
        if DOTTED_NAME.fullmatch(name) is None:  # an interpolation, a path
            return False
        matches = (name == package or name.startswith(f"{package}.") for package in self.packages)
        is_unbuilt = place == "writers" and not self.builds_writers
        return (
            (place, name) in self.said
            or any(matches)
            or _is_listed(place, name)
            or (is_unbuilt and class_constant(name, "sends_data") is True)
        )

    def trusting(self, packages: Iterable[str]) -> str:
        """The option that trusts these packages."""
        between = {"[": ",", "'": "', '"}.get(self.spelling.partition("{}")[0][-1:], " ")
        return self.spelling.replace("{}", between.join(packages))

    def with_config(self, plain: Mapping[str, Any]) -> "Trust":
        """This trust, extended by every name in a configuration that the user composed."""
        return replace(self, said=self.said | {*names(plain)})

    def check(self, plain: Mapping[str, Any]) -> None:
        """Refuses a recorded configuration that names what is not allowed; imports nothing.

        Raises: ConfigError with every such name, and texts that may name functions of the user's,
        and the option that trusts their packages.
        """
        refused = [
            (f"{option}._target_", place, node["_target_"])
            for option, place, node in nodes(plain)
            if not isinstance(node["_target_"], str) or not self.allows(place, node["_target_"])
        ]
        if refused:
            raise refusal([*refused, *self._own_functions(plain)], self)

    def _own_functions(self, plain: Mapping[str, Any]) -> Iterator[Option]:
        for option, place, node in nodes(plain):
            for key, value in node.items():
                is_name = key != "_target_" and isinstance(value, str) and bool(_package(value))
                if is_name and not self.allows(place, value):
                    if importlib.util.find_spec(_package(value)):  # which imports nothing
                        yield f"{option}.{key}", place, value


LIST_ALONE = Trust()


def refusal(refused: Iterable[Option], trusted: Trust) -> errors.ConfigError:
    """The error for names in a record that are not allowed, a line for each remedy."""
    named: dict[str, list[str]] = {}  # by the option to give, empty for packages to trust
    packages = dict[str, str]()
    for option, _, name in refused:
        package = _package(str(name))
        packages |= {package: ""} if package else {}
        by = "" if package else option.partition(".")[0]
        named.setdefault(by, []).append(f"{option}={name!r}")
    what = "these packages" if len(packages) > 1 else "that package"
    trusts = f"{trusted.trusting(packages)} trusts {what}, as naming the class in conf/ does"
    return errors.ConfigError(
        f"{readable.joined(names, readable.MOST_LISTED)}: recorded in a run folder, from which "
        "only listed classes are built; "
        f"{f'to allow it, give {option}=... and its options here' if option else trusts}"
        for option, names in named.items()
    )


def _package(name: str) -> str:
    """The package of a name, if the user may trust it."""
    package = name.partition(".")[0]
    return "" if package in KNOWN_PACKAGES or not DOTTED_NAME.fullmatch(name) else package


def of_user(
    conf_dirs: Sequence[Path], packages: Iterable[str] = (), arguments: Iterable[str] = ()
) -> Trust:
    """The trust of the user: `packages`, and the targets that the user names.

    These are the targets of other libraries in `conf/`, whose train.yaml may list packages too, and
    all targets that the `arguments` choose.
    """
    trusted = list(packages)
    said = {pair for argument in arguments for pair in _names_in_override(argument, conf_dirs)}
    for folder in conf_dirs:
        for path in folder.rglob("*.yaml"):
            text = path.read_text(encoding="utf-8", errors="replace")
            if path == folder / "train.yaml":
                listed = mapping_in(text).get("trust")
                trusted += map(str, listed if isinstance(listed, list) else ())
            if any(not name.startswith(OURS) for name in NAMED.findall(text)):
                pairs = _names_in_file(path, text, folder)
                said |= {pair for pair in pairs if not pair[1].startswith(OURS)}
    return Trust(tuple(dict.fromkeys(trusted)), frozenset(said))


def nodes(plain: Mapping[str, Any]) -> Iterator[Option]:
    """Every node of a configuration with its option and its place."""
    for option, place, value in _placed(plain):
        for inner, node in _inside(value, option):
            if isinstance(node, Mapping) and "_target_" in node:
                yield inner, place, node


def _placed(plain: Mapping[str, Any]) -> Iterator[Option]:
    """Every option with its place and its value; the settings of a group each have their own."""
    for name, value in plain.items():
        if name == "variables":  # never built: what interpolates one has its value
            continue
        if name != "param_groups":
            yield name, name, value
            continue
        for group, options in (value if isinstance(value, dict) else {}).items():
            if isinstance(options, dict) and "_target_" not in options:
                for key, inner in options.items():
                    yield f"{name}.{group}.{key}", _place_of_setting(key), inner
            else:
                yield f"{name}.{group}", name, options


def misplacement(place: str, name: str) -> str | None:
    """Why one of Andiron's own classes or functions does not belong at a place."""
    places = [each for each in LISTED if _is_listed(each, name)]
    if not name.startswith("andiron.") or not places or place in places:
        return None
    modules = sorted(LISTED.get(place, {}), key=lambda module: not module.startswith("andiron."))
    there = f"what is in {' or '.join(modules[:2])}" if modules else "something else"
    return f"is for {' or '.join(places)}; {place} takes {there}, or a class of your own"


def _place_of_setting(setting: str) -> str:
    return {"schedule": "scheduler"}.get(setting, setting if setting in LISTED else "param_groups")


def _inside(value: Any, option: str) -> Iterator[tuple[str, Any]]:
    """A value and all inside it, with their options."""
    yield option, value
    pairs = enumerate(value) if isinstance(value, list) else ()
    for key, inner in value.items() if isinstance(value, Mapping) else pairs:
        yield from _inside(inner, f"{option}.{key}")


def names(plain: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Every text that may name a class or a function, with its place: of a node, or of a part."""
    for option, place, value in _placed(plain):
        for _, text in _inside(value, option):
            if isinstance(text, str) and DOTTED_NAME.fullmatch(text):
                yield place, text


def _is_listed(place: str, name: str) -> bool:
    module, _, last = name.rpartition(".")
    names = LISTED.get(place, {}).get(module, ())
    is_named = re.fullmatch(names, last, re.ASCII) if isinstance(names, str) else last in names
    # the source of a class is read last: those of torch take longer to parse than all other checks
    return bool(is_named) and (place != "writers" or class_constant(name, "sends_data") is False)


def _names_in_file(path: Path, text: str, folder: Path) -> Iterator[tuple[str, str]]:
    group = path.relative_to(folder).parts[0]
    content = mapping_in(text)
    placed = {group: content} if group in LISTED and "@package _global_" not in text else content
    yield from names(placed)


def _names_in_override(argument: str, conf_dirs: Sequence[Path]) -> Iterator[tuple[str, str]]:
    """The names in an override: `writers=[tensorboard,wandb]`, or `model._target_=mine.Net`."""
    option, _, value = argument.lstrip("+").partition("=")
    group = option.partition("@")[0].partition(".")[0]
    yield from names(mapping_in(f"{group}: {value}"))
    if group in LISTED:
        for choice, folder in itertools.product(re.findall(r"[\w-]+", value), conf_dirs):
            path = folder / group / f"{choice}.yaml"
            if path.is_file():
                yield from _names_in_file(path, path.read_text(encoding="utf-8"), folder)


def mapping_in(text: str) -> dict[str, Any]:
    """The content of a YAML file; {} for a file that is invalid: Hydra reports it."""
    try:
        content = yaml.safe_load(text)
    except yaml.YAMLError:
        content = None
    return content if isinstance(content, dict) else {}
