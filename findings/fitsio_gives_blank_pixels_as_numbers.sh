#!/usr/bin/env bash
# fitsio 1.4.2 (cfitsio) reads the pixels that a FITS image of integers marks as undefined by BLANK as the number that stands for them, times BSCALE plus
# BZERO; astropy 8.0.2 makes them NaN, which needs float32 or float64. A survey cut out at the edge of the plate, or a masked star, is then a plateau of
# -32768 (or of -8 in Jy, or what the scale makes of it) in training, behind one reader, and NaN behind the other.
# Images of unsigned integers (BZERO 32768) have the number in both: astropy looks for BLANK in signed ones alone (its open pull request 16636).
# Look for BLANK in the header before training. Seen, -32768, -1, 1 with BLANK -32768: astropy NaN, -1, 1; fitsio -32768, -1, 1;
# BSCALE 0.5: NaN, -0.5, 0.5 and -16384, -0.5, 0.5; BZERO 32768: 0, 32767, 32769 in both.
set -eu
folder=$(mktemp -d); trap 'rm -rf "$folder"' EXIT; cd "$folder"
if [ -z "${FINDINGS_PY:-}" ]; then
  python3 -m venv venv; venv/bin/pip install -q fitsio==1.4.2 astropy==8.0.2 numpy==2.4.6; FINDINGS_PY=venv/bin/python
fi
"$FINDINGS_PY" - <<'PY'
import astropy
import fitsio
import numpy
from astropy.io import fits

STORED = numpy.array([-32768, -1, 1], "int16")


def read(scale, zero):
    fits.PrimaryHDU(STORED).writeto("image.fits", overwrite=True)
    with fits.open("image.fits", mode="update", do_not_scale_image_data=True) as file:
        file[0].header.update({"BSCALE": scale, "BZERO": zero, "BLANK": -32768})
    values = fits.getdata("image.fits").astype(float), fitsio.read("image.fits").astype(float)
    return [["NaN" if numpy.isnan(value) else float(value) for value in array] for array in values]


images = {"plain": read(1, 0), "BSCALE 0.5": read(0.5, 0), "BZERO 32768": read(1, 32768)}
print(astropy.__version__, fitsio.__version__, "astropy, fitsio:", images)
assert images["plain"] == [["NaN", -1, 1], [-32768, -1, 1]], "BLANK is read alike"
assert images["BSCALE 0.5"] == [["NaN", -0.5, 0.5], [-16384, -0.5, 0.5]], "scaled BLANK is read alike"
assert images["BZERO 32768"] == [[0, 32767, 32769]] * 2, "unsigned BLANK has changed"
PY
