#!/usr/bin/env bash
# A Pillow picture that was opened from a file and then changed in place (thumbnail, ImageDraw, paste, putpixel) is stored as
# the file it came from, by two libraries: each sees its file name and keeps the file's bytes or path. A data set that was
# made smaller, or whose faces were painted over, holds the originals, without a word. A copy (resize, convert, image.copy())
# has no file name and is stored as it is.
# datasets 5.2.0 (also in map, and for PNG), litdata 0.2.76 (JPEG), Pillow 13.0.0; mosaicml-streaming 0.13.0 keeps the file too.
# Seen, a picture of 64 x 64 after thumbnail((8, 8)): datasets (64, 64), litdata (64, 64); a copy (8, 8) in datasets.
set -eu
folder=$(mktemp -d); trap 'rm -rf "$folder"' EXIT; cd "$folder"
if [ -z "${FINDINGS_PY:-}" ]; then
  python3 -m venv venv; venv/bin/pip install -q datasets==5.2.0 litdata==0.2.76 pillow==13.0.0 torch==2.14.1 torchvision==0.29.1; FINDINGS_PY=venv/bin/python
fi
"$FINDINGS_PY" - <<'PY'
import datasets
from PIL import Image

Image.new("RGB", (64, 64), "white").save("picture.jpg")


def smaller():
    picture = Image.open("picture.jpg")
    picture.thumbnail((8, 8))
    assert picture.size == (8, 8)
    return picture


def of_datasets(picture):
    return datasets.Dataset.from_list([{"image": picture}])[0]["image"].size


def of_litdata(picture):
    from litdata.streaming.serializers import JPEGSerializer

    serializer = JPEGSerializer()
    return tuple(serializer.deserialize(serializer.serialize(picture)[0]).shape[1:])


sizes = {reader.__name__: reader(smaller()) for reader in (of_datasets, of_litdata)}
of_copy = of_datasets(smaller().copy())
print(datasets.__version__, sizes, "copy", of_copy)
assert set(sizes.values()) == {(64, 64)} and of_copy == (8, 8), "a changed picture is stored as it is"
PY
