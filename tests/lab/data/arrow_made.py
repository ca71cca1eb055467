"""Arrow files for tests, written by pyarrow and by datasets."""

import io
import json
from pathlib import Path

import numpy as np
import pyarrow as pa
from PIL import Image

SIZE = 700
CLASSES = ["cold", "mild", "warm"]


def picture(number: int) -> bytes:
    """A PNG of 12 x 14 pixels."""
    pixels = np.random.default_rng(number).integers(0, 255, (12, 14, 3), dtype=np.uint8)
    content = io.BytesIO()
    Image.fromarray(pixels).save(content, "PNG")
    return content.getvalue()


def columns(size: int = SIZE) -> dict[str, pa.Array]:
    """A column of each kind that is read by place; `x` decides `label` and `y`."""
    numbers = np.random.default_rng(0).standard_normal((size, 4)).astype(np.float32)
    label = (numbers[:, 0] > 0).astype(np.int64) + (numbers[:, 1] > 0)
    return {
        "x": pa.FixedSizeListArray.from_arrays(pa.array(numbers.ravel()), 4),
        "label": pa.array(label),
        "y": pa.array((numbers @ [1.0, -2.0, 0.5, 0.0]).astype(np.float64)),
        "tokens": pa.array([[*range(row, row + 3)] for row in range(size)], pa.list_(pa.int64())),
        "uneven": pa.array([[1] * (row % 4) for row in range(size)], pa.large_list(pa.int32())),
        "flag": pa.array([row % 3 == 0 for row in range(size)]),
        "half": pa.array(numbers[:, 0].astype(np.float16)),
        "small": pa.array(np.arange(size).astype(np.uint16)),
        "word": pa.array([f"no {row} é" for row in range(size)], pa.string()),
        "letters": pa.array([b"x" * (row % 5) for row in range(size)], pa.large_binary()),
        "site": pa.array([f"site {row % 7}" for row in range(size)]),
        "image": pa.array([{"bytes": picture(row % 9), "path": None} for row in range(size)],
                          pa.struct([("bytes", pa.binary()), ("path", pa.string())])),
    }  # fmt: skip


FEATURES = {
    "label": {"_type": "ClassLabel", "names": CLASSES},
    "image": {"_type": "Image"},
}


def table(size: int = SIZE, **changed: pa.Array) -> pa.Table:
    """The columns as a table, with what datasets says of them."""
    said = json.dumps({"info": {"features": FEATURES}})
    made = pa.table(columns(size) | changed)
    return made.replace_schema_metadata({b"huggingface": said.encode()})


def write(path: Path, rows: pa.Table, *, is_stream: bool = True, batch: int = 37) -> Path:
    """The table as a file in record batches."""
    path.parent.mkdir(parents=True, exist_ok=True)
    make = pa.ipc.new_stream if is_stream else pa.ipc.new_file
    with make(str(path), rows.schema) as writer:
        writer.write_table(rows, max_chunksize=batch)
    return path


def folder(path: Path, rows: pa.Table | None = None) -> Path:
    """A folder of three files, as `datasets.save_to_disk` writes it."""
    rows = table() if rows is None else rows
    names = [f"data-{number:05d}-of-00003.arrow" for number in range(3)]
    cuts = [0, len(rows) // 3, len(rows) // 2, len(rows)]
    for name, begin, end in zip(names, cuts, cuts[1:]):
        write(path / name, rows.slice(begin, end - begin))
    state = {"_data_files": [{"filename": name} for name in names]}
    (path / "state.json").write_text(json.dumps(state))
    return path
