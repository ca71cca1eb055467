#!/usr/bin/env bash
# imageio 2.38.1 with imageio-ffmpeg 0.8.1, its default for videos: a file whose frames are unevenly spaced in time (phones, screens, webcams) is read at
# the stream's nominal rate, frames repeated to fill the gaps; plugin="pyav" of the same imageio, PyAV 18.1.0 and OpenCV 5.0.0.93 give each stored frame
# once. Annotations by frame number that were made with one of them belong to other pictures in another, from the first gap on, and
# a sample of frames weighs still ones more. ffmpeg is run without -fps_mode, whose default for raw output is a constant rate.
# Nothing warns. Give output_params=["-fps_mode", "passthrough"], or plugin="pyav". Seen, 6 frames at 0, 1, 2, 10, 11 and 30 / 25 s: default 31 frames, number 5 is
# the third one; pyav and OpenCV 6 frames, number 5 is the sixth.
set -eu
folder=$(mktemp -d); trap 'rm -rf "$folder"' EXIT; cd "$folder"
if [ -z "${FINDINGS_PY:-}" ]; then
  python3 -m venv venv; venv/bin/pip install -q imageio==2.38.1 imageio-ffmpeg==0.8.1 av==18.1.0 opencv-python-headless==5.0.0.93 numpy==2.4.6; FINDINGS_PY=venv/bin/python
fi
"$FINDINGS_PY" - <<'PY'
import fractions

import av
import cv2
import imageio
import imageio_ffmpeg
import imageio.v3
import numpy

GREYS, TIMES, SECOND = [0, 40, 80, 120, 160, 200], [0, 1, 2, 10, 11, 30], 25
with av.open("video.mp4", "w") as container:
    stream = container.add_stream("mpeg4", rate=SECOND)
    stream.width = stream.height = 64
    stream.pix_fmt = "yuv420p"
    for grey, time in zip(GREYS, TIMES, strict=True):
        frame = av.VideoFrame.from_ndarray(numpy.full((64, 64, 3), grey, "uint8"), format="rgb24")
        frame.pts, frame.time_base = time, fractions.Fraction(1, SECOND)
        container.mux(stream.encode(frame))
    container.mux(stream.encode())


def by_opencv():
    video = cv2.VideoCapture("video.mp4")
    while (read := video.read())[0]:
        yield read[1]


def which(frames):
    return [int(round(frame[32, 32, 0] / 40)) for frame in frames]


PASSED = {"output_params": ["-fps_mode", "passthrough"]}
frames = {
    "default": which(imageio.v3.imiter("video.mp4")),
    "passthrough": which(imageio.v3.imiter("video.mp4", **PASSED)),
    "pyav": which(imageio.v3.imiter("video.mp4", plugin="pyav")),
    "opencv": which(by_opencv()),
}
print(imageio.__version__, imageio_ffmpeg.get_ffmpeg_version(), av.__version__, cv2.__version__, frames)
stored = [0, 1, 2, 3, 4, 5]
assert frames["passthrough"] == frames["pyav"] == frames["opencv"] == stored
assert len(frames["default"]) == 31 and frames["default"][5] == 2, "frames are given once"
PY
