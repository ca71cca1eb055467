"""Writers that keep the points of a run in memory."""


class Kept(list):
    """A writer that keeps the points; it has `is_closed` once it is closed."""

    def write(self, point):
        self.append(point)

    def close(self):
        self.is_closed = True

    def of(self, split):
        """The updates and values of one split."""
        return [(point.updates, dict(point.values)) for point in self if point.split == split]

    def untimed(self):
        """The written values, without times and the machine's usage."""
        return [
            (
                point.split, point.updates, point.epoch, point.whole_epoch,
                {
                    name: value
                    for name, value in point.values.items()
                    if not name.startswith(("time/", "system/"))
                },
            )
            for point in self
        ]  # fmt: skip


class Rewound(Kept):
    """Kept points that go back to where a resumed run begins."""

    def position(self):
        return {"points": len(self)}

    def rewind(self, position, updates):
        del self[position["points"] :]
