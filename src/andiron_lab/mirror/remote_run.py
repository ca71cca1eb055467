"""The address of a mirror, and the checkpoints of one run there, each with the record of its run.

    ADDRESS/mirror.json        the identity of the run, and of the process that mirrors it
    ADDRESS/step-40/           the files of a checkpoint; manifest.json comes last: it is whole then
    ADDRESS/step-40/record/    the record of the run as of then
"""

import json
import logging
import random
import re
import sys
from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import fsspec

from andiron import errors
from andiron.checkpoint import contents
from andiron.disk import files
from andiron.shell.config import quoting

OWNER = "mirror.json"
RECORD = "record"  # folder of a run's record, in that of a checkpoint
ADDRESS = re.compile(r"[a-z][a-z0-9+.-]*://.+")
# a password, and a query, which may be a token
SECRET = re.compile(r"(?<=//)[^/?]*:[^/?]*@|\?.*")
USER = re.compile(r"(?<=//)[^/\s]*@|\?\S*")
DRAWING = {  # libraries of fsspec's protocols, and what they stand on
    "adlfs", "aiobotocore", "aiohttp", "azure", "botocore", "fsspec", "gcsfs", "google", "ossfs",
    "paramiko", "requests", "s3fs", "urllib3", "webdav4",
}  # fmt: skip
READS = 3  # of a file that is damaged as it comes
log = logging.getLogger("andiron")
DAMAGED = re.compile("Checksum|Consistency")  # errors of botocore and gcsfs
MOST_ADDRESS_FILE = 2**20  # bytes of mirror.json and of a manifest
CREDENTIALS = (
    "records and messages would show it; leave it out, and give it as the library of that "
    "protocol reads it, such as AWS_SECRET_ACCESS_KEY or FSSPEC_SFTP_PASSWORD in the environment"
)


class RemoteRun:
    """The checkpoints of a run at an fsspec address; its methods raise what the library raises."""

    def __init__(self, address: str, option: str):
        """`option` names the address in messages.

        Raises: ConfigError for an address that fsspec cannot open, or one with credentials.
        """
        check(option, address)
        self._shown = without_user(address)
        if not ADDRESS.fullmatch(address):
            example = "give one with its protocol, such as s3://bucket/mine or file:///mnt/mine"
            raise errors.ConfigError(f"{option}={self._shown}: is not an address; {example}")
        before = random.getstate()
        try:
            # a cached listing would miss what another process writes
            self._files, root = fsspec.core.url_to_fs(address, use_listings_cache=False)
        except (ImportError, ValueError, TypeError, OSError) as error:
            remedy = "; for s3: pip install 'andiron[s3]'" if isinstance(error, ImportError) else ""
            why = f"{option}={self._shown}: {without_user(errors.reason(error))}{remedy}"
            raise errors.ConfigError(why) from error
        finally:
            random.setstate(before)  # imports may draw
        _give_own_random()
        if self._files.async_impl:  # a lost connection leaves tasks that failed, each a traceback
            self._files.loop.set_exception_handler(
                lambda _, failure: log.debug("%s: %s", self, without_user(failure["message"]))
            )
        self._root = str(root).rstrip("/")

    def __str__(self) -> str:
        return self._shown

    def owner(self) -> dict[str, Any]:
        """The content of mirror.json; empty if there is none, or a damaged one."""
        plain = json.loads(self._content(OWNER) or b"{}")
        return plain if isinstance(plain, dict) else {}

    def claim(self, owner: dict[str, str], *, replaces: bool) -> None:
        """Writes mirror.json; unless it `replaces` one, only where none is.

        Raises: FileExistsError if another process has claimed the address meanwhile.
        """
        if replaces:
            self.write(files.as_json(owner), OWNER)
            return
        if self._content(OWNER) is not None:  # half-written
            self._files.rm_file(self._at(OWNER))
        self._create(OWNER, files.as_json(owner))

    def steps(self) -> list[str]:
        """The names of all checkpoints, whole or begun, oldest first."""
        try:
            paths = self._files.find(self._root)
        except FileNotFoundError:
            return []
        return by_age({path.removeprefix(f"{self._root}/").split("/")[0] for path in paths})

    def manifest(self, step: str) -> bytes | None:
        """The content of a checkpoint's manifest, b"" for a damaged one; None if it has none."""
        return self._content(f"{step}/{contents.MANIFEST}")

    def sizes(self, folder: str) -> dict[str, int]:
        """The bytes of each file in a folder, by its name below that."""
        place = self._at(folder)
        listed = self._files.find(place, detail=True)
        return {path.removeprefix(f"{place}/"): entry["size"] for path, entry in listed.items()}

    def upload(self, file: Path, name: str) -> None:
        """Copies a local file there."""
        self._in_folder(name, lambda: self._files.put_file(str(file), self._at(name)))

    def write(self, content: bytes, name: str) -> None:
        """Writes a file there."""
        self._in_folder(name, lambda: self._files.pipe_file(self._at(name), content))

    def copy(self, name: str, new_name: str) -> None:
        """Copies a file there, within an object store without a transfer."""
        self._in_folder(
            new_name, lambda: self._files.cp_file(self._at(name), self._at(new_name))
        )

    def download(self, name: str, file: Path) -> None:
        """Copies a file from there to a local one, whose folder is made."""
        file.parent.mkdir(parents=True, exist_ok=True)
        self._files.get_file(self._at(name), str(file))

    def publish(self, step: str, manifest: bytes) -> None:
        """Makes a checkpoint whole; one that is whole already, with this manifest, stays.

        Raises: FileExistsError if it has another manifest; DataError if the store keeps a part.
        """
        name = f"{step}/{contents.MANIFEST}"
        try:
            self._create(name, manifest)
        except FileExistsError:
            if self.manifest(step) not in (manifest, b""):
                raise
        if self.manifest(step) != manifest:  # a store that does not check what it gets
            self.write(manifest, name)
            if self.manifest(step) != manifest:
                raise errors.DataError(f"{name} is not there as it was written")

    def remove(self, step: str) -> None:
        """Removes a checkpoint, its manifest first."""
        with suppress(FileNotFoundError):
            self._files.rm_file(self._at(f"{step}/{contents.MANIFEST}"))
        with suppress(FileNotFoundError):
            self._files.rm(self._at(step), recursive=True)

    def _at(self, name: str) -> str:
        return f"{self._root}/{name}"

    def _content(self, name: str) -> bytes | None:
        """The content of a small JSON file, b"" for a damaged one; None if there is none.

        A part of it may be a fault of the connection, so it is read again.
        """
        for _ in range(READS):
            try:
                most = MOST_ADDRESS_FILE
                content: bytes = self._files.cat_file(self._at(name), start=0, end=most)
                json.loads(content)
            except FileNotFoundError:
                return None
            except (ValueError, RecursionError):
                continue
            except Exception as error:
                if not DAMAGED.search(type(error).__name__):
                    raise
                continue
            return content
        return b""

    def _create(self, name: str, content: bytes) -> None:
        """Writes a file unless it exists, in one step where the store can.

        Raises: FileExistsError.
        """
        place = self._at(name)
        try:
            self._in_folder(name, lambda: self._files.pipe_file(place, content, mode="create"))
        except NotImplementedError:
            if self._files.exists(place):
                raise FileExistsError(place) from None
            self._files.pipe_file(place, content)

    def _in_folder(self, name: str, write: Any) -> None:
        """Calls `write`; makes the folder of that file first where the store has folders."""
        try:
            write()
        except FileNotFoundError:
            self._files.makedirs(self._at(name).rpartition("/")[0], exist_ok=True)
            write()


def check(option: str, address: str) -> None:
    """Refuses an address with credentials.

    Raises: ConfigError.
    """
    if SECRET.search(address):
        why = f"has a password or a query; {CREDENTIALS}"
        raise errors.ConfigError(f"{option}={without_user(address)}: {why}")


def check_recorded(checkpoint: Mapping[str, Any] | None, given: Mapping[str, Any]) -> None:
    """Refuses to send checkpoints to an address that only a run folder gives.

    `checkpoint` is the recorded option, `given` are the options of the command line.
    Raises: ConfigError.
    """
    option, mirror = "checkpoint.mirror", (checkpoint or {}).get("mirror")
    if mirror not in (None, given.get("resume")) and option not in given:
        raise errors.ConfigError(
            f"{option}={mirror}: recorded in a run folder, which is not trusted with an address "
            f"to send checkpoints to; give {quoting.typed(option, mirror)} here, or {option}=null"
        )


def by_age(names: Iterable[str]) -> list[str]:
    """The names of checkpoints among these, oldest first."""
    places = filter(None, map(contents.step_place, names))
    return [contents.step_name(*place) for place in sorted(places)]


def _give_own_random() -> None:
    """Gives the libraries another generator than Python's own, which is the run's.

    They draw the pauses before they try again from it.
    """
    own = random.Random()
    for name, module in [*sys.modules.items()]:
        if name.partition(".")[0] in DRAWING and vars(module).get("random") is random:
            vars(module)["random"] = own


def without_user(text: str) -> str:
    """A text without the users, passwords and queries of its addresses."""
    return USER.sub("", text)
