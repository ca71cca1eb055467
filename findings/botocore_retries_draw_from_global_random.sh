#!/usr/bin/env bash
# A retry of botocore draws its pause from Python's global generator: one answer 503 of an object
# store moves a program's `random`, so that a seeded shuffle after an upload has another order.
# botocore 1.43.117, in its retry modes legacy and standard; a call without a retry draws nothing.
# Output: legacy: no retry, same shuffle True; one retry, same shuffle False
#         standard: no retry, same shuffle True; one retry, same shuffle False
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python=${FINDINGS_PY:-}
if [ -z "$python" ]; then
  python3 -m venv venv
  python=$folder/venv/bin/python
  "$python" -m pip install -q botocore==1.43.117
fi
"$python" - <<'PYTHON'
import random
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer

from botocore.config import Config
from botocore.session import Session


class Store(BaseHTTPRequestHandler):
    failures = 0

    def do_PUT(self) -> None:
        self.rfile.read(int(self.headers["Content-Length"]))
        code, Store.failures = (503, Store.failures - 1) if Store.failures else (200, 0)
        self.send_response(code)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *_: object) -> None:
        pass


server = HTTPServer(("127.0.0.1", 0), Store)
threading.Thread(target=server.serve_forever, daemon=True).start()


def shuffled(mode: str, failures: int | None) -> list[int]:
    client = Session().create_client(
        "s3", region_name="us-east-1", endpoint_url=f"http://127.0.0.1:{server.server_port}",
        aws_access_key_id="a", aws_secret_access_key="b", config=Config(retries={"mode": mode}),
    )
    random.seed(0)
    if failures is not None:
        Store.failures = failures
        client.put_object(Bucket="b", Key="k", Body=b"x")
        assert Store.failures == 0
    numbers = [*range(10)]
    random.shuffle(numbers)
    return numbers


is_as_found = True
for mode in ("legacy", "standard"):
    plain = shuffled(mode, None)
    quiet, retried = (shuffled(mode, failures) == plain for failures in (0, 1))
    print(f"{mode}: no retry, same shuffle {quiet}; one retry, same shuffle {retried}")
    is_as_found &= quiet and not retried
raise SystemExit(not is_as_found)
PYTHON
