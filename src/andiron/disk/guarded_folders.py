"""The folders of runs that this process writes, and the files there that are theirs."""

import errno
import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from pathlib import Path

# why writing is refused, and the folder where it is not
_refusal: ContextVar[tuple[str, Path | None] | None] = ContextVar("refusal", default=None)


@dataclass
class Guard:
    """A folder as it was opened; `save` stores the `names` of the files that its run wrote."""

    folder: Path
    names: set[str]
    save: Callable[[set[str]], None]

    def __post_init__(self) -> None:
        self.opened_as, self.real = os.stat(self.folder), os.path.realpath(self.folder)

    def check(self, name: str) -> None:
        """Raises: OSError if the folder was replaced, or a link leads out of it."""
        if not self.folder.exists():  # removed or renamed: a new one is written
            self.folder.mkdir(parents=True)
            self.__post_init__()
        if not os.path.samestat(os.stat(self.folder), self.opened_as):
            why = "another folder took the place of the run's"
            raise OSError(errno.ESTALE, why, str(self.folder))
        above = os.path.dirname(name)
        if os.path.realpath(self.folder / above) != os.path.normpath(self.real + os.sep + above):
            why = "a link leads out of the run's folder"
            raise OSError(errno.ELOOP, why, str(self.folder / above))


_guards: list[Guard] = []


@contextmanager
def writing_refused(why: str, scratch: Path | None = None) -> Iterator[None]:
    """A context in which writing a file outside `scratch` raises PermissionError with a reason."""
    token = _refusal.set((why, scratch))
    try:
        yield
    finally:
        _refusal.reset(token)


def check_writing(path: Path) -> None:
    """Checks `path` before another library writes it.

    Raises: PermissionError inside `writing_refused`; OSError in a guarded folder that was replaced,
    or if a link leads out of it.
    """
    why, scratch = _refusal.get() or (None, None)
    if why is not None and scratch not in (path, *path.parents):
        raise PermissionError(errno.EPERM, why, str(path))
    for guard, name in _places(path):
        guard.check(name)


def list_file(path: Path, *, is_own: bool = False) -> None:
    """Lists a file as the run's, before it is written; `is_own` if the run wrote it earlier.

    Raises: as `check_writing`; FileExistsError for a file there that the run did not write.
    """
    check_writing(path)
    for guard, name in _places(path):
        if name not in guard.names:
            if os.path.lexists(path) and not is_own:
                why = "this run did not write it, and leaves it as it is"
                raise FileExistsError(errno.EEXIST, why, str(path))
            guard.save({*guard.names, name})
            guard.names.add(name)


def is_listed(path: Path) -> bool:
    """Whether a guarded run wrote the file."""
    return any(name in guard.names for guard, name in _places(path))


@contextmanager
def guarded(
    folder: Path, names: Iterable[str] = (), save: Callable[[set[str]], None] = lambda _: None
) -> Iterator[None]:
    """A context that refuses writes to another folder of that name, or through links in it.

    `names` are the files that the run wrote, of which `list_file` lists more.
    """
    guard = Guard(folder, set(names), save)
    _guards.append(guard)
    try:
        yield
    finally:
        _guards.remove(guard)


def _places(path: Path) -> Iterator[tuple[Guard, str]]:
    """The guards of a file, and its name below their folders."""
    absolute = Path(os.path.abspath(path))
    for guard in _guards:
        if (above := Path(os.path.abspath(guard.folder))) in absolute.parents:
            yield guard, absolute.relative_to(above).as_posix()
