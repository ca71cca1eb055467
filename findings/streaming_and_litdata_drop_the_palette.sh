#!/usr/bin/env bash
# mosaicml-streaming 0.13.0 (columns of "pil") and litdata 0.2.76 (pictures that are not opened from a JPEG file) write the mode and the
# raw bytes of a Pillow picture, and not its palette. A picture of a GIF or of many a small PNG comes back in mode P with an
# empty palette; convert("RGB"), which every pipeline has, then makes it black, without a word, while greys and RGB are
# right. A transparent colour is gone too. The column "png" of streaming keeps both. Convert to RGB before writing.
# Seen, a red, a green and a blue pixel: black three times from "pil" and from litdata; as they were from "png".
set -eu
folder=$(mktemp -d); trap 'rm -rf "$folder"' EXIT; cd "$folder"
if [ -z "${FINDINGS_PY:-}" ]; then
  python3 -m venv venv; FINDINGS_PY=venv/bin/python
  venv/bin/pip install -q torch==2.14.1 mosaicml-streaming==0.13.0 litdata==0.2.76 pillow
fi
"$FINDINGS_PY" - <<'PY'
import importlib.metadata

from litdata.streaming.serializers import PILSerializer
from PIL import Image
from streaming import LocalDataset, MDSWriter

colours = [(255, 0, 0), (0, 255, 0), (0, 0, 255)]
picture = Image.new("RGB", (3, 1))
picture.putdata(colours)
picture.convert("P").save("picture.png")


def pixels_of(read):
    read = read.convert("RGB")
    return [read.getpixel((column, 0)) for column in range(3)]


pixels = {}
with Image.open("picture.png") as opened:
    assert opened.mode == "P"
    pixels["file"] = pixels_of(opened)
    for column in ("pil", "png"):
        with MDSWriter(out=column, columns={"picture": column}) as writer:
            writer.write({"picture": opened})
        pixels[column] = pixels_of(LocalDataset(column)[0]["picture"])
    serializer = PILSerializer()
    assert serializer.can_serialize(opened)
    pixels["litdata"] = pixels_of(serializer.deserialize(serializer.serialize(opened)[0]))
print({name: importlib.metadata.version(name) for name in ("mosaicml-streaming", "litdata", "pillow")}, pixels)
black = [(0, 0, 0)] * 3
assert pixels == {"file": colours, "pil": black, "png": colours, "litdata": black}, "the palette is kept"
PY
