"""A reverse proxy before the emulator that throttles, drops or delays some requests.

It is no forward proxy: a client takes its address for the service's. Requests are signed over their path alone, so the
signature stays valid.
"""

from __future__ import annotations

import http.client
import threading
from collections import Counter
from contextlib import contextmanager
from dataclasses import dataclass, field
from enum import Enum
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tools.azurite import Azurite


class Fate(Enum):
    """What the proxy does with a request."""

    PASS = "passed on"
    BUSY = "answered 503 ServerBusy, with Retry-After"
    LOST = "cut off before the service saw it"
    UNANSWERED = "done by the service, then cut off"


@dataclass
class RoughProxy:
    """A running proxy. `fate` is called for every request with method and path; `fates` counts its results."""

    azurite: Azurite
    fate: Callable[[str, str], Fate]
    endpoint: str = ""
    fates: Counter[Fate] = field(default_factory=Counter)
    lock: threading.Lock = field(default_factory=threading.Lock)

    @property
    def options(self) -> dict[str, str]:
        """The options of a client that uses the proxy."""
        return {"endpoint": self.endpoint, "accountKey": self.azurite.account_key}

    def decide(self, method: str, path: str) -> Fate:
        """The fate of one request. Calls are serialized, so `fate` may keep state."""
        with self.lock:
            chosen = self.fate(method, path)
            self.fates[chosen] += 1
            return chosen


@contextmanager
def rough_proxy(azurite: Azurite, fate: Callable[[str, str], Fate]) -> Iterator[RoughProxy]:
    """Run a proxy during the `with` block."""
    proxy = RoughProxy(azurite, fate)
    server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(proxy))
    server.daemon_threads = True
    proxy.endpoint = f"http://127.0.0.1:{server.server_address[1]}/{azurite.account_name}"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, name="rough-proxy")
    thread.start()
    try:
        yield proxy
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def _handler(proxy: RoughProxy) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        disable_nagle_algorithm = True

        def _serve(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
            fate = proxy.decide(self.command, self.path)
            if fate is Fate.LOST:
                self.close_connection = True
                return
            if fate is Fate.BUSY:
                self._busy()
                return
            status, headers, answer = _forward(proxy.azurite, self.command, self.path, dict(self.headers), body)
            if fate is Fate.UNANSWERED:
                self.close_connection = True
                return
            self._answer(status, headers, answer)

        do_GET = do_PUT = do_HEAD = do_POST = do_DELETE = _serve

        def _busy(self) -> None:
            code = {"x-ms-error-code": "ServerBusy", "Retry-After": "1", "Content-Length": "0"}
            self._answer(503, code, b"")

        def _answer(self, status: int, headers: dict[str, str], body: bytes) -> None:
            self.send_response(status)
            for name, value in headers.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: Any) -> None:
            """Log nothing."""

    return Handler


_OF_ONE_HOP = ("connection", "keep-alive", "transfer-encoding", "date", "server")


def _forward(
    azurite: Azurite, method: str, path: str, headers: dict[str, str], body: bytes
) -> tuple[int, dict[str, str], bytes]:
    connection = http.client.HTTPConnection("127.0.0.1", azurite.blob_port)
    try:
        connection.request(method, path, body, headers)
        response = connection.getresponse()
        answer = response.read()
        kept = {name: value for name, value in response.getheaders() if name.lower() not in _OF_ONE_HOP}
        if "Content-Length" not in kept and method != "HEAD":
            kept = {name: value for name, value in kept.items() if name.lower() != "content-length"}
            kept["Content-Length"] = str(len(answer))
        return response.status, kept, answer
    finally:
        connection.close()
