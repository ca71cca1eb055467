"""A run under conditions: other options, threads, or the code of another checkout.

`python -m andiron.wings.ask.conditions FOLDER` makes updates with the code that it imports, as
FOLDER/request.json says; what is exchanged there is JSON and safetensors.
"""

import argparse
import os
import subprocess
import sys
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import andiron
from andiron import errors, serialization
from andiron.disk import files
from andiron.run_folder import RunFolder
from andiron.shell.cli import command_line, process
from andiron.shell.config import composition, diagnosis, user_files
from andiron.shell.run import code_origin, resume_arguments, resume_policy, run_record
from andiron.wings.ask.engine import Recorded
from andiron.wings.ask.traced import Named, States, Trace

REQUEST, MADE, TENSORS = "request.json", "made.json", "tensors.safetensors"
SCRATCH = partial(TemporaryDirectory, prefix="andiron-ask-")


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
        trusted = command_line.trusted(argparse.Namespace(trust=self.packages))
        folder, changed = RunFolder(Path(self.run)), list[Any]()
        if not self.overrides:
            return Recorded(folder, trusted)
        conf_dir = user_files.default_conf_dir()
        before = asdict(run_record.config(folder, trusted))
        conf_dirs = [conf_dir, *diagnosis.user_dirs([])]
        given = resume_arguments.recorded_overrides(folder, conf_dirs, trusted)
        check = resume_arguments.Inherited(before, given, [*self.overrides])
        with SCRATCH() as scratch:
            arguments = [*check.overrides(), f"hydra.run.dir={scratch}"]
            composition.run(lambda *each: changed.append(each[0]), conf_dir, arguments, check=check)
        changes = resume_policy.changes(before, asdict(changed[0]))
        trusted = trusted.with_config(resume_policy.applied({}, changes))  # the user's own words
        return Recorded(folder, trusted, given=changes)


def made(
    side: Side, start: int, numbers: range, is_exact: bool | None = None
) -> tuple[Named, list[str]]:
    """The states of a side after updates; of one, without `is_exact`, all tensors.

    Also how the updates differ from the recorded ones.
    Raises: as `Recorded.updates`; RunFolderError if the other code cannot make them.
    """
    with SCRATCH() as scratch:
        folder = Path(scratch)
        if side.code is None:
            _make(folder, side, start, numbers, is_exact)
        else:
            places = numbers.start, numbers.stop, numbers.step
            request = [asdict(replace(side, code=None)), start, places, is_exact]
            files.write_json(folder / REQUEST, request)
            _make_elsewhere(folder, Path(side.code))
        tensors = sorted(serialization.load_tensors(folder / TENSORS).items())
        said = files.read_json(folder / MADE)["differences"]
    return {name.partition(" ")[2]: tensor for name, tensor in tensors}, said


def repository() -> Path:
    """The repository around the working folder, else that folder."""
    here = os.path.realpath(".")
    return Path(code_origin.repository_around(here) or here)


def _make(folder: Path, side: Side, start: int, numbers: range, is_exact: bool | None) -> None:
    """Makes the updates, and writes what they give into a folder."""
    run = side.recorded()
    run.saved.pop(0, None)  # the first weights are made again too: other code may make others
    instrument = (Trace if is_exact is None else States)(numbers, is_exact)
    run.threads = side.threads
    stretch = run.updates(numbers[0], numbers[-1], instrument, start=start)
    serialization.save_tensors(folder / TENSORS, instrument.tensors)
    said, modules = [*map(str, stretch.differences)], [*code_origin.own_modules()]
    files.write_json(folder / MADE, {"differences": said, "modules": modules})


def _make_elsewhere(folder: Path, code: Path) -> None:
    """Makes the updates in a process that imports from `code` what is of this repository here."""
    tree, own = repository(), Path(andiron.__file__).parents[1]
    here = code / Path(os.path.realpath(".")).relative_to(tree)
    paths = f"{code}/src", str(own), os.environ.get("PYTHONPATH", "")
    result = subprocess.run(
        [sys.executable, "-m", __name__, str(folder)],
        cwd=here if here.is_dir() else code,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(paths)},
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    if result.returncode:
        why = result.stderr.strip().rpartition("\n")[2]
        raise errors.RunFolderError(f"{code}: its code cannot make the updates again: {why}")
    modules = [*map(Path, files.read_json(folder / MADE)["modules"])]
    there = [each for each in modules if each.is_relative_to(code)]
    left = [each for each in modules if each.is_relative_to(tree) and each not in there]
    if left or not (there or (code / "src" / "andiron").is_dir()):
        raise errors.RunFolderError(
            f"{code}: the run does not take its code from there ({[*left, 'nothing'][0]}); let it "
            "be found from the working folder, or by a path inside the repository"
        )


@partial(process.command, failed=2)
def main() -> int:
    """Runs `python -m andiron.wings.ask.conditions FOLDER`."""
    folder = Path(sys.argv[1])
    side, start, places, is_exact = files.read_json(folder / REQUEST)
    _make(folder, Side(**side), start, range(*places), is_exact)
    return 0


if __name__ == "__main__":
    sys.exit(main())
