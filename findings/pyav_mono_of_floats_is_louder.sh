#!/usr/bin/env bash
# PyAV 18.1.0 (FFmpeg 8): AudioResampler(layout="mono") to a float format gives stereo sound 1.41 times as loud as to an integer format, and beyond 1.0 where both
# channels are loud: FFmpeg adds channels with a weight of 0.707 and divides by the sum of the weights only if the output holds integers. librosa,
# and the mean that most code takes, agree with the integers. So the level of a file depends on the loader's sample format:
# a network trained on one and served by the other (Transformers' pipelines ask FFmpeg for mono floats) hears all stereo files 3 dB louder, mono
# files not, and a later int16 cuts the peaks. madmom's issue 508 has it for the program ffmpeg. Ask for s16, or resample with the
# channels kept and take their mean. Seen, a sine of 0.8 in both channels: s16 and s32 0.8, flt and dbl 1.13, librosa 0.8; mono file: 0.8 for all.
set -eu
folder=$(mktemp -d); trap 'rm -rf "$folder"' EXIT; cd "$folder"
if [ -z "${FINDINGS_PY:-}" ]; then
  python3 -m venv venv; venv/bin/pip install -q av==18.1.0 librosa==0.11.0 soundfile==0.14.0 numpy==2.4.6; FINDINGS_PY=venv/bin/python
fi
"$FINDINGS_PY" - <<'PY'
import av
import librosa
import numpy
import soundfile

RATE, WHOLE = 16_000, {"s16": 2**15, "s32": 2**31, "flt": 1, "dbl": 1}
sine = 0.8 * numpy.sin(2 * numpy.pi * 440 * numpy.arange(RATE) / RATE)
soundfile.write("stereo.wav", numpy.stack([sine, sine], 1), RATE, subtype="PCM_16")
soundfile.write("mono.wav", sine, RATE, subtype="PCM_16")


def peak(path, sample_format):
    resampler = av.AudioResampler(format=sample_format, layout="mono", rate=RATE)
    with av.open(path) as container:
        frames = [part for frame in container.decode(audio=0) for part in resampler.resample(frame)]
    sound = numpy.concatenate([frame.to_ndarray() for frame in [*frames, *resampler.resample(None)]], 1)
    return round(float(numpy.abs(sound.astype(float)).max()) / WHOLE[sample_format], 2)


peaks = {path: {name: peak(path, name) for name in WHOLE} for path in ("stereo.wav", "mono.wav")}
by_librosa = round(float(numpy.abs(librosa.load("stereo.wav", sr=None, mono=True)[0]).max()), 2)
print(av.__version__, av.library_versions["libswresample"], peaks, "librosa", by_librosa)
assert set(peaks["mono.wav"].values()) == {0.8} and by_librosa == 0.8
assert peaks["stereo.wav"] == {"s16": 0.8, "s32": 0.8, "flt": 1.13, "dbl": 1.13}, "levels are alike"
PY
