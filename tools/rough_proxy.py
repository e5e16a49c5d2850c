"""A reverse proxy before the emulator, for blobs and tables, that throttles, cuts or delays some requests.

It counts all of them by how Azure charges them. It is no forward proxy: a client takes its address for the service's.
Requests are signed over their path alone, so the signature stays valid.
"""

from __future__ import annotations

import http.client
import threading
import time
from collections import Counter
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from enum import Enum
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any, TypeAlias
from urllib.parse import parse_qs, urlsplit

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tools.azurite import Azurite


class Fate(Enum):
    """What the proxy does with a request."""

    PASS = "passed on"  # noqa: S105 - no password
    BUSY = "answered 503 ServerBusy, with Retry-After"
    LOST = "cut off before the service saw it"
    UNANSWERED = "done by the service, then cut off"
    LATE = "done by the service, answered seconds later"


LATE_SECONDS = 3.0
_Answer: TypeAlias = "tuple[int, dict[str, str], bytes]"
"""Status, headers and body."""


@dataclass
class RoughProxy:
    """A running proxy. `fate` is called for every request with method and path; `fates` counts its results.

    requests: how many there were, by kind: see `kind_of`. refused: those that found no service.
    """

    azurite: Azurite
    fate: Callable[[str, str], Fate]
    endpoint: str = ""
    table_endpoint: str = ""
    fates: Counter[Fate] = field(default_factory=Counter)
    requests: Counter[str] = field(default_factory=Counter)
    refused: int = 0
    lock: threading.Lock = field(default_factory=threading.Lock)

    @property
    def options(self) -> dict[str, str]:
        """The options of a client that uses the proxy."""
        return {"endpoint": self.endpoint, "accountKey": self.azurite.account_key}

    @property
    def connection_string(self) -> str:
        """The connection string of a client that uses the proxy."""
        return replace(self.azurite, endpoint=self.endpoint, table_endpoint=self.table_endpoint).connection_string

    def decide(self, method: str, path: str, service: str) -> Fate:
        """The fate of one request. Calls are serialized, so `fate` may keep state."""
        with self.lock:
            self.requests[kind_of(method, path, service)] += 1
            chosen = self.fate(method, path)
            self.fates[chosen] += 1
            return chosen


def kind_of(method: str, path: str, service: str) -> str:
    """What Azure charges a request as; listings are `blob writes`, deletes cost nothing."""
    if service == "table":
        return "table requests"
    arguments = parse_qs(urlsplit(path).query)
    if "lease" in arguments.get("comp", ()):
        return "lease requests"
    is_read = method in ("GET", "HEAD") and "list" not in arguments.get("comp", ())
    return "blob reads" if is_read else "blob deletes" if method == "DELETE" else "blob writes"


@contextmanager
def rough_proxy(azurite: Azurite, fate: Callable[[str, str], Fate]) -> Iterator[RoughProxy]:
    """Run a proxy during the `with` block."""
    proxy = RoughProxy(azurite, fate)
    with (
        _serving(proxy, "blob", azurite.endpoint) as proxy.endpoint,
        _serving(proxy, "table", azurite.table_endpoint) as proxy.table_endpoint,
    ):
        yield proxy


@contextmanager
def _serving(proxy: RoughProxy, service: str, endpoint: str) -> Iterator[str]:
    """Pass the requests of one service on. Yields the endpoint that takes the place of the service's."""
    port = urlsplit(endpoint).port or 80
    server = _Server(proxy, service, port)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, name=f"rough-{service}")
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}/{proxy.azurite.account_name}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 128

    def __init__(self, proxy: RoughProxy, service: str, port: int) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.proxy, self.service, self.port = proxy, service, port

    def handle_error(self, *_: Any) -> None:
        """A client that was killed has cut its connection."""


class _Handler(BaseHTTPRequestHandler):
    server: _Server
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    def _serve(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        fate = self.server.proxy.decide(self.command, self.path, self.server.service)
        if fate is Fate.BUSY:
            code = {"x-ms-error-code": "ServerBusy", "Retry-After": "1", "Content-Length": "0"}
            self._answer(503, code, b"")
            return
        answer = None if fate is Fate.LOST else self._forwarded(body)
        if fate is Fate.LATE:
            time.sleep(LATE_SECONDS)
        if answer is None or fate is Fate.UNANSWERED:
            self.close_connection = True
            return
        self._answer(*answer)

    do_GET = do_PUT = do_HEAD = do_POST = do_DELETE = do_MERGE = do_PATCH = _serve  # noqa: N815 - names of the base class

    def _forwarded(self, body: bytes) -> _Answer | None:
        """The answer of the service; None if it does not run."""
        try:
            return forward(self.server.port, self.command, self.path, dict(self.headers), body)
        except (OSError, http.client.HTTPException):
            with self.server.proxy.lock:
                self.server.proxy.refused += 1
            return None

    def _answer(self, status: int, headers: dict[str, str], body: bytes) -> None:
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: Any) -> None:
        """Log nothing."""


_OF_ONE_HOP = ("connection", "keep-alive", "transfer-encoding", "date", "server")


def forward(port: int, method: str, path: str, headers: dict[str, str], body: bytes) -> _Answer:
    """Pass a request on to a service of this machine: the answer, as it can be passed back."""
    connection = http.client.HTTPConnection("127.0.0.1", port)
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
