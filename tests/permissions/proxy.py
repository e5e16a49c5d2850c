"""A reverse proxy before Azurite that records which operation each request is, and refuses what a SAS does not permit.

client ─► proxy: operation_of ─► record ─► the SAS lacks a letter: 403 AuthorizationPermissionMismatch
                                       └─► Azurite, which checks most letters too

Azurite asks for less than Azure documents (`operations.UNCHECKED`). A signature is over path and fields, not over the
host, so it holds for both.
"""

from __future__ import annotations

import threading
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qs, urlsplit

from tests.permissions.operations import COPY, Operation, operation_of
from tools.rough_proxy import forward

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from tools.azurite import Azurite

MISMATCH, NO_SOURCE = "AuthorizationPermissionMismatch", "CannotVerifyCopySource"


@dataclass
class CheckingProxy:
    """A running proxy. requests: the operations since the last `take`. checks: whether it refuses requests."""

    azurite: Azurite
    endpoint: str = ""
    table_endpoint: str = ""
    checks: bool = True
    requests: list[Operation] = field(default_factory=list)

    @property
    def endpoints(self) -> dict[str, str]:
        """The options that name it."""
        return {"endpoint": self.endpoint, "tableEndpoint": self.table_endpoint}

    def take(self) -> list[Operation]:
        """The operations so far, which are forgotten."""
        taken, self.requests = self.requests, []
        return taken

    def refusal(self, service: str, method: str, target: str, headers: Mapping[str, str]) -> str | None:
        """Record a request; the error code if its SAS lacks a letter."""
        operation = operation_of(service, method, target, headers)
        self.requests.append(operation)
        query = parse_qs(urlsplit(target).query)
        missing = operation.missing(query.get("sp", [""])[0]) if self.checks and "sig" in query else ""
        if not missing:
            return None
        return NO_SOURCE if operation is COPY and missing == "r" else MISMATCH

    def forwarded(self, headers: Mapping[str, str]) -> dict[str, str]:
        """The headers of a request to Azurite, which copies only from the host that it is asked under."""
        own = self.endpoint, self.azurite.endpoint
        return {name: value.replace(*own) for name, value in headers.items() if name.lower() != "host"}


@contextmanager
def checking_proxy(azurite: Azurite) -> Iterator[CheckingProxy]:
    """Run a proxy during the `with` block."""
    proxy = CheckingProxy(azurite)
    with (
        _serving(proxy, "blob", azurite.endpoint) as proxy.endpoint,
        _serving(proxy, "table", azurite.table_endpoint) as proxy.table_endpoint,
    ):
        yield proxy


@contextmanager
def _serving(proxy: CheckingProxy, service: str, endpoint: str) -> Iterator[str]:
    server = _Server(proxy, service, urlsplit(endpoint).port or 80)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, name=f"checking-{service}")
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

    def __init__(self, proxy: CheckingProxy, service: str, port: int) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.proxy, self.service, self.port = proxy, service, port

    def handle_error(self, *_: Any) -> None:
        """A client has closed its connection."""


class _Handler(BaseHTTPRequestHandler):
    server: _Server
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    def _serve(self) -> None:
        body, headers = self.rfile.read(int(self.headers.get("Content-Length", 0))), dict(self.headers)
        proxy = self.server.proxy
        refusal = proxy.refusal(self.server.service, self.command, self.path, headers)
        if refusal is None:
            self._answer(*forward(self.server.port, self.command, self.path, proxy.forwarded(headers), body))
        else:
            self._answer(403, {"x-ms-error-code": refusal, "Content-Length": "0"}, b"")

    do_GET = do_PUT = do_HEAD = do_POST = do_DELETE = do_MERGE = do_PATCH = _serve  # names of the base class

    def _answer(self, status: int, headers: dict[str, str], body: bytes) -> None:
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: Any) -> None:
        """Log nothing."""
