"""Columns of a table in files, of which one at a time is in memory."""

from collections.abc import Iterable, Iterator, MutableMapping, Sequence
from pathlib import Path

import polars

from andiron import errors
from andiron.data.on_disk.columns import Workspace
from andiron.progress import watched

BATCH_ROWS = 2**16  # of a text file, in memory at a time


class ColumnFiles(MutableMapping[str, polars.Series]):
    """Columns by name, each in an Arrow file of `folder`; none is kept in memory."""

    def __init__(self, folder: Path, names: Sequence[str] = (), kind: str = "column"):
        self.folder, self._kind = folder, kind
        self._places = {name: place for place, name in enumerate(names)}

    def __getitem__(self, name: str) -> polars.Series:
        path = self._file(self._places[name])
        try:
            return polars.read_ipc(path)["values"].rechunk()
        except (OSError, polars.exceptions.PolarsError) as error:
            raise errors.DataError(
                f"{path}: cannot be read ({errors.first_line(error)}); remove the folder "
                f"{self.folder}, which the next run writes again"
            ) from error

    def __setitem__(self, name: str, values: polars.Series) -> None:
        place = self._places.setdefault(name, len(self._places))
        values.alias("values").to_frame().write_ipc(self._file(place))

    def __delitem__(self, name: str) -> None:
        self._file(self._places.pop(name)).unlink()

    def __iter__(self) -> Iterator[str]:
        return iter(self._places)

    def __len__(self) -> int:
        return len(self._places)

    def _file(self, place: int) -> Path:
        return self.folder / f"{self._kind}-{place}.arrow"


def workspace_in(folder: Path, columns: ColumnFiles) -> Workspace:
    """A workspace for tables of any size: `columns` are files, and texts are files of `folder`."""

    def source(pieces: Iterable[bytes]) -> Path:
        path = folder / "source.csv"
        with path.open("wb") as file:
            file.writelines(pieces)
        return path

    def staged(texts: polars.LazyFrame) -> polars.LazyFrame:
        batches = texts.collect_batches(chunk_size=BATCH_ROWS, maintain_order=True)
        paths = list[Path]()
        for batch in watched(batches, f"rows of text, in groups of about {BATCH_ROWS:,}"):
            paths.append(folder / f"{len(paths)}.parquet")
            batch.write_parquet(paths[-1], compression="lz4", statistics=False)
        return polars.scan_parquet(paths, glob=False) if paths else texts

    return Workspace(columns=columns, limit=float("inf"), source=source, staged=staged)
