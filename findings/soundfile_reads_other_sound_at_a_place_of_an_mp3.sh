#!/usr/bin/env bash
# soundfile 0.14.0 (libsndfile 1.2.2): reading an MP3 from a place on, as random crops of a training set do, can give other samples than
# the whole file has there, without an error (libmpg123 writes a line to stderr). A frame of an MP3 may need bytes of many
# frames before it, and too few of them are read before the place. blocks() and repeated read(frames) from the start are wrong
# alike, since every read ends with a seek. What is wrong is as loud as the right sound and ends after some hundred samples,
# or stands where a silence ends later. Read whole, a file is as PyAV reads it; FLAC, Ogg Vorbis and WAV are exact, and so was
# an MP3 of a steady sound. Seen, 22050 Hz, noise after a second of silence: 11 of 66 places differ by more than 0.001, by up to
# 0.31 where the loudest sample is 0.47; blocks of 1000 by up to 0.31.
set -eu
folder=$(mktemp -d); trap 'rm -rf "$folder"' EXIT; cd "$folder"
if [ -z "${FINDINGS_PY:-}" ]; then
  python3 -m venv venv; venv/bin/pip install -q soundfile==0.14.0 numpy; FINDINGS_PY=venv/bin/python
fi
"$FINDINGS_PY" - <<'PY' 2> errors.txt || { tail -n 3 errors.txt; exit 1; }
import numpy
import soundfile

RATE, LENGTH = 22050, 400
sound = 0.1 * numpy.random.default_rng(0).normal(size=4 * RATE).astype("float32")
sound[:RATE] = 0
differ, largest, of_blocks = {}, {}, {}
for file in ("sound.mp3", "sound.flac", "sound.ogg", "sound.wav"):
    soundfile.write(file, sound, RATE)
    whole = soundfile.read(file, dtype="float32")[0]
    distances = []
    for place in range(1000, 3 * RATE, 997):
        part = soundfile.read(file, start=place, frames=LENGTH, dtype="float32")[0]
        distances.append(float(numpy.abs(part - whole[place : place + LENGTH]).max()))
    differ[file], largest[file] = sum(distance > 1e-3 for distance in distances), max(distances)
    joined = numpy.concatenate(list(soundfile.blocks(file, 1000, dtype="float32")))
    of_blocks[file] = float(numpy.abs(joined - whole).max())
print(soundfile.__version__, soundfile.__libsndfile_version__, len(distances), differ, largest, of_blocks)
assert all(largest[file] == of_blocks[file] == 0 for file in ("sound.flac", "sound.ogg", "sound.wav"))
assert differ["sound.mp3"] > 3 and largest["sound.mp3"] > 0.1 and of_blocks["sound.mp3"] > 0.1, "places of an MP3 are read as they are"
PY
