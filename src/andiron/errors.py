"""Errors that a user can correct: each names the thing, the value, what is allowed, the remedy."""

import difflib
import sys
import traceback
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from types import FrameType

from andiron.plain import memory, readable, wings
from andiron.plain.plain_values import Named, Plain

SHORTEST = 4  # letters of a name that another may contain
# an error raised inside one of them is about its arguments
LIBRARIES = ("torch", "torchvision", "torchmetrics", "numpy", "jaxtyping", "safetensors", "PIL")


def first_line(error: BaseException) -> str:
    """The first line of an error's message, without a full stop; its class if empty."""
    return (str(error).strip().splitlines() or [type(error).__name__])[0].rstrip(". ")


def one_line(error: BaseException) -> str:
    """An error's whole message on one line; its class if empty."""
    return " ".join(str(error).split()) or type(error).__name__


class AndironError(Exception):
    """A run that cannot start or continue; its message is shown without a traceback.

    Several messages are shown as several errors.
    """

    def __str__(self) -> str:
        return readable.printable("\nerror: ".join(map(str, self.args)))


class Problem(str):
    """A line about a problem, with `fields` that say to a program what the line says to a person.

    `kind`, `option`, `value`, `allowed` (a JSON Schema) and `nearest`, each where it is known.
    """

    fields: Named

    def __new__(cls, line: str, **fields: object) -> "Problem":
        """The line with its fields."""
        problem = super().__new__(cls, line)
        problem.fields = fields
        return problem

    def __add__(self, text: str) -> "Problem":
        return Problem(f"{self}{text}", **self.fields)


class ConfigError(AndironError):
    """Every problem found in a configuration, one a line; or the only one."""

    outcome = "nothing was trained"

    def __init__(self, problems: str | Iterable[str]):
        self.problems = (problems,) if isinstance(problems, str) else tuple(problems)
        noun = "problem" if len(self.problems) == 1 else "problems"
        lines = "\n".join(f"  {problem}" for problem in self.problems)
        super().__init__(
            f"{len(self.problems)} {noun} in the configuration; {self.outcome}:\n{lines}"
        )


@contextmanager
def preventing(outcome: str) -> Iterator[None]:
    """Names what a ConfigError prevents, such as `nothing was loaded`; also as a decorator."""
    try:
        yield
    except ConfigError as error:
        error.args = (str(error.args[0]).replace(error.outcome, outcome, 1),)
        raise


class SweepError(AndironError):
    """Failed runs of a sweep, each with its reason."""


class DivergedError(SweepError):
    """A run of a sweep with NaN or infinity in its loss, gradients or weights."""


class DataError(AndironError):
    """Data that is missing, damaged or unusable."""


class FrozenFileError(DataError):
    """The file of a checkpoint's frozen weights that is missing, damaged or another one."""


class SampleError(DataError):
    """Invalid samples in a batch; `places` are their positions in it, counted from 0."""

    places: Sequence[int] = ()

    def located(self, loader: object, epoch: int, batch: int, *slice_number: int) -> DataError:
        """The error with the samples' indices in the data set; epoch and batch count from 0.

        `slice_number` is for a slice of the batch. The error is unchanged if the loader has no
        `indices(epoch, batch)`.
        """
        indices = getattr(loader, "indices", None)
        if indices is None:
            return self
        of_batch = indices(epoch, batch, *slice_number)
        named = readable.joined([of_batch[place] for place in self.places])
        return DataError(
            f"epoch {epoch + 1}, batch {batch + 1}: sample {named} of the data: {self}"
        )


class MismatchError(AndironError, ValueError):
    """Parts that do not fit each other, such as a metric and the output of the task."""


class DeviceError(AndironError):
    """A device that this machine does not have."""


class RunFolderError(AndironError):
    """A run folder that cannot be written, or that already holds a run."""


class OutputError(AndironError):
    """An output file or folder that may not or cannot be written."""


class SelectionError(AndironError):
    """A filter, metric or name that chooses no run, or that cannot be read."""


class OwnershipError(AndironError):
    """A parameter that would be trained by no optimizer, or by two."""


class NonFiniteError(AndironError):
    """A loss, gradient or weight that is NaN or infinite."""


class PeerError(AndironError):
    """Another process of the run that failed or cannot be reached."""


class ExhaustedError(AndironError):
    """A run that exceeds the machine's memory, processes or open files."""


class Interrupted(KeyboardInterrupt):
    """A run that stopped on request, its state saved; the process exits with `exit_code`.

    `outcome` describes the run's state, and how to continue it.
    """

    def __init__(self, reason: str, exit_code: int = 130):
        self.exit_code = exit_code
        self.outcome = ""
        super().__init__(reason)

    def add(self, outcome: str = "", exit_code: int | None = None) -> None:
        """Adds to the outcome; a given exit code replaces the earlier one."""
        self.outcome = "; ".join(filter(None, [self.outcome, outcome]))
        self.exit_code = exit_code or self.exit_code


class Paused(Interrupted):
    """A run that paused with its state saved; another process resumes it.
    """


def reason(error: BaseException) -> str:
    """An error's message, with its class unless it is Andiron's."""
    if isinstance(error, AndironError | Interrupted):
        return str(error)
    return f"{type(error).__name__}: {error}" if str(error) else type(error).__name__


OWN = ("andiron", wings.LAB)  # packages


@contextmanager
def exits_refused(*also: type[BaseException]) -> Iterator[None]:
    """A context in which a user's code cannot end the process or a loop, least of all in silence.

    `also` is KeyboardInterrupt where signals are handled, so that only code can have raised it.
    Raises: AndironError naming the function, outside the standard library, that called `sys.exit`,
    or that raised GeneratorExit, StopIteration or the like.
    """
    try:
        yield
    except BaseException as error:
        is_from_generator = isinstance(error, RuntimeError) and error.__cause__ is not None
        raised = error.__cause__ if is_from_generator and error.__cause__ else error
        is_end = isinstance(raised, StopIteration) or not isinstance(raised, Exception)
        is_stop = isinstance(raised, KeyboardInterrupt) and not isinstance(raised, also)
        function = _where_raised(raised)
        if not is_end or is_stop or isinstance(raised, Interrupted) or not function:
            raise
        what = f"raised {type(raised).__name__}"
        if isinstance(raised, SystemExit):
            what = f"ended the process (sys.exit({raised.code!r}))"
        raise AndironError(f"{function}: {what}; raise an error there instead") from error


def _where_raised(error: BaseException) -> str:
    """The function, outside the standard library, that raised the error; empty for Andiron's own.
    """
    function = ""
    for frame, line in traceback.walk_tb(error.__traceback__):
        module, code = frame.f_globals.get("__name__", ""), frame.f_code
        if _package(frame) not in sys.stdlib_module_names:
            place = f"{module}.{code.co_qualname} ({code.co_filename}:{line})"
            function = place if _package(frame) not in OWN else ""
    return function


def nearest(name: str, names: Iterable[str]) -> str:
    """`; did you mean 'x'?` for the closest of `names`, in any case; empty if none is close.

    >>> nearest("AdamW", ["adam", "adamw"])
    "; did you mean 'adamw'?"
    """
    close = closest(name, names)
    return f"; did you mean {close!r}?" if close else ""


def closest(name: str, names: Iterable[str]) -> str | None:
    """The closest of `names`, in any case, or one within `name` or around it; None without one.

    >>> closest("CosineAnnealingLR", ["linear", "cosine"])
    'cosine'
    """
    given, folded = name.casefold(), {name.casefold(): name for name in names}
    close = difflib.get_close_matches(given, folded, n=1, cutoff=0.6) or [
        other for other in folded if min(len(given), len(other)) >= SHORTEST
        if other in given or given in other
    ]  # fmt: skip
    return folded[close[0]] if close else None


def choices(name: str, names: Sequence[str]) -> Plain:
    """The fields of a problem with a `name` that is not one of `names`."""
    return {"allowed": {"enum": [*names]}, "nearest": closest(name, names)}


def explain(error: Exception, what: str, remedy: str) -> None:
    """Raises a MismatchError with `what` before the first line of `error`, and `remedy` after it.

    Returns for errors explained elsewhere: Andiron's own, errors of a user's code, which get `what`
    as a note, and shortages of memory or open files.
    """
    is_clear = isinstance(error, AndironError | OSError)
    is_shortage = memory.shortage(error) is not None or type(error).__name__ == "OutOfMemoryError"
    if is_clear or is_shortage:
        return
    if _is_of_users_code(error):
        error.add_note(f"{what}; {remedy}")
        return
    raise MismatchError(f"{what}: {first_line(error)}; {remedy}") from error


def shapes(holder: object, *names: str) -> str:
    """The attributes that have a shape, as `inputs [64, 1, 8, 8] of torch.float32`."""
    values: Named = {name: getattr(holder, name, None) for name in names}
    values = holder if isinstance(holder, Mapping) else values
    return " and ".join(
        f"{name} {[*value.shape]} of {value.dtype}"
        for name, value in values.items()
        if hasattr(value, "shape") and hasattr(value, "dtype")
    )


def _is_of_users_code(error: BaseException) -> bool:
    """Whether a frame between here and the error belongs to a user's code."""
    frames = traceback.walk_tb(error.__traceback__)
    return any(
        _package(frame) not in (*OWN, *LIBRARIES, *sys.stdlib_module_names)
        for frame, _ in frames
        if not frame.f_code.co_filename.startswith("<")  # generated, such as by torch
    )


def _package(frame: FrameType) -> str:
    return str(frame.f_globals.get("__name__", "")).partition(".")[0]
