"""Errors of parts that do not fit each other, told apart from those of the user's own code.

An error that a library raises within Andiron's own code is about what Andiron was given, and is
explained in a line. One that passes through the user's own code keeps its traceback.
"""

import sysconfig
from pathlib import Path
from types import TracebackType
from typing import Any

from andiron import errors, memory

LIBRARIES = ("torch", "torchvision", "torchmetrics", "numpy", "jaxtyping", "safetensors", "PIL")
NOT_THE_USERS = (
    str(Path(__file__).parent),
    sysconfig.get_path("stdlib"),
    *(f"{sysconfig.get_path('purelib')}/{each}" for each in LIBRARIES),
    *(f"{sysconfig.get_path('platlib')}/{each}" for each in LIBRARIES),
    "<",  # code that torch makes while it runs
)


def explain(error: Exception, what: str, remedy: str) -> None:
    """Raises a MismatchError with `what` before the first line of `error`, and `remedy` after it.

    Returns if the error is explained otherwise: Andiron's own, one of the user's own code, which
    gets `what` as a note, and one of memory or files that are used up.
    """
    is_clear = isinstance(error, errors.AndironError | OSError)
    is_shortage = memory.shortage(error) is not None or type(error).__name__ == "OutOfMemoryError"
    if is_clear or is_shortage:
        return
    if _is_of_users_code(error):
        error.add_note(f"{what}; {remedy}")
        return
    raise errors.MismatchError(f"{what}: {errors.first_line(error)}; {remedy}") from error


def shown(holder: Any, *names: str) -> str:
    """The attributes that have a shape, as `inputs [64, 1, 8, 8] of torch.float32`."""
    values: dict[str, Any] = {name: getattr(holder, name, None) for name in names}
    return " and ".join(
        f"{name} {[*value.shape]} of {value.dtype}"
        for name, value in values.items()
        if hasattr(value, "shape") and hasattr(value, "dtype")
    )


def _is_of_users_code(error: BaseException) -> bool:
    """Whether a frame between here and the error is of none of the packages known here."""
    frame: TracebackType | None = error.__traceback__
    while frame is not None:
        if not frame.tb_frame.f_code.co_filename.startswith(NOT_THE_USERS):
            return True
        frame = frame.tb_next
    return False
