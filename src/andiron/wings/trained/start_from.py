"""Loads the weights of another run or library to start from.

The first and the last layer are refused if the record of the run that trained them, or the file
beside the weights, names other inputs or classes than the data have.
"""

import dataclasses
import itertools
import logging
import re
import shlex
from collections.abc import Collection, Mapping
from contextlib import nullcontext
from functools import partial
from pathlib import Path
from typing import Any

from torch import nn

from andiron import errors, serialization
from andiron.checkpoint import contents, directory
from andiron.checkpoint.on_disk import manifest
from andiron.disk import files
from andiron.optim.owners.match_rules import FIRST, LAST, described
from andiron.plain import wings
from andiron.plain.plain_values import Named, Plain
from andiron.plain.readable import joined
from andiron.run_folder import RunFolder
from andiron.serialization import matching
from andiron.shell.assembly import configured_store
from andiron.shell.assembly.network import SizeLimit
from andiron.shell.config import project, trust
from andiron.shell.config.quoting import quoted
from andiron.shell.config.schema import Train
from andiron.shell.run import lab_options, named_folder, run_record

SIDES = ("only the model has", "only the file has", "both have, in other shapes,")
MOST_NAMES = 24  # of inputs or classes in a message
log = logging.getLogger("andiron")
UNNAMED = re.compile(r"LABEL_\d+")  # what transformers calls classes without names
Names = Plain  # by the layer that follows them: `first` or `last`


def load(config: Train, shards: list[Path], model: nn.Module, facts: Named) -> Plain:
    """Loads the tensors of the files that fit `model` by name and shape; returns their record.

    A file may be any record, also in Burn's layout. Adapters of a run are merged into their layers.
    `facts` describe the data.
    Raises: ConfigError if nothing fits, names are left on both sides, integers or complex numbers
    stand for floats, weights are NaN or infinite, or inputs or classes have other names; DataError
    for a file that is damaged, or changed since a run or a checkpoint was written.
    """
    given, path = as_mapping(config), shards[0]
    _check_unchanged(path)
    record, checksums = serialization.read_weights(shards, serialization.most_numbers(model))
    limit = SizeLimit.of(record.tensors, path.name)
    adapted = _as_adapted(config, path)
    adapters = lab_options.adapters(adapted.param_groups)
    with adapters.merged(adapted, model, limit) if adapters else nullcontext():
        try:
            matched = serialization.load_record(
                model, record, path,
                partial=True,
                rename=given.get("rename"),
                exclude=given.get("except", ()),
                judge=partial(_judge, given, path, model, facts),
                remedy=lambda old, new: _line(given, "rename", {rf"\A{old}": new}),
            )  # fmt: skip
            _check_finite(given, shards, model, {*matched.fitting})
        except ValueError as error:
            raise errors.ConfigError(f"start_from={error}") from error
    fresh = dict.fromkeys(matched.missing, "is missing") | matched.unfit
    others = f"; newly initialised: {matching.shown(fresh)}" if fresh else ""
    if left := matched.unexpected:
        others += f"; {len(left)} of the file left out: {joined(left, matching.MOST_NAMES)}"
    log.info("weights from %s: %d tensors%s", path, len(matched.fitting), others)
    if matched.prefix != ("", ""):
        log.info("  names have %r in place of %r", *matched.prefix)
    return {
        "files": checksums, "prefix": [*matched.prefix], "loaded": [*matched.fitting],
        "left": [*matched.unexpected], "new": [*fresh], "except": [*matched.excluded],
    }  # fmt: skip


def _check_unchanged(path: Path) -> None:
    """Refuses a file that was changed since a run or a checkpoint was written; see `load`."""
    folder = RunFolder(path.parent)
    if folder.manifest.exists() and folder.config.exists():
        run_record.check(folder, path)
    elif contents.is_own(path.name) and (path.parent / contents.MANIFEST).exists():
        manifest.verified(path.parent)


def as_mapping(config: Train) -> Plain:
    """The option with its path alone, or as it is."""
    given = config.start_from or ""
    return {"path": given} if isinstance(given, str) else given


def _as_adapted(config: Train, weights: Path) -> Train:
    """The configuration with the adapters of the run that wrote the weights, or without any."""
    run = run_record.run_around(weights)
    own = {}
    if run and RunFolder(run).config.exists():
        own = run_record.read_json(RunFolder(run), RunFolder(run).config)
    return dataclasses.replace(config, param_groups=own.get("param_groups"))


def _check_finite(given: Plain, shards: list[Path], model: nn.Module, loaded: Any) -> None:
    """Refuses NaN or infinite weights and statistics; a mask in a buffer may be infinite."""
    weights = dict(model.named_parameters())
    wrong = [
        name
        for name, tensor in model.state_dict().items()
        if name in loaded and not tensor.isfinite().all()
        if name in weights or "running_" in name or tensor.isnan().any()
    ]
    for file in shards if wrong else ():
        if not serialization.is_finite(file):
            new = _line(given, "except", [rf"\A{re.escape(name)}\Z" for name in wrong])
            raise ValueError(
                f"{file}: NaN or infinite numbers in {joined(wrong)}; restore the file from a "
                f"copy, or start these new: {new}"
            )


def _judge(
    given: Plain,
    path: Path,
    model: nn.Module,
    facts: Named,
    differences: serialization.Differences,
) -> None:
    """Refuses weights of another model; see `load`."""
    if any(".lora_" in name for name in differences.unexpected):
        raise ValueError(
            f"{path}: holds adapters, whose rule stands in the config.json of their run; give the "
            f"folder of the run, or a file of: {wings.command('export RUN --format safetensors')}"
        )
    _check_names(given, path, _end_layers(model, differences.fitting), facts)
    kinds = {name: differences.unfit[name] for name in differences.other_kind}
    if kinds:
        own, remedy = model.state_dict(), ""
        if not any(own[name].is_floating_point() for name in kinds):  # counters, by v.half()
            ends = {rf"\b{re.escape(name.rpartition('.')[2])}\Z" for name in kinds}
            remedy = f", or start these new: {_line(given, 'except', sorted(ends))}"
        raise ValueError(f"{path}: {matching.shown(kinds)}; give a file of this model{remedy}")
    missing = [name for name in differences.missing if name not in differences.excluded]
    differing = [missing, differences.unexpected, [*differences.unfit]]
    is_whole = not any(differing) if "partial" in given else not all(differing[:2])
    if is_whole or given.get("partial"):
        return
    words = (
        f"{side} {len(names):,}: {joined(names, matching.MOST_NAMES)}"
        for side, names in zip(SIDES, differing, strict=True)
        if names
    )
    best, most = matching.best_prefixes(differences.unexpected, missing)
    old, new = best[0] if 2 * most > len(differences.unexpected) else ("", "")
    is_of_others = any(name.startswith(old) for name in differences.fitting)
    rename = {"OLD": "NEW"} if is_of_others else {rf"\A{old}": new}
    raise ValueError(
        f"{path}: {'; '.join(words)}; if they start new or are left out: "
        f"{_line(given, 'partial', True)}; if they have other names: "
        f"{_line(given, 'rename', rename)}"
    )


def _check_names(
    given: Plain, path: Path, layers: Mapping[str, set[str]], facts: Named
) -> None:
    """Refuses first and last layers that were trained for inputs or classes of other names."""
    theirs, ours = _names_beside(path), _names_of(facts)
    for end, names in layers.items():
        there, here = theirs.get(end), ours.get(end)
        if there and here and there != here and not given.get("other_names"):
            new = _line(given, "except", [f"{re.escape(name)}[.]" for name in names])
            raise ValueError(
                f"{path}: {joined(sorted(names))} was trained for {joined(there, MOST_NAMES)!r}, "
                f"and the data have {joined(here, MOST_NAMES)!r}; to start it new: {new}; to take "
                f"it as it is: {_line(given, 'other_names', True)}" + (
                    "; for the same tokens: data.vocabulary=<the text that it was trained on>"
                    if facts.get("vocabulary") else ""
                )
            )


def _line(given: Plain, name: str, value: object) -> str:
    """The option on the command line with one more, or more of one."""
    if isinstance(value, list):
        value = [*given.get(name, ()), *value]
    if isinstance(value, dict):  # names that were renamed, once more
        value = {**given.get(name, {}), **value}
    return shlex.quote(f"start_from={_written({**given, name: value})}")


def _written(value: Any) -> str:
    if isinstance(value, dict):
        return f"{{{', '.join(f'{key}: {_written(entry)}' for key, entry in value.items())}}}"
    if isinstance(value, list):
        return f"[{', '.join(map(_written, value))}]"
    return str(value).lower() if isinstance(value, bool) else quoted(value)


def weights_of(config: Train, trusted: trust.Trust | None = None) -> list[Path]:
    """The files that `start_from` names, checked as far as possible before there are data.

    The weights of a run's folder are the trained ones, or the newest checkpoint's in its store.
    That run may name what `trusted` allows, by default what the user's `config` names.
    Raises: ConfigError or DataError for a missing file or one of another format; ConfigError for a
    file of torch.save that a run's folder names, and `trusted` does not.
    """
    path = named_folder.absolute(as_mapping(config)["path"])
    folder = RunFolder(path)
    if folder.manifest.exists() or folder.checkpoints.exists():
        own = trust.of_user(project.config_dirs(), config.trust)
        allowed = trusted or own.with_config(dataclasses.asdict(config))
        files = [_weights_in(folder, allowed)]
    else:
        files = serialization.files_of_weights(path)
    shards, *others = map(serialization.shards_of, files)
    is_pickled = any(map(serialization.is_of_torch, itertools.chain(shards, *others)))
    if is_pickled and trusted is not None and str(path) not in trusted.packages:
        raise errors.ConfigError(
            f"start_from={path}: recorded in a run folder, and read by "
            "torch.load(weights_only=True); allow it for this file with "
            f"{trusted.spelling.format(path)}"
        )
    for other in files[1:]:
        serialization.check_same(files[0], other)
        log.info("%s: has the same weights as %s, and is not read", other, files[0])
    return shards


def _weights_in(folder: RunFolder, trusted: trust.Trust) -> Path:
    """The trained weights of a run, or else of its newest checkpoint."""
    if folder.model.exists():
        return folder.model
    node = run_record.config(folder, trusted).checkpoint if folder.config.exists() else None
    store = configured_store.store(node, folder.checkpoints, trusted)
    if not directory.names(store):
        return folder.model
    path, _ = directory.newest_whole(store, run_record.identity(folder))
    return serialization.files_of_weights(path)[0]


def _names_of(facts: Named) -> Names:
    """The names that the facts of a data set have."""
    encoded = facts.get("encoding", {}).get("columns", ())
    columns = ["=".join([column["column"], *column["categories"]]) for column in encoded]
    first = columns or facts.get("columns") or facts.get("vocabulary")
    return {FIRST: first, LAST: facts.get("class_names") or facts.get("target_columns")}


def _names_beside(weights: Path) -> Names:
    """The names in the record of the run that wrote a file, or in the config.json beside it."""
    try:
        if run := run_record.run_around(weights):
            return _names_of(run_record.read_json(RunFolder(run), RunFolder(run).data))
        settings = files.read_json(weights.with_name("config.json"))
        named = settings.get("id2label") or dict(enumerate(settings["label_names"]))  # timm's
        names = [named[number] for number in sorted(named, key=int)]
        return {} if all(map(UNNAMED.fullmatch, names)) else {LAST: names}
    except (OSError, ValueError, LookupError, TypeError, AttributeError):  # malformed
        return {}


def _end_layers(model: nn.Module, loaded: Collection[str]) -> dict[str, set[str]]:
    """The first and the last layer, if their weights are `loaded`, by all names that they have."""
    kept: dict[str, set[str]] = {}
    for layer in described(model):
        if layer.tensor.dim() > 1 and not {*layer.names}.isdisjoint(loaded):
            names = {name.rpartition(".")[0].partition(".base_layer")[0] for name in layer.names}
            for end in layer.tags:
                kept[end] = kept.get(end, names) | names
    return kept
