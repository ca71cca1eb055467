"""All writers of a run behind one object, each under its name.

A writer is any object with `write(point)` and `close()` (`andiron.protocols.Writer`). It may also
have `position` and `rewind`, which keep a resumed run from logging values twice, and
`start_session` and `end_session`. In a configuration it is a node of the group `writers`; its
constructor may ask by parameter name for `run_dir`, the folder of the run.

>>> class Printer:
...     def write(self, point):
...         print(point.split, point.updates, point.values)
...     def close(self):
...         pass
>>> from andiron.protocols import Point
>>> Writers({"screen": Printer()}).write(Point("train", updates=20, epoch=1, values={"loss": 0.5}))
train 20 {'loss': 0.5}
"""

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from andiron.protocols import Point, Rewinds, Sessions, Writer

ORDER_WITHOUT_NAMES = ("json_lines", "tensorboard")  # in checkpoints that hold a list of positions
log = logging.getLogger("andiron")


class Writers:
    """Passes every point to all writers; a writer that raises an exception never ends the run.

    The first exception of a writer is logged as a warning with the writer's name; the others carry
    on. A failing writer still gets every later point, since a network or a server may come back;
    `close` reports how many calls failed.
    """

    def __init__(self, writers: Mapping[str, Writer]):
        self._writers = dict(writers)
        self._failures: dict[str, int] = {}

    def write(self, point: Point) -> None:
        """Passes the point to every writer."""
        for name, writer in self._writers.items():
            self._attempt(name, writer.write, point)

    def start_session(
        self, hyperparameters: Mapping[str, bool | int | float | str], texts: Mapping[str, str]
    ) -> None:
        """Passes hyperparameters and Markdown pages to the writers that show them."""
        for name, writer in self._writers.items():
            if isinstance(writer, Sessions):
                self._attempt(name, writer.start_session, hyperparameters, texts)

    def end_session(self, *, succeeded: bool) -> None:
        """Passes the outcome of the run to the writers that show it."""
        for name, writer in self._writers.items():
            if isinstance(writer, Sessions):
                self._attempt(name, writer.end_session, succeeded=succeeded)

    def positions(self) -> dict[str, dict[str, Any]]:
        """The position of each writer that can rewind, by name; for a checkpoint."""
        found = {
            name: self._attempt(name, writer.position)
            for name, writer in self._writers.items()
            if isinstance(writer, Rewinds)
        }
        return {name: position for name, position in found.items() if position is not None}

    def rewind(
        self,
        positions: Mapping[str, Mapping[str, Any]] | Sequence[Mapping[str, Any] | None],
        updates: int,
    ) -> None:
        """Returns each writer to its position after `updates`.

        A writer without a position was added later and stays where it is; a position without a
        writer is ignored. """
        for name, position in _by_name(positions, self._writers).items():
            writer = self._writers.get(name)
            if isinstance(writer, Rewinds) and position is not None:
                self._attempt(name, writer.rewind, position, updates)

    def close(self) -> None:
        """Closes every writer and reports the calls that failed."""
        for name, writer in self._writers.items():
            self._attempt(name, writer.close)
        for name, count in self._failures.items():
            log.warning("writer %s failed %d times; values may be missing there", name, count)
        self._failures.clear()

    def _attempt(self, name: str, call: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        try:
            return call(*args, **kwargs)
        except Exception as error:  # logging is not worth a run, whatever the reason
            if name not in self._failures:
                reason = f"{type(error).__name__}: {error}"
                log.warning("writer %s failed (%s); training continues", name, reason)
            self._failures[name] = self._failures.get(name, 0) + 1
            return None


def _by_name(
    positions: Mapping[str, Mapping[str, Any]] | Sequence[Mapping[str, Any] | None],
    names: Iterable[str],
) -> Mapping[str, Mapping[str, Any] | None]:
    """Positions by writer name.

    Older checkpoints hold a list: in the order of the default writers if the run has these, else
    in the order of its own.
    """
    if isinstance(positions, Mapping):
        return positions
    order = ORDER_WITHOUT_NAMES if set(ORDER_WITHOUT_NAMES) <= set(names) else tuple(names)
    return dict(zip(order, positions, strict=False))
