"""The lineage of runs: which was forked from, repeats, or starts from the weights of which."""

import os
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import Any

from andiron import errors
from andiron.plain.plain_values import as_text
from andiron.plain.readable import printable_line
from andiron.run_folder import RunFolder
from andiron.shell.config.leaves import leaves
from andiron.shell.run import resume_policy, run_record
from andiron.wings.runs.run_reader import RunReader

Row = dict[str, Any]
KINDS = {
    "copied_from": "copied from", "rerun": "repeats it", "fork_from": "forked from",
    "start_from": "starts from its weights",
}  # fmt: skip
ORIGIN = {"git.revision": ("git", "revision"), "data.sha256": ("data", "sha256")}


def rows(runs: Iterable[RunReader]) -> list[Row]:
    """A plain row for each run: the options that resumes changed, and its `parent` or None.

    The changes of a parent are what differs in options, commit and data; those on record, if it
    is not there.
    """
    return [
        {
            "path": os.path.realpath(run.path),
            "status": run.facts["status"],
            "resumed": len(resumes) if isinstance(resumes, list) else 0,
            "resumes": resume_policy.texts(resumes),
            "parent": _parent(run),
        }
        for run in runs
        for resumes in [run.provenance.get("resumes")]
    ]


def as_text_of(family: Iterable[Row]) -> str:
    """The runs as a tree, each below its parent, with what changed."""
    listed = {row["path"]: row for row in family}
    parents = {path: row["parent"] for path, row in listed.items() if row["parent"]}
    outside = {parent["path"]: parent["is_there"] for parent in parents.values()}
    chains = []
    for path in listed | outside:
        chain = {path: None}
        while (parent := parents.get(path)) and (path := parent["path"]) not in chain:
            chain[path] = None  # a record may name its own fork as the parent
        chains.append([*chain][::-1])
    lines = []
    for *above, path in sorted(chains):
        row, parent = listed.get(path, {}), parents.get(path, {})
        status = row.get("status") or ("not in these folders" if outside[path] else "missing")
        resumed = f"resumed {row['resumed']} times" if row.get("resumed") else ""
        changes = (f"{name} {values}" for name, values in row.get("resumes", {}).items())
        words = [path, status, resumed, *changes, parent.get("kind"), parent.get("checkpoint")]
        for name, pair in parent.get("changes", {}).items():
            texts = map(as_text, pair if isinstance(pair, list) else [pair])
            words.append(f"{name} {' -> '.join(texts)}")
        lines.append("  " * len(above) + printable_line("  ".join(map(str, filter(None, words)))))
    return "\n".join(lines)


def _parent(run: RunReader) -> Row | None:
    start = run.options.get("start_from", run.options.get("start_from.path"))
    origin = {**run.provenance, "start_from": {"path": start}}
    for kind in KINDS:
        match record := origin.get(kind, {}):
            case {"path": str(path)} if isinstance(record.get("changes", {}), dict):
                break
    else:
        return None
    is_file = kind == "start_from" and os.path.exists(path)  # of a library, unless it is a run's
    own: Row = {"kind": KINDS[kind], "path": path, "is_there": is_file}
    parent: Row = {"changes": {}, **record, **own}
    with suppress(errors.DataError, ValueError):
        folder = RunFolder(run_record.enclosing_run(Path(path)) or Path(path))
        identity = run_record.identity(folder)
        if record.get("run", identity) == identity:
            then, now = map(_facts, (RunReader(folder), run))
            names = (then | now).keys() - {"fork_from"}
            pairs = {name: [then.get(name), now.get(name)] for name in sorted(names)}
            changes = {name: pair for name, pair in pairs.items() if pair[0] != pair[1]}
            parent |= {"path": str(folder.path), "is_there": True, "changes": changes}
    return parent


def _facts(run: RunReader) -> Row:
    flat = dict(leaves(run.provenance))
    return {**run.options, **{name: flat.get(path) for name, path in ORIGIN.items()}}
