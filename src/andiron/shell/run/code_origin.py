"""The code of a run: repositories with their uncommitted changes, and untracked modules.

git runs only in repositories of imported code, the working folder and the configuration, never in
a folder that a record names, and starts no program from a repository's own settings.
"""

import hashlib
import os
import subprocess
import sys
import sysconfig
from collections.abc import Callable, Collection, Iterable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import cache
from itertools import islice
from pathlib import Path, PurePath
from typing import Any

import andiron
from andiron.disk import checksums
from andiron.run_folder import RunFolder, is_sweep

MOST_MODULES, MOST_UNTRACKED = 200, 1000
MOST_FOLDERS = 1000  # looked at for runs in an untracked folder
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
Gathered = tuple[dict[str, Any], Patches]


def gather_beside() -> Callable[[], Gathered]:
    """Starts `gather` in a thread; the returned function waits for it.

    git takes 0.1 s, in which a run claims its folder. If modules of the user are imported
    meanwhile, it gathers again.
    """
    known, pool = {*sys.modules}, ThreadPoolExecutor(1)
    code = pool.submit(gather, config_dirs())
    pool.shutdown(wait=False)
    return lambda: gather(config_dirs()) if _own_modules(known) else code.result()


def gather(config_dirs: Iterable[Path] = ()) -> Gathered:
    """Andiron's checkout as `git`, other repositories as `projects`, other code as `modules`.

    `git` is None for an installed package. Untracked modules are recorded by SHA-256.
    """
    package = os.path.dirname(andiron.__file__)
    modules, patches = _own_modules(), Patches()
    own = None if _is_installed(package) else _root(package)
    with_code = [own, *map(_root, dict.fromkeys(map(os.path.dirname, modules)))]
    with suppress(FileNotFoundError):  # the working folder was removed
        config_dirs = [*config_dirs, Path.cwd()]
    repositories, projects = dict[str, Any](), dict[str, Any]()
    for root in filter(None, dict.fromkeys([*with_code, *map(_root, config_dirs)])):
        revision = _git(root, "rev-parse HEAD")
        if revision is None:
            continue
        uncommitted = _uncommitted_changes(root, patches, has_code=root in with_code)
        repositories[root] = {"root": root, "revision": revision.decode().strip(), **uncommitted}
        for name in _list_files(root):
            modules.pop(os.path.join(root, name), None)
    git = repositories.pop(own, None) if own else None
    for root, record in repositories.items():
        name = os.path.basename(root)
        projects[root if name in projects else name] = record
    checksum = {
        name: {"path": file, **checksums.entry(Path(file))}
        for file, name in [*modules.items()][:MOST_MODULES]
        if name[:2] != "__"
    }
    if git is None:
        code = b"".join(path.read_bytes() for path in sorted(Path(package).rglob("*.py")))
        checksum["andiron"] = {"path": package, **checksums.entry_of(code)}
    return {"git": git, "projects": projects, "modules": checksum}, patches


def config_dirs() -> list[Path]:
    """The config folders of the current composition; empty without one, which loads no Hydra."""
    hydra_config = sys.modules.get("hydra.core.hydra_config")
    if hydra_config is None or not hydra_config.HydraConfig.initialized():
        return []
    sources = hydra_config.HydraConfig.get().runtime.config_sources
    return [Path(source.path) for source in sources if source.schema == "file"]


def _own_modules(known: Collection[str] = ()) -> dict[str, str]:
    """The imported modules outside the standard library, site-packages and Andiron: name by file.

    Those with `known` names are left out.
    """
    package = os.path.dirname(andiron.__file__)
    loaded = [each for each in [*sys.modules.items()] if each[0] not in known]
    modules = [(name, getattr(module, "__dict__", {})) for name, module in loaded]
    files = sorted((name, str(inside.get("__file__"))) for name, inside in modules)
    others = [pair for pair in files if not _is_installed(pair[1], f"{package}{os.sep}")]
    return {os.path.realpath(file): name for name, file in others if os.path.isfile(file)}


def _is_installed(file: str, *more: str) -> bool:
    is_package = "site-packages" in file or "dist-packages" in file
    return is_package or file.startswith((*PLACES, *more))


def _root(folder: str | Path) -> str | None:
    """The root of the repository around `folder`, found without git."""
    path = Path(os.path.realpath(folder))
    roots = (str(place) for place in (path, *path.parents) if os.path.exists(place / ".git"))
    return next(roots, None)


def _uncommitted_changes(root: str, patches: Patches, *, has_code: bool) -> dict[str, Any]:
    """The changes since the commit of a repository; its patch is added to `patches`.

    Without imported code, the filter programs of the repository's settings are not run.
    """
    settings = []
    if not has_code:
        words = _split(_git(root, r"config -z --show-scope --name-only --get-regexp ^filter\."))
        pairs = zip(words[::2], words[1::2], strict=True)
        filters = [name for scope, name in pairs if scope in ("local", "worktree")]
        required = [f"{name.rpartition('.')[0]}.required" for name in filters]
        settings = [f"--config-env={name}={UNSET}" for name in (*filters, *required)]
    patch = _git(root, DIFF, settings)
    file = f"dirty-{hashlib.sha256(patch).hexdigest()[:16]}.patch" if patch else None
    patches |= {file: patch} if file and patch else {}
    generated = cache(_is_generated)
    names = [
        name
        for name in _list_files(root, "--others --exclude-standard --directory")
        if not any(generated(Path(root, place)) for place in _with_folders(name))
    ]
    return {"dirty": patch != b"", "uncommitted": file, "untracked": names[:MOST_UNTRACKED]}


def _with_folders(name: str) -> list[PurePath]:
    """A name in a repository, and the folders above it."""
    return [PurePath(name), *PurePath(name).parents][:-1]


def _is_generated(path: Path) -> bool:
    """Whether a path is a run or a sweep, or a folder that contains nothing else."""
    waiting, looked_at = [path], 0
    while waiting:
        place = waiting.pop()
        if place.name in GENERATED or os.path.exists(RunFolder(place).status) or is_sweep(place):
            continue
        try:
            inside = [Path(entry.path) for entry in islice(os.scandir(place), MOST_FOLDERS)]
        except OSError:  # a file
            return False
        looked_at += len(inside)
        if not inside or looked_at >= MOST_FOLDERS:
            return False
        waiting += inside
    return True


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
