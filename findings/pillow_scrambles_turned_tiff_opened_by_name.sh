#!/usr/bin/env bash
# Pillow 13.0.0 (11.0.0 and 12.0.0 too; 10.4.0 is right): Image.open(path) of an uncompressed TIFF in one strip whose orientation tag says a quarter turn (5 to 8)
# gives noise, if the picture is grey, 16-bit grey, palette, RGBA or CMYK. Such files are mapped into memory, and since the size of a TIFF is
# the turned one from the start, the rows of the file are cut at the other side's length; then the picture is turned. A square one is right, so is
# colour without alpha (not mapped), a compressed file, and the same file by Image.open(open(path, "rb")), which has no name to map: ImageFolder
# of torchvision 0.29.1 reads it right, imagefolder of datasets 5.2.0 and numpy.asarray(Image.open(path)) do not. Pillow cannot read what it
# wrote itself. Grey pictures of scanners, and masks (palette, grey) whose pictures in colour are right, become noise. No report was seen.
# Seen, 1, 2, 3 over 4, 5, 6 with orientation 6: by an open file 4, 1 / 5, 2 / 6, 3, by its path 5, 3, 1 / 6, 4, 2; five kinds of pixels wrong by path, RGB right.
set -eu
folder=$(mktemp -d); trap 'rm -rf "$folder"' EXIT; cd "$folder"
if [ -z "${FINDINGS_PY:-}" ]; then
  python3 -m venv venv; venv/bin/pip install -q pillow==13.0.0 numpy==2.4.6; FINDINGS_PY=venv/bin/python
fi
"$FINDINGS_PY" - <<'PY'
import numpy
import PIL
from PIL import Image

TURN, COLOURS = Image.Exif(), {"P", "L", "I;16", "RGBA", "CMYK", "RGB"}
TURN[274] = 6


def by_path_and_file(picture, **options):
    picture.save("turned.tif", exif=TURN, **options)
    with open("turned.tif", "rb") as file:
        return numpy.asarray(Image.open("turned.tif")), numpy.asarray(Image.open(file))


grey = numpy.array([[1, 2, 3], [4, 5, 6]], "uint8")
by_path, by_file = by_path_and_file(Image.fromarray(grey))
print(PIL.__version__, "by path", by_path.tolist(), "by file", by_file.tolist())
assert by_file.tolist() == [[4, 1], [5, 2], [6, 3]]
assert by_path.tolist() == [[5, 3, 1], [6, 4, 2]], "a path is read as a file is"
wide = numpy.arange(600, dtype="uint8").reshape(20, 30)
pictures = {kind: Image.fromarray(wide).convert(kind) for kind in COLOURS - {"I;16"}}
pictures["I;16"] = Image.fromarray(wide.astype("uint16") * 256)
right = {kind: numpy.array_equal(*by_path_and_file(picture)) for kind, picture in pictures.items()}
packed = numpy.array_equal(*by_path_and_file(pictures["L"], compression="tiff_lzw"))
square = numpy.array_equal(*by_path_and_file(pictures["L"].crop((0, 0, 20, 20))))
print("alike by path and file:", right, "compressed", packed, "square", square)
assert right == {kind: kind == "RGB" for kind in COLOURS}, "other kinds of pixels are mapped"
assert packed and square
PY
