#!/usr/bin/env bash
# imageio 2.38.1: imageio.v3.imread(file) of a DICOM file looks through its folder, and the folders below, for series, and gives
# the first of them, which need not have the file that was named: every file of a folder is read as one and the same picture, of
# another series or patient, and as a volume if that series has several slices. Nothing but a line on stdout, "Found 2
# correct series", says so. The imread of imageio.v2 gives the file; volread does as v3. pydicom.dcmread(file).pixel_array gives the file.
# Seen, a series of the slices 11 and 22 beside a single picture of 55, which is read: v3 [11, 22] in the shape [2, 4, 4], v2
# [55], pydicom [55]; a file of 66 in the folder above: v3 [11, 22].
set -eu
folder=$(mktemp -d); trap 'rm -rf "$folder"' EXIT; cd "$folder"
if [ -z "${FINDINGS_PY:-}" ]; then
  python3 -m venv venv; venv/bin/pip install -q imageio==2.38.1 pydicom==3.0.2 numpy; FINDINGS_PY=$folder/venv/bin/python
fi
mkdir -p files/first; cd files  # apart from the venv, in whose packages there are DICOM files too
"$FINDINGS_PY" - <<'PY'
import imageio
import imageio.v2
import imageio.v3
import numpy
import pydicom
from pydicom.dataset import Dataset, FileMetaDataset
from pydicom.uid import CTImageStorage, ExplicitVRLittleEndian


def write(path, value, series, place=0):
    image = Dataset()
    image.file_meta = FileMetaDataset()
    image.file_meta.TransferSyntaxUID = ExplicitVRLittleEndian
    image.SOPClassUID = image.file_meta.MediaStorageSOPClassUID = CTImageStorage
    image.SOPInstanceUID = image.file_meta.MediaStorageSOPInstanceUID = f"1.2.3.{series}.{place + 1}"
    image.StudyInstanceUID, image.SeriesInstanceUID, image.SeriesNumber = "1.2.4", f"1.2.5.{series}", series
    image.InstanceNumber, image.ImagePositionPatient = place + 1, [0, 0, place]
    image.ImageOrientationPatient, image.PixelSpacing, image.SliceThickness = [1, 0, 0, 0, 1, 0], [1, 1], 1
    image.Rows = image.Columns = 4
    image.SamplesPerPixel, image.PhotometricInterpretation, image.PixelRepresentation = 1, "MONOCHROME2", 0
    image.BitsAllocated = image.BitsStored = 16
    image.HighBit, image.PixelData = 15, numpy.full((4, 4), value, "u2").tobytes()
    image.save_as(path, enforce_file_format=True)


write("first/a.dcm", 11, 1)
write("first/b.dcm", 22, 1, place=1)
write("first/other.dcm", 55, 2)
write("above.dcm", 66, 3)
readers = {
    "v3": imageio.v3.imread,
    "v2": imageio.v2.imread,
    "pydicom": lambda path: pydicom.dcmread(path).pixel_array,
}
values = {}
for path in ("first/other.dcm", "above.dcm"):
    for name, read in readers.items():
        pixels = numpy.asarray(read(path))
        values[path, name] = (pixels.shape, sorted(set(pixels.ravel().tolist())))
print(imageio.__version__, pydicom.__version__, values)
for path, value in (("first/other.dcm", 55), ("above.dcm", 66)):
    assert values[path, "v2"] == values[path, "pydicom"] == ((4, 4), [value])
    assert values[path, "v3"] == ((2, 4, 4), [11, 22]), "the file that is named is read"
PY
