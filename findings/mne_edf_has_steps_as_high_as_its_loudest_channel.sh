#!/usr/bin/env bash
# MNE 1.13.2: export of a Raw as EDF gives all channels of one type the range of the loudest sample among them (physical_range="auto"), and EDF has 16 bits.
# One electrode that came off, a mains artifact or a stimulation pulse of a volt leaves a step of 30 microvolts for all others, whose signal is 10: they
# come back as two or three levels, with the right mean and almost the right deviation, so that a check of statistics passes. Recordings
# with such an electrode, marked bad or not, then teach noise, and recordings without do not. No warning. The mark is not in the file.
# physical_range="channelwise", or BrainVision, keeps the signal. MNE's page says what "auto" does, not what it costs.
# Seen, two channels of 10 microvolts and a bad one of 1 V, 2,560 samples each: EDF 3 levels and errors up to 15 microvolts; channelwise 2,458 levels,
# errors below 0.002; without the bad channel 2,459 levels.
set -eu
folder=$(mktemp -d); trap 'rm -rf "$folder"' EXIT; cd "$folder"
if [ -z "${FINDINGS_PY:-}" ]; then
  python3 -m venv venv; venv/bin/pip install -q mne==1.13.2 edfio==0.4.18 numpy==2.4.6; FINDINGS_PY=venv/bin/python
fi
"$FINDINGS_PY" - <<'PY'
import warnings

import edfio
import mne
import numpy

warnings.simplefilter("error")
signals = numpy.random.default_rng(0).normal(size=(3, 2560)) * 10e-6
signals[2] = numpy.linspace(-1, 1, 2560)
recording = mne.io.RawArray(signals, mne.create_info(["A", "B", "off"], 256, "eeg"), verbose="error")
recording.info["bads"] = ["off"]


def read_back(raw, **options):
    mne.export.export_raw("recording.edf", raw, overwrite=True, verbose="warning", **options)
    read = mne.io.read_raw_edf("recording.edf", verbose="error")
    values = read.get_data()[:2]
    error = float(abs(values - signals[:2]).max()) * 1e6
    return len(numpy.unique(values[0])), round(error, 3), read.info["bads"]


seen = {
    "auto": read_back(recording),
    "channelwise": read_back(recording, physical_range="channelwise"),
    "without it": read_back(recording.copy().drop_channels(["off"])),
}
print(mne.__version__, edfio.__version__, "levels, error in microvolts, marked as bad:", seen)
assert seen["auto"][0] <= 3 and seen["auto"][1] > 10 and seen["auto"][2] == [], "channels have ranges of their own"
for name in ("channelwise", "without it"):
    assert seen[name][0] > 2000 and seen[name][1] < 0.01
PY
