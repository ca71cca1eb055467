#!/usr/bin/env bash
# nibabel 5.4.2: a mask of float labels (from a resampling, a mean, or get_fdata) that is saved under the header of an integer
# image, nibabel.Nifti1Image(mask, image.affine, image.header), is stretched over all integers of that type, as a picture would be. The
# labels come back a little beside themselves, and get_fdata().astype(int), which is how masks are read, cuts 0.99999 to 0:
# whole classes become the one below, one of two labels or all of them. No warning; the file looks right in a viewer. Cast the
# mask to an integer before it is saved, or set_data_dtype, or round what is read.
# Seen, label 1 of a mask of 0 and 1 under int16: 0.99999999977, class 0; of labels 0 to 2 under uint8: 1 is 0.996, class 0.
set -eu
folder=$(mktemp -d); trap 'rm -rf "$folder"' EXIT; cd "$folder"
if [ -z "${FINDINGS_PY:-}" ]; then
  python3 -m venv venv; venv/bin/pip install -q nibabel==5.4.2 numpy==2.4.6; FINDINGS_PY=venv/bin/python
fi
"$FINDINGS_PY" - <<'PY'
import nibabel
import numpy


def read_back(labels, header_dtype, saved_as):
    image = nibabel.Nifti1Image(numpy.zeros((2, 2, 2), header_dtype), numpy.eye(4))
    mask = numpy.resize(numpy.arange(labels), (2, 2, 2)).astype(saved_as)
    nibabel.save(nibabel.Nifti1Image(mask, image.affine, image.header), "mask.nii")
    values = nibabel.load("mask.nii").get_fdata()
    return sorted(set(values.ravel().tolist())), sorted(set(values.astype(int).ravel().tolist()))


two, three, whole = read_back(2, "int16", "float32"), read_back(3, "uint8", "float32"), read_back(3, "uint8", "uint8")
print(nibabel.__version__, "0, 1 under int16:", two, "0 to 2 under uint8:", three, "from integers:", whole)
assert two[1] == [0] and three[1] == [0, 2], "labels are saved as they are"
assert whole == ([0.0, 1.0, 2.0], [0, 1, 2])
PY
