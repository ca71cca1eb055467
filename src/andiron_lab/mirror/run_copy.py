"""The copy of a run's checkpoints at an address, brought up to date with the run's folder."""

import json
import os
import secrets
import shutil
from contextlib import suppress
from pathlib import Path
from typing import Any

from andiron import errors
from andiron.checkpoint import contents, directory
from andiron.checkpoint.on_disk import manifest
from andiron.disk import checksums, files
from andiron.run_folder import RunFolder
from andiron.shell.config import quoting
from andiron.shell.run import run_record
from andiron_lab.mirror.record_copy import record_files
from andiron_lab.mirror.remote_run import RECORD, RemoteRun, by_age

Listed = dict[str, Any]  # the content of a checkpoint's manifest


class RefusedError(Exception):
    """The address cannot have the checkpoints of this run, however often it is tried."""


class RunCopy:
    """The copy of the run in `folder`; the methods raise what the library raises.

    `option` names the address in messages.
    """

    def __init__(self, folder: RunFolder, remote: RemoteRun, option: str):
        self._folder, self._remote, self._option = folder, remote, option
        self._session = secrets.token_hex(8)  # of two processes with one run the later one uploads
        self._owns = False  # mirror.json names this session
        self._there: dict[str, Listed] | None = None  # whole checkpoints; None: not known yet
        self._begun: set[str] = set()  # uploads of this session that failed

    @property
    def newest(self) -> str | None:
        """The newest whole checkpoint there."""
        return next(reversed(by_age(self._there or {})), None)

    def missing(self) -> list[str]:
        """The checkpoints of the folder that are not there, oldest first."""
        there = self._there or {}
        with suppress(errors.DataError):  # a folder that cannot be read now
            return [name for name in directory.names(self._folder.checkpoints) if name not in there]
        return []

    def update(self) -> None:
        """Uploads the newest checkpoint that is not there; removes there what is gone here.

        Raises: RefusedError if the address has another run, or this one farther than here.
        """
        if self._there is None:
            self._there = self._compared()
        here = directory.names(self._folder.checkpoints)
        for name in self.missing()[-1:]:
            held = _hold(self._folder.checkpoints / name)
            if held is None:
                return
            try:
                self._upload(name, held)
            finally:
                files.remove_partial(held, [file.name for file in held.iterdir()])
        for name in by_age({*self._there} - {*here}):
            # until the newest is there, only what the run was turned back from
            if here and (here[-1] in self._there or by_age([name, here[-1]])[-1] == name):
                self._check_session()
                self._remote.remove(name)
                self._there = {step: self._there[step] for step in self._there if step != name}

    def _compared(self) -> dict[str, Listed]:
        """The whole checkpoints there; those without a manifest are removed."""
        run, owner = run_record.identity(self._folder), self._remote.owner()
        there = {name: self._remote.manifest(name) for name in self._remote.steps()}
        whole = {name: listed for name in there if (listed := _listed(there[name]))}
        runs = {owner.get("run"), *(listed.get("run") for listed in whole.values())}
        _refuse_others(runs - {run, None}, self._option)
        here = directory.names(self._folder.checkpoints)
        newest = next(reversed(by_age(whole)), None)
        if newest is not None and not self._continues(newest, whole[newest], here):
            resume = quoting.typed("resume", str(self._remote))
            raise RefusedError(
                f"has {newest} of this run, which the newest checkpoint here "
                f"({here[-1] if here else 'none'}) does not continue; {resume} trains on from "
                f"there, and another {self._option} leaves it alone"
            )
        if owner or whole:
            self._own()
        for name in there:
            if there[name] is None:  # a damaged one may be a fault of the connection
                self._remote.remove(name)
        return whole

    def _continues(self, newest: str, listed: Listed, here: list[str]) -> bool:
        """Whether the newest checkpoint here is the newest there, or a later one."""
        if not here or by_age([newest, here[-1]])[-1] != here[-1]:
            return False
        own = self._folder.checkpoints / newest / contents.MANIFEST
        return newest not in here or _listed(files.read_bytes(own)) == listed

    def _own(self) -> None:
        """Names this session in mirror.json.

        Raises: RefusedError if another run is there; FileExistsError if one came meanwhile;
        DataError if the store keeps a part of it.
        """
        run, owner = run_record.identity(self._folder), self._remote.owner()
        _refuse_others({owner.get("run")} - {run, None}, self._option)
        self._remote.claim({"run": run, "session": self._session}, replaces=bool(owner))
        if self._remote.owner().get("session") != self._session:
            raise errors.DataError("mirror.json is not there as it was written")
        self._owns = True

    def _check_session(self) -> None:
        """Raises: RefusedError if a later process mirrors this run, or another run is there."""
        if not self._owns:
            self._own()
        elif self._remote.owner().get("session") != self._session:
            raise RefusedError("another process mirrors there now, or mirror.json was removed")

    def _upload(self, name: str, held: Path) -> None:
        """Uploads the record of the run, the files of a checkpoint, and last its manifest."""
        self._check_session()
        for begun in self._begun - {name}:
            self._remote.remove(begun)
        self._begun = {name}
        record, log = record_files(self._folder), self._folder.metrics
        content = (held / contents.MANIFEST).read_bytes()
        listed = _listed(content)
        sizes = {f"{RECORD}/{file}": len(text) for file, text in record.items()}
        for file, text in record.items():
            self._remote.write(text, f"{name}/{RECORD}/{file}")
        if log.is_file():  # it grows
            sizes[f"{RECORD}/{log.name}"] = log.stat().st_size
            self._remote.upload(log, f"{name}/{RECORD}/{log.name}")
        for file, entry in listed["files"].items():
            self._place(name, file, entry, held)
            sizes[file] = entry["bytes"]
        there = self._remote.sizes(name)
        if short := [file for file, size in sizes.items() if there.get(file, -1) < size]:
            size = f"{there.get(short[0], 0):,} bytes there, not {sizes[short[0]]:,}"
            raise errors.DataError(f"{name}/{short[0]} has {size}")
        self._check_session()
        self._remote.publish(name, content)
        self._begun = set()
        self._there = {**(self._there or {}), name: listed}

    def _place(self, step: str, file: str, entry: checksums.Entry, held: Path) -> None:
        """Uploads a file, or copies it there from a checkpoint that has it, as frozen weights."""
        for name, listed in (self._there or {}).items():
            if listed["files"].get(file) == entry:
                with suppress(NotImplementedError, FileNotFoundError):
                    self._remote.copy(f"{name}/{file}", f"{step}/{file}")
                    return
        self._remote.upload(held / file, f"{step}/{file}")


def _refuse_others(runs: set[Any], option: str) -> None:
    """Raises: RefusedError if there are such runs."""
    if runs:
        raise RefusedError(
            f"has the checkpoints of another run, {', '.join(map(str, runs))}; give this one an "
            f"address of its own: {option}=..., or {option}=null"
        )


def _hold(checkpoint: Path) -> Path | None:
    """A folder with hard links to the files of a checkpoint, or copies; None if it was pruned.

    It has the name of a half-written checkpoint, which the next session removes after a kill.
    """
    held = checkpoint.with_name(f".{checkpoint.name}.{secrets.token_hex(4)}.partial")
    held.mkdir()
    try:
        for name in (*manifest.read(checkpoint).entries, contents.MANIFEST):
            try:
                os.link(checkpoint / name, held / name)
            except OSError:  # a file system without links, or there is no such file
                shutil.copyfile(checkpoint / name, held / name)
    except (errors.DataError, OSError) as error:
        files.remove_partial(held, [file.name for file in held.iterdir()])
        if isinstance(error, errors.DataError | FileNotFoundError):
            return None
        raise
    return held


def _listed(content: bytes | None) -> Listed:
    """The content of a checkpoint's manifest; empty for none, or a half-written one."""
    with suppress(ValueError, LookupError, TypeError):
        plain: Listed = json.loads(content or b"")
        if plain["sha256"] == checksums.own(plain):
            return plain
    return {}
