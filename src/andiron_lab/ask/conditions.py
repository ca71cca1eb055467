"""A run under conditions: other options, threads, or the code of another checkout.

`python -m andiron_lab.ask.conditions FOLDER` makes updates with the code that it imports, as
FOLDER/request.json says; what is exchanged there is JSON and safetensors.
"""

import argparse
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import andiron
from andiron import errors, serialization
from andiron.disk import files
from andiron.run_folder import RunFolder
from andiron.shell.cli import answers, process
from andiron.shell.config import composition, config_folders, project, quoting
from andiron.shell.config.flags import ONE_RUN
from andiron.shell.run import code_origin, resume_policy, run_record
from andiron.shell.run.changed_options import joined
from andiron.wings.commands import declaration
from andiron_lab.ask import scratch
from andiron_lab.ask.engine import Recorded
from andiron_lab.ask.traced import Named, States, Trace
from andiron_lab.forks import recorded_overrides
from andiron_lab.forks.inherited import Inherited

REQUEST, MADE = "request.json", "made.json"
AT_LEAST = 8  # processes are started on any machine, beyond its cores if need be
OF_A_PROJECT = "name their folder as `conf` in [tool.andiron] of a pyproject.toml here"
SECONDS_TO_END = 40  # for a process that is stopped; torchrun waits 30 for its own


@dataclass(frozen=True)
class Side:
    """A run, and what replaces its own options, threads and code."""

    run: str
    packages: tuple[str, ...] = ()  # that its record may name
    overrides: tuple[str, ...] = ()
    threads: int | None = None
    code: str | None = None  # the folder of a checkout, resolved

    def recorded(self) -> Recorded:
        """The run with the changed options.

        Raises: as `Recorded`; ConfigError with every mistake in the overrides.
        """
        own = self._own()
        if not self.overrides:
            return own
        folder, trusted, changed = own.folder, own.trusted, list[Any]()
        conf_dir = project.default_conf_dir()
        before = asdict(run_record.config(folder, trusted))
        conf_dirs = config_folders.all_dirs(conf_dir, [])
        given = recorded_overrides.recorded(folder, conf_dirs, OF_A_PROJECT)
        check = Inherited(before, given, [*self.overrides], trusted)
        with scratch.folder() as made:
            run_dir = quoting.override("hydra.run.dir", made)
            arguments = [*joined(given, self.overrides), run_dir, ONE_RUN]
            composition.run(lambda *run: changed.append(run[0]), conf_dir, arguments, check=check)
        changes = resume_policy.changes(before, asdict(changed[0]))
        trusted = trusted.with_config(resume_policy.applied({}, changes))  # the user's own words
        return Recorded(folder, trusted, given=changes)

    def processes_at(self, updates: int) -> int:
        """How many processes make the update after `updates` again.

        Raises: as `Recorded`; RunFolderError for more than this machine can be asked for.
        """
        number, most = self._own().processes_at(updates), max(AT_LEAST, os.cpu_count() or 1)
        if type(number) is not int or not 0 < number <= most:
            raise errors.RunFolderError(
                f"{self.run}: {number} processes trained it without slices, and at most {most} "
                "are started here; ask on a machine with as many cores"
            )
        return number

    def _own(self) -> Recorded:
        trusted = declaration.trusted(argparse.Namespace(trust=self.packages))
        return Recorded(RunFolder(Path(self.run)), trusted)


def made(
    side: Side, start: int, numbers: range, is_exact: bool | None = None
) -> tuple[Named, list[str]]:
    """The states of a side after updates; of one, without `is_exact`, all tensors.

    Also how the updates differ from the recorded ones.
    Raises: as `Recorded.updates`; RunFolderError if the other code cannot make them.
    """
    size = side.processes_at(start)
    with scratch.folder() as place:
        folder = Path(place)
        if side.code is None and size == 1:
            _make(folder, side, start, numbers, is_exact)
        else:
            places = numbers.start, numbers.stop, numbers.step
            request = [asdict(replace(side, code=None)), start, places, is_exact]
            files.write_json(folder / REQUEST, request)
            _make_elsewhere(folder, side, size)
        loaded = [
            (place, rank, tensor) for rank in range(size)
            for place, tensor in serialization.load_tensors(_tensors(folder, rank)).items()
        ]  # fmt: skip
        said = files.read_json(folder / MADE)["differences"]
    tensors = {}
    for place, rank, tensor in sorted(loaded, key=lambda entry: entry[:2]):
        kind, colon, name = place.partition(" ")[2].partition(": ")
        tensors[kind + f" of rank {rank}" * (size > 1) + colon + name] = tensor
    return tensors, said


def repository() -> Path:
    """The repository around the working folder, else that folder."""
    here = os.path.realpath(".")
    return Path(code_origin.repository_around(here) or here)


def git(tree: Path, *arguments: str, **variables: str) -> str:
    """The output of git in the repository, which starts no program of its settings.

    Raises: SelectionError if it fails.
    """
    command, environment = [*code_origin.GIT.split(), *arguments], {**os.environ, **variables}
    result = subprocess.run(
        command, cwd=tree, env=environment, capture_output=True, text=True, check=False
    )
    if result.returncode:
        raise errors.SelectionError(f"{tree}: git {arguments[0]}: {result.stderr.strip()}")
    return result.stdout


@contextmanager
def checked_out(tree: Path, commit: str) -> Iterator[str]:
    """The files of the commit in a scratch folder, written through an index of its own."""
    with scratch.folder() as made:
        index = {"GIT_INDEX_FILE": f"{made}/index"}
        git(tree, "read-tree", commit, **index)
        git(tree, "checkout-index", "--all", f"--prefix={made}/code/", **index)
        yield os.path.realpath(f"{made}/code")


def _tensors(folder: Path, rank: int) -> Path:
    return folder / f"tensors{f'-{rank}' * (rank > 0)}.safetensors"


def _make(folder: Path, side: Side, start: int, numbers: range, is_exact: bool | None) -> None:
    """Makes the updates, together with other processes of torchrun; writes what they give."""
    run = side.recorded()
    run.saved.pop(0, None)  # the first weights are made again too: other code may make others
    instrument = (Trace if is_exact is None else States)(numbers, is_exact)
    run.threads = side.threads
    with run.together():
        stretch = run.updates(numbers[0], numbers[-1], instrument, start=start)
    rank, _ = process.rank_and_size(os.environ) or (0, 1)
    serialization.save_tensors(_tensors(folder, rank), instrument.tensors)
    said, modules = [*map(str, stretch.differences)], [*code_origin.own_modules()]
    if rank == 0:
        files.write_json(folder / MADE, {"differences": said, "modules": modules})


def _make_elsewhere(folder: Path, side: Side, size: int) -> None:
    """Makes the updates in `size` processes.

    They import from the side's code, if it has other, what is of this repository here.
    """
    own, here, paths = str(Path(andiron.__file__).parents[1]), Path.cwd(), list[str]()
    if side.code is not None:
        tree, code = repository(), Path(side.code)
        there = code / Path(os.path.realpath(".")).relative_to(tree)
        here, paths = there if there.is_dir() else code, [f"{code}/src"]
    launcher = ["-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={size}"]
    paths += [own, os.environ.get("PYTHONPATH", "")]
    program = [*(launcher if size > 1 else []), "-m", __name__, str(folder), answers.FLAG]
    with subprocess.Popen(
        [sys.executable, *program],
        cwd=here, env={**os.environ, "PYTHONPATH": os.pathsep.join(paths)},
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    ) as made:  # fmt: skip
        try:
            output, log = made.communicate()
        except BaseException:  # a signal: the process removes its own scratch folders
            made.terminate()
            with suppress(subprocess.TimeoutExpired):
                made.communicate(timeout=SECONDS_TO_END)
            made.kill()
            raise
    if made.returncode:
        try:
            why = json.loads(output)["error"]["message"]
        except ValueError:  # it ended without an answer
            why = log.strip().rpartition("\n")[2]
        who = f"{side.code}: its code" if side.code else f"{side.run}: {size} processes"
        raise errors.RunFolderError(f"{who} cannot make the updates again: {why}")
    if side.code is not None:
        _check_code(folder, tree, code)


def _check_code(folder: Path, tree: Path, code: Path) -> None:
    """Refuses updates that were made with code of this repository, not of the other checkout."""
    modules = [*map(Path, files.read_json(folder / MADE)["modules"])]
    there = [path for path in modules if path.is_relative_to(code)]
    left = [path for path in modules if path.is_relative_to(tree) and path not in there]
    if left or not (there or (code / "src" / "andiron").is_dir()):
        raise errors.RunFolderError(
            f"{code}: the run does not take its code from there ({[*left, 'nothing'][0]}); let it "
            "be found from the working folder, or by a path inside the repository"
        )


@partial(process.command, failed=2, joins_others=True)
def main() -> int:
    """Runs `python -m andiron_lab.ask.conditions FOLDER`."""
    folder = Path(sys.argv[1])
    side, start, places, is_exact = files.read_json(folder / REQUEST)
    _make(folder, Side(**side), start, range(*places), is_exact)
    return 0


if __name__ == "__main__":
    sys.exit(main())
