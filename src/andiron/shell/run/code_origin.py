"""The code of a run: repositories with their uncommitted changes, and untracked modules.

git runs only in repositories of imported code, the working folder and the configuration, never in
a folder that a record names, and starts no program from a repository's own settings.
"""

import hashlib
import os
import subprocess
import sys
import sysconfig
from collections.abc import Collection, Iterable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from itertools import islice
from pathlib import Path
from types import ModuleType

import andiron
from andiron.disk import checksums
from andiron.plain.plain_values import Plain
from andiron.run_folder import RunFolder, is_sweep
from andiron.shell.config import project

MOST_MODULES, MOST_UNTRACKED = 200, 1000
MOST_INSIDE = 1000  # entries of an untracked folder that are looked at for runs
GENERATED = ("outputs", "multirun", "__pycache__")
PLACES = [f"{sysconfig.get_path(name)}{os.sep}" for name in ("stdlib", "platstdlib", "scripts")]
UNSET = "ANDIRON_UNSET"  # an empty variable, as the value of settings
GIT = (
    f"git --work-tree=. -c core.fsmonitor=false -c core.hooksPath={os.devnull} "
    "-c safe.bareRepository=explicit"
)
ELSEWHERE = ("GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE")
VARIABLES = {
    "GIT_OPTIONAL_LOCKS": "0", "GIT_NO_LAZY_FETCH": "1", "GIT_ALLOW_PROTOCOL": "none",
    UNSET: "",
}  # fmt: skip
DIFF = (  # the user's git settings must not change the patch
    "diff --binary --no-ext-diff --no-textconv --no-color --no-relative -U3 --submodule=short "
    "--ignore-submodules=dirty --src-prefix=a/ --dst-prefix=b/ HEAD"
)
Patches = dict[str, bytes]  # by file name
Gathered = tuple[Plain, Patches]


class Gathering:
    """`gather` in a thread: git takes 0.1 s for each repository, in which a run starts.

    Call it for the code; it waits. Modules of the user that are imported until the first call
    count.
    """

    def __init__(self) -> None:
        self._known = {*sys.modules}
        self._is_fixed = False
        self._start()

    def __call__(self) -> Gathered:
        if not self._is_fixed and own_modules(self._known):
            self._start()
        self._is_fixed = True
        return self._code.result()

    def _start(self) -> None:
        pool = ThreadPoolExecutor(1)
        try:
            self._code = pool.submit(gather, project.config_dirs())
        finally:  # a signal may raise as the thread starts: without this, the exit waits for it
            pool.shutdown(wait=False)


def gather(config_dirs: Iterable[Path] = ()) -> Gathered:
    """Andiron's checkout as `git`, other repositories as `projects`, other code as `modules`.

    `git` is None for an installed package. Untracked modules are recorded by SHA-256.
    """
    package = os.path.dirname(andiron.__file__)
    modules, patches = own_modules(), Patches()
    own = None if _is_installed(package) else repository_around(package)
    with_code = [own, *map(repository_around, dict.fromkeys(map(os.path.dirname, modules)))]
    with suppress(FileNotFoundError):  # the working folder was removed
        config_dirs = [*config_dirs, Path.cwd()]
    git: Plain | None = None
    projects = Plain()
    roots = [*filter(None, dict.fromkeys([*with_code, *map(repository_around, config_dirs)]))]
    with ThreadPoolExecutor(max(1, len(roots))) as pool:  # git mostly waits
        records = [*pool.map(lambda root: _repository(root, has_code=root in with_code), roots)]
    for record, patch, tracked in filter(None, records):
        root, name = record["root"], os.path.basename(record["root"])
        if patch:
            patches[record["uncommitted"]] = patch
        for file in tracked:
            modules.pop(os.path.join(root, file), None)
        if root == own:
            git = record
        else:
            projects[root if name in projects else name] = record
    installed = package if git is None else None
    return {"git": git, "projects": projects, "modules": _checksums(modules, installed)}, patches


def _checksums(modules: dict[str, str], package: str | None) -> Plain:
    """The place and SHA-256 of modules that are named by file, and of an installed package."""
    named = {
        name: {"path": file, **checksums.entry(Path(file))}
        for file, name in [*modules.items()][:MOST_MODULES]
        if name[:2] != "__"
    }
    if package is not None:
        code = b"".join(path.read_bytes() for path in sorted(Path(package).rglob("*.py")))
        named["andiron"] = {"path": package, **checksums.entry_of(code)}
    return named


def own_modules(known: Collection[str] = ()) -> dict[str, str]:
    """The imported modules outside the standard library, site-packages and Andiron: name by file.

    Those with `known` names are left out.
    """
    package = os.path.dirname(andiron.__file__)
    # a copy is made in one step: a garbage collection or a thread may import beside a loop
    loaded = [module for module in sys.modules.copy().items() if module[0] not in known]
    modules = [pair for pair in loaded if isinstance(pair[1], ModuleType)]
    files = sorted((name, str(vars(module).get("__file__"))) for name, module in modules)
    others = [pair for pair in files if not _is_installed(pair[1], f"{package}{os.sep}")]
    return {os.path.realpath(file): name for name, file in others if os.path.isfile(file)}


def _is_installed(file: str, *more: str) -> bool:
    is_package = "site-packages" in file or "dist-packages" in file
    return is_package or file.startswith((*PLACES, *more))


def repository_around(folder: str | Path) -> str | None:
    """The root of the repository around `folder`, found without git."""
    path = Path(os.path.realpath(folder))
    roots = (str(place) for place in (path, *path.parents) if os.path.exists(place / ".git"))
    return next(roots, None)


def _repository(root: str, *, has_code: bool) -> tuple[Plain, bytes | None, list[str]] | None:
    """The record of a repository, its patch, and its tracked files; None without a commit."""
    revision = _git(root, "rev-parse HEAD")
    if revision is None:
        return None
    patch = _patch(root, has_code=has_code)
    others = _list_files(root, "--others --exclude-standard --directory")
    names = [name for name in others if not _is_generated(Path(root, name))]
    record = {
        "root": root,
        "revision": revision.decode().strip(),
        "dirty": patch != b"",
        "uncommitted": f"dirty-{hashlib.sha256(patch).hexdigest()[:16]}.patch" if patch else None,
        "untracked": names[:MOST_UNTRACKED],
    }
    return record, patch, _list_files(root)


def _patch(root: str, *, has_code: bool) -> bytes | None:
    """The patch from the commit of a repository to its files; empty without changes.

    Without imported code, the filter programs of the repository's settings are not run.
    """
    settings = []
    if not has_code:
        words = _split(_git(root, r"config -z --show-scope --name-only --get-regexp ^filter\."))
        pairs = zip(words[::2], words[1::2], strict=True)
        filters = [name for scope, name in pairs if scope in ("local", "worktree")]
        required = [f"{name.rpartition('.')[0]}.required" for name in filters]
        settings = [f"--config-env={name}={UNSET}" for name in (*filters, *required)]
    return _git(root, DIFF, settings)


def _is_generated(path: Path, levels: int = 3) -> bool:
    """Whether a path is a run or a sweep, or a folder that contains nothing else."""
    if path.name in GENERATED or os.path.exists(RunFolder(path).status) or is_sweep(path):
        return True
    try:
        inside = [*islice(path.iterdir(), MOST_INSIDE + 1)] if levels else []
    except OSError:  # a file, or a folder that may not be read
        return False
    is_seen_whole = 0 < len(inside) <= MOST_INSIDE
    return is_seen_whole and all(_is_generated(place, levels - 1) for place in inside)


def _list_files(root: str, arguments: str = "") -> list[str]:
    return _split(_git(root, f"ls-files -z {arguments}"))


def _split(output: bytes | None) -> list[str]:
    return os.fsdecode(output or b"").split("\0")[:-1]


def _git(root: str, arguments: str, settings: Iterable[str] = ()) -> bytes | None:
    """The output of git in a repository; None if git fails or is not installed."""
    environment = {name: value for name, value in os.environ.items() if name not in ELSEWHERE}
    variables = environment | VARIABLES | {"GIT_CEILING_DIRECTORIES": os.path.dirname(root)}
    command = [*GIT.split(), *settings, *arguments.split()]
    try:
        result = subprocess.run(
            command, cwd=root, env=variables, capture_output=True, timeout=30, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return result.stdout if result.returncode == 0 else None
