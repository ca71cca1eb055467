#!/usr/bin/env bash
# tensorboard 2.21.0: the start of a session, which SummaryWriter(purge_step=...) writes, hides no point in the default server.
# Its fast loader (--load_fast=true) ignores it: a tag that is not written again keeps the points beyond the step. EventAccumulator obeys it.
# Seen: after 10 points and a purge from step 5, EventAccumulator has steps 0 to 4, the server 0 to 9.
set -eu
folder=$(mktemp -d); trap 'rm -rf "$folder"' EXIT; cd "$folder"
if [ -z "${FINDINGS_PY:-}" ]; then
  python3 -m venv venv; venv/bin/pip install -q tensorboard==2.21.0; FINDINGS_PY=venv/bin/python
fi
"$FINDINGS_PY" - <<'PY'
import json, socket, subprocess, sys, time, urllib.request

import tensorboard
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
from tensorboard.compat.proto.event_pb2 import Event, SessionLog
from tensorboard.compat.proto.summary_pb2 import Summary
from tensorboard.summary.writer.event_file_writer import EventFileWriter

def write(*events):
    writer = EventFileWriter("run")
    for event in events:
        writer.add_event(event)
    writer.close()
    time.sleep(1.1)  # files are read in order of their second

def point(tag, step):
    summary = Summary(value=[Summary.Value(tag=tag, simple_value=float(step))])
    return Event(wall_time=time.time(), step=step, summary=summary)

write(*(point("loss", step) for step in range(10)))
start = Event(wall_time=time.time(), step=5, session_log=SessionLog(status=SessionLog.START))
write(start, point("other", 5))
accumulator = EventAccumulator("run")
accumulator.Reload()
obeyed = [event.step for event in accumulator.Scalars("loss")]

with socket.socket() as free:
    free.bind(("127.0.0.1", 0))
    port = free.getsockname()[1]
command = [sys.executable, "-m", "tensorboard.main", "--logdir", ".", "--host", "127.0.0.1",
           "--port", str(port), "--load_fast=true"]
server = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
url = f"http://127.0.0.1:{port}/data/plugin/scalars/scalars?run=run&tag=loss"
try:
    for _ in range(120):
        try:
            served = [step for _, step, _ in json.load(urllib.request.urlopen(url))]
            break
        except OSError:
            time.sleep(1)
finally:
    server.terminate()
    server.wait()
print(tensorboard.__version__, obeyed, served)
assert obeyed == [*range(5)] and served == [*range(10)], "the server obeys purge_step now"
PY
