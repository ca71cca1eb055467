"""Combines all writers of a run in one object, by name; the names that their tools accept.

A writer is any object with `write(point)` and `close()` (`andiron.protocols.Writer`). It may also
have `position` and `rewind`, which keep a resumed run from logging values twice, and
`start_session` and `end_session`. In a configuration it is a node of the group `writers`; its
constructor may have a parameter `run_dir`, the folder of the run.

>>> class Printer:
...     def write(self, point):
...         print(point.split, point.updates, point.values)
...     def close(self):
...         pass
>>> from andiron.protocols import Hyperparameters, Pages, Point, Position
>>> Writers({"screen": Printer()}).write(Point("train", updates=20, epoch=1, values={"loss": 0.5}))
train 20 {'loss': 0.5}
"""

import hashlib
import logging
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from andiron import errors
from andiron.protocols import (
    Embeddings,
    Hyperparameters,
    Operation,
    Pages,
    Point,
    Position,
    Rewinds,
    Sessions,
    ShowsModel,
    Writer,
)

MARK = 8  # hexadecimal digits: 1,000 names that are alike but for refused signs stay apart
log = logging.getLogger("andiron")


class Writers:
    """Passes every point to all writers; a writer that raises an exception never ends the run.

    The first exception of a writer is logged as a warning with the writer's name; the others carry
    on. A failing writer still gets every later point, since a network or server may recover;
    `close` reports how many calls failed. Writers given as a function are made by `open`.
    """

    def __init__(self, writers: Mapping[str, Writer] | Callable[[], Mapping[str, Writer]]):
        self._make = writers if callable(writers) else None
        self._writers = {} if callable(writers) else dict(writers)
        self._failures: Counter[str] = Counter()

    def open(self) -> None:
        """Makes the writers."""
        if self._make is not None:
            self._writers, self._make = dict(self._make()), None

    def write(self, point: Point) -> None:
        """Passes the point to every writer."""
        for name, writer in self._writers.items():
            try:
                writer.write(point)
            except Exception as error:
                self._report(name, "write", error)

    def start_session(self, hyperparameters: Hyperparameters, texts: Pages) -> None:
        """Passes hyperparameters and Markdown pages to the writers that show them."""
        self._call_writers(Sessions, "start_session", hyperparameters, texts)

    def end_session(self, *, succeeded: bool) -> None:
        """Passes the outcome of the run to the writers that show it."""
        self._call_writers(Sessions, "end_session", succeeded=succeeded)

    @contextmanager
    def session(self) -> Iterator[None]:
        """Ends the session with the body; an interrupted one stays open, to be resumed."""
        try:
            yield
        except (errors.Interrupted, GeneratorExit):
            raise
        except BaseException:
            self.end_session(succeeded=False)
            raise
        self.end_session(succeeded=True)

    @contextmanager
    def silenced(self) -> Iterator[None]:
        """A context in which nothing is passed to the writers."""
        writers, self._writers = self._writers, {}
        try:
            yield
        finally:
            self._writers = writers

    def show_graph(self, traced: Callable[[], Sequence[Operation]]) -> None:
        """Passes the model's graph to the writers that show it."""
        self._call_writers(ShowsModel, "show_graph", traced)

    def show_embeddings(self, computed: Callable[[int], Embeddings]) -> None:
        """Passes the trained model's embeddings to the writers that show them."""
        self._call_writers(ShowsModel, "show_embeddings", computed)

    def positions(self) -> dict[str, Position]:
        """The position of each writer that can rewind, by name; for a checkpoint."""
        by_name = self._call_writers(Rewinds, "position")
        return {name: position for name, position in by_name.items() if position is not None}

    def rewind(self, positions: Mapping[str, Position], updates: int) -> None:
        """Returns each writer to its position after `updates`.

        A writer without a position was added later and stays where it is; a position without a
        writer is ignored.
        Raises: DataError if a writer's file belongs to another run.
        """
        for name, position in positions.items():
            writer = self._writers.get(name)
            if isinstance(writer, Rewinds):
                try:
                    writer.rewind(position, updates)
                except errors.DataError:
                    raise
                except Exception as error:
                    self._report(name, "rewind", error)

    def close(self) -> list[str]:
        """Closes every writer and reports failed calls; returns texts about lost values."""
        lost = self._call_writers(Writer, "close")
        for name, count in self._failures.items():
            if count > 1:  # the first was reported
                log.warning("writer %s failed %d times; values may be missing there", name, count)
        self._failures.clear()
        return [text for text in lost.values() if isinstance(text, str)]

    def _call_writers(
        self, kind: type, method: str, *args: object, **kwargs: object
    ) -> dict[str, Any]:
        """The results of the writers of a kind, by name, without failed calls."""
        results = {}
        for name, writer in self._writers.items():
            if isinstance(writer, kind):
                try:
                    results[name] = getattr(writer, method)(*args, **kwargs)
                except Exception as error:
                    self._report(name, method, error)
        return results

    def _report(self, name: str, method: str, error: Exception) -> None:
        """Counts a failed call: logging is not worth a run, whatever the reason."""
        if name not in self._failures:
            message = "writer %s failed in %s (%s: %s); training continues"
            log.warning(message, name, method, type(error).__name__, error)
        self._failures[name] += 1


class AcceptedNames(dict[str, str]):
    """Names for `place` by their texts, which stay different; logs each change once.

    A text with a match of `refused`, or of more than `most` letters, gets a checksum: the same in
    every process, so that a resumed run continues its names.

    >>> name = AcceptedNames("the tool", "[<>]", most=20)
    >>> name["30"], name["<30"], name[">30"], name["a long name of a class"]
    ('30', '_30-e20213f6', '_30-e2f1750d', 'a long name-05173aa9')
    """

    def __init__(self, place: str, refused: str, most: int = 10**9):
        self._place, self._refused, self._most = place, re.compile(refused), most

    def __missing__(self, text: str) -> str:
        self[text], like = text, self._refused.sub("_", text)
        if like != text or len(text) > self._most:
            mark = hashlib.sha256(text.encode(errors="surrogatepass")).hexdigest()[:MARK]
            self[text] = f"{like[: self._most - MARK - 1]}-{mark}"
            log.info("%s: %r is named %r", self._place, text, self[text])
        return self[text]
