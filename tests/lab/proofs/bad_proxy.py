"""A proxy before an HTTP server that cuts, slows, refuses and lies about lengths, by chance.

Every request has a connection of its own, and so its own fault.
"""

import random
import re
import socket
import threading
import time
from contextlib import suppress

PIECE = 16_384
LENGTH = re.compile(rb"(?i)(\r\nContent-Length: *)(\d+)")
REFUSED = b"HTTP/1.1 %d Refused\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
FAULTS = ("cut request", "cut answer", "slow", "503", "507", "short request", "short answer")


class BadProxy:
    """Listens at `port`; `share` of the requests have a fault. `is_away`: none is answered."""

    def __init__(self, server: int, seed: int, share: float):
        self._server, self._random = server, random.Random(seed)
        self.share, self.is_away = share, False
        self.faults = dict.fromkeys(FAULTS, 0)
        self._listener = socket.create_server(("127.0.0.1", 0), backlog=256)
        self.port = self._listener.getsockname()[1]
        threading.Thread(target=self._listen, daemon=True).start()

    def close(self) -> None:
        self._listener.close()

    def _listen(self) -> None:
        with suppress(OSError):  # closed
            while True:
                client, _ = self._listener.accept()
                fault = None
                if self._random.random() < self.share:
                    fault = self._random.choice(FAULTS)
                    self.faults[fault] += 1
                at = self._random.randrange(1, 300_000)
                arguments = client, fault, at
                threading.Thread(target=self._pass_on, args=arguments, daemon=True).start()

    def _pass_on(self, client: socket.socket, fault: str | None, at: int) -> None:
        with client, suppress(OSError):
            if self.is_away:
                return
            client.settimeout(30)
            head = _head(client)
            if fault in ("503", "507"):
                with suppress(OSError):
                    client.sendall(REFUSED % int(fault))
                return
            start, _, body = head.partition(b"\r\n\r\n")
            start = re.sub(rb"(?i)\r\nConnection:[^\r]*", b"", start) + b"\r\nConnection: close"
            if fault == "short request":
                start = _shortened(start)
            with socket.create_connection(("127.0.0.1", self._server), timeout=30) as server:
                server.sendall(start + b"\r\n\r\n" + body)
                sending = threading.Thread(
                    target=_pump,
                    args=(client, server, at if fault == "cut request" else None, fault == "slow"),
                    daemon=True,
                )
                sending.start()
                answer = _head(server)
                if fault == "short answer":
                    start, _, body = answer.partition(b"\r\n\r\n")
                    answer = _shortened(start) + b"\r\n\r\n" + body
                client.sendall(answer)
                _pump(server, client, at if fault == "cut answer" else None, fault == "slow")


def _head(end: socket.socket) -> bytes:
    """The bytes up to the end of a head, with whatever part of the body came with them."""
    text = b""
    while b"\r\n\r\n" not in text:
        piece = end.recv(PIECE)
        if not piece:
            raise OSError("closed")
        text += piece
    return text


def _shortened(head: bytes) -> bytes:
    """A head that gives half of the body's length."""
    return LENGTH.sub(lambda match: match[1] + b"%d" % (int(match[2]) // 2), head)


def _pump(one: socket.socket, other: socket.socket, most: int | None, is_slow: bool) -> None:
    """Passes on what one end sends, `most` bytes of it, then cuts both."""
    with suppress(OSError):
        while piece := one.recv(PIECE):
            if most is not None and len(piece) >= most:
                other.sendall(piece[:most])
                break
            most = None if most is None else most - len(piece)
            if is_slow:
                time.sleep(0.02)
            other.sendall(piece)
        if most is not None:
            other.shutdown(socket.SHUT_RDWR)
            one.shutdown(socket.SHUT_RDWR)
