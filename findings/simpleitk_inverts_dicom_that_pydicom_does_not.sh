#!/usr/bin/env bash
# SimpleITK 2.5.7 gives the negative of a DICOM file whose PhotometricInterpretation is MONOCHROME1 (0 is white: much of mammography and
# radiography), 2**BitsStored - 1 minus the stored value, and applies slope and intercept to the negative; pydicom 3.0.2 gives the values
# as they are stored, by pixel_array and by apply_modality_lut. Both give alike what is MONOCHROME2. A network that was trained on one
# reader's pictures and is used behind the other sees negatives of a part of the studies, by the vendor of the device, and
# values with a unit are others. Nothing in the array or in SimpleITK's direction, spacing or origin tells.
# Seen, 12 bits stored, intercept -1024, of 0, 1, 100, 4095: pydicom -1024, -1023, -924, 3071; SimpleITK 3071, 3070, 2971, -1024.
set -eu
folder=$(mktemp -d); trap 'rm -rf "$folder"' EXIT; cd "$folder"
if [ -z "${FINDINGS_PY:-}" ]; then
  python3 -m venv venv; venv/bin/pip install -q SimpleITK==2.5.7 pydicom==3.0.2 numpy; FINDINGS_PY=venv/bin/python
fi
"$FINDINGS_PY" - <<'PY'
import numpy
import pydicom
import SimpleITK
from pydicom.dataset import Dataset, FileMetaDataset
from pydicom.uid import CTImageStorage, ExplicitVRLittleEndian

STORED = [0, 1, 100, 4095]


def write(path, kind):
    image = Dataset()
    image.file_meta = FileMetaDataset()
    image.file_meta.TransferSyntaxUID = ExplicitVRLittleEndian
    image.SOPClassUID = image.file_meta.MediaStorageSOPClassUID = CTImageStorage
    image.SOPInstanceUID = image.file_meta.MediaStorageSOPInstanceUID = "1.2.3.4"
    image.StudyInstanceUID, image.SeriesInstanceUID, image.InstanceNumber = "1.2.4", "1.2.5", 1
    image.ImagePositionPatient, image.ImageOrientationPatient = [0, 0, 0], [1, 0, 0, 0, 1, 0]
    image.PixelSpacing, image.SliceThickness = [1, 1], 1
    image.Rows = image.Columns = 2
    image.SamplesPerPixel, image.PhotometricInterpretation, image.PixelRepresentation = 1, kind, 0
    image.BitsAllocated, image.BitsStored, image.HighBit = 16, 12, 11
    image.RescaleSlope, image.RescaleIntercept = 1, -1024
    image.PixelData = numpy.array(STORED, "u2").tobytes()
    image.save_as(path, enforce_file_format=True)


values = {}
for kind in ("MONOCHROME1", "MONOCHROME2"):
    write("picture.dcm", kind)
    picture = pydicom.dcmread("picture.dcm")
    rescaled = pydicom.pixels.apply_modality_lut(picture.pixel_array, picture)
    by_itk = SimpleITK.GetArrayFromImage(SimpleITK.ReadImage("picture.dcm"))
    values[kind] = (rescaled.ravel().tolist(), by_itk.ravel().tolist())
print(pydicom.__version__, SimpleITK.Version.VersionString(), "pydicom, SimpleITK:", values)
right = [value - 1024 for value in STORED]
assert values["MONOCHROME2"] == (right, right)
assert values["MONOCHROME1"] == (right, [3071, 3070, 2971, -1024]), "MONOCHROME1 is read alike"
PY
