"""All writers of a run get every point; positions are kept by name; a failure ends no run."""

import json
import logging

import pytest

from andiron.protocols import Point
from andiron.writers import JsonLinesWriter, TensorBoardWriter, Writers


class Recorder:
    """Stores its points; can neither rewind nor show sessions."""

    def __init__(self):
        self.points, self.is_closed = [], False

    def write(self, point):
        self.points.append(point)

    def close(self):
        self.is_closed = True


class Counter(Recorder):
    """Rewinds to a number of points and stores its sessions."""

    def __init__(self):
        super().__init__()
        self.sessions = []

    def position(self):
        return {"points": len(self.points)}

    def rewind(self, position, updates):
        del self.points[position["points"] :]

    def start_session(self, hyperparameters, texts):
        self.sessions.append((hyperparameters, texts))

    def end_session(self, *, succeeded):
        self.sessions.append(succeeded)


class Broken(Counter):
    """Every call fails, with the given exception."""

    def __init__(self, error):
        super().__init__()
        self.error, self.calls = error, 0

    def fail(self, *args, **kwargs):
        self.calls += 1
        raise self.error

    write = close = position = rewind = start_session = end_session = fail


def point(updates, loss=0.5, split="train"):
    return Point(split, updates, epoch=1, values={"loss": loss})


def test_every_writer_gets_every_point():
    first, second = Recorder(), Counter()
    writers = Writers({"first": first, "second": second})
    for updates in (1, 2, 3):
        writers.write(point(updates))
    writers.close()
    assert first.points == second.points == [point(1), point(2), point(3)]
    assert first.is_closed and second.is_closed


def test_sessions_reach_only_the_writers_that_have_them():
    plain, counter = Recorder(), Counter()
    writers = Writers({"plain": plain, "counter": counter})
    writers.start_session({"lr": 0.1}, {"config": "text"})
    writers.end_session(succeeded=True)
    assert counter.sessions == [({"lr": 0.1}, {"config": "text"}), True]


def test_positions_are_kept_by_name_of_the_writers_that_rewind():
    writers = Writers({"plain": Recorder(), "counter": Counter()})
    writers.write(point(1))
    assert writers.positions() == {"counter": {"points": 1}}


def test_rewind_is_by_name_whatever_the_order():
    first, second = Counter(), Counter()
    for updates in (1, 2, 3):
        first.write(point(updates))
        second.write(point(updates))
    Writers({"first": first, "second": second}).rewind(
        {"second": {"points": 1}, "first": {"points": 2}}, updates=1
    )
    assert first.points == [point(1), point(2)]
    assert second.points == [point(1)]


def test_rewind_leaves_an_added_writer_and_ignores_a_missing_one():
    kept, added = Counter(), Counter()
    for updates in (1, 2):
        kept.write(point(updates))
        added.write(point(updates))
    writers = Writers({"added": added, "kept": kept})
    writers.rewind({"kept": {"points": 1}, "gone": {"bytes": 5}}, updates=1)
    assert kept.points == [point(1)]
    assert added.points == [point(1), point(2)]


def test_resume_with_one_more_writer_in_front_rewinds_the_others(tmp_path, caplog):
    """Positions used to be matched by order: a writer added in front raised KeyError 'bytes'."""
    before = Writers({"json_lines": JsonLinesWriter(tmp_path / "metrics.jsonl")})
    before.write(point(1))
    positions = before.positions()
    before.write(point(2))
    before.close()

    after = Writers(
        {
            "tensorboard": TensorBoardWriter(tmp_path / "tensorboard"),
            "json_lines": JsonLinesWriter(tmp_path / "metrics.jsonl"),
        }
    )
    after.rewind(positions, updates=1)
    after.write(point(2, loss=0.25))
    after.close()

    lines = (tmp_path / "metrics.jsonl").read_text().splitlines()
    assert [json.loads(line)["loss"] for line in lines] == [0.5, 0.25]
    assert not caplog.records


@pytest.mark.parametrize(
    "error", [OSError("disk is full"), KeyError("bytes"), ValueError("closed")]
)
def test_a_failing_writer_is_reported_once_and_the_others_carry_on(error, caplog):
    broken, healthy = Broken(error), Counter()
    writers = Writers({"broken": broken, "healthy": healthy})
    with caplog.at_level(logging.WARNING, logger="andiron"):
        writers.start_session({}, {})
        writers.rewind({"broken": {}, "healthy": {"points": 0}}, updates=0)
        for updates in (1, 2, 3):
            writers.write(point(updates))
        assert writers.positions() == {"healthy": {"points": 3}}
        writers.end_session(succeeded=True)
        assert [record.getMessage() for record in caplog.records] == [
            f"writer broken failed in start_session ({type(error).__name__}: {error}); "
            "training continues"
        ]
        writers.close()
    assert healthy.points == [point(1), point(2), point(3)] and healthy.is_closed
    assert caplog.records[-1].getMessage() == (
        "writer broken failed 8 times; values may be missing there"
    )


def test_a_graph_that_cannot_be_traced_is_one_line(tmp_path, caplog):
    def traced():
        raise RuntimeError("two samples are needed")

    writers = Writers({"tensorboard": TensorBoardWriter(tmp_path)})
    with caplog.at_level(logging.WARNING, logger="andiron"):
        writers.show_graph(traced)
        writers.write(point(1))
        assert writers.close() == []
    assert [record.getMessage() for record in caplog.records] == [
        "writer tensorboard failed in show_graph (RuntimeError: two samples are needed); "
        "training continues"
    ]


def test_a_failing_writer_gets_later_points():
    broken = Broken(OSError("the server is away"))
    writers = Writers({"broken": broken})
    for updates in (1, 2, 3):
        writers.write(point(updates))
    assert broken.calls == 3


def test_an_interrupt_in_a_writer_is_not_swallowed():
    writers = Writers({"broken": Broken(KeyboardInterrupt())})
    with pytest.raises(KeyboardInterrupt):
        writers.write(point(1))
