#!/usr/bin/env bash
# mlflow 3.17.2: the value of a metric that a run shows, that search_runs sorts by and get_run returns, is that of the highest
# step ever logged, not the last one. A run that was killed at step 3, goes on from a checkpoint of step 1 and ends at step 2
# keeps the value of the step that was given up. Of several values with one step and one millisecond, as log_batch gives
# them, the largest counts, which for a loss is the worst, and the history is sorted by value.
# Seen: steps 0 to 3, then 1 and 2 again: 7.0 of the old step 3 is shown, not 0.4; values 3, 5, 1 at once: 5.0, history 1, 3, 5.
set -eu
folder=$(mktemp -d); trap 'rm -rf "$folder"' EXIT; cd "$folder"
if [ -z "${FINDINGS_PY:-}" ]; then
  python3 -m venv venv; venv/bin/pip install -q mlflow==3.17.2; FINDINGS_PY=venv/bin/python
fi
"$FINDINGS_PY" - <<'PY'
import logging
import time

import mlflow
from mlflow.entities import Metric

logging.disable(logging.CRITICAL)
mlflow.set_tracking_uri("sqlite:///runs.db")
client = mlflow.MlflowClient()
with mlflow.start_run() as run:
    for step, loss in ((0, 10.0), (1, 9.0), (2, 8.0), (3, 7.0), (1, 0.5), (2, 0.4)):
        mlflow.log_metric("loss", loss, step=step)
        time.sleep(0.01)
    now = int(time.time() * 1000)
    client.log_batch(run.info.run_id, [Metric("at_once", value, now, 0) for value in (3.0, 5.0, 1.0)])
shown = client.get_run(run.info.run_id).data.metrics
searched = float(mlflow.search_runs()["metrics.loss"].iloc[0])
history = [point.value for point in client.get_metric_history(run.info.run_id, "at_once")]
print(mlflow.__version__, shown, "searched", searched, "history", history)
assert shown == {"loss": 7.0, "at_once": 5.0} and searched == 7.0 and history == [1.0, 3.0, 5.0], "the last value is shown"
PY
