"""A HTTP server on a port of this machine whose answers a function gives, and the passing on of requests.

request ─► answer(request) ─► status, headers and body, or None: the connection is cut
                          └─► `forward` to another server of this machine
"""

from __future__ import annotations

import http.client
import threading
from contextlib import contextmanager
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any, TypeAlias

if TYPE_CHECKING:
    import ssl
    from collections.abc import Callable, Iterator, Mapping
    from email.message import Message

HttpAnswer: TypeAlias = "tuple[int, Mapping[str, str], bytes]"
"""Status, headers and body."""
_OF_ONE_HOP = ("connection", "keep-alive", "transfer-encoding", "date", "server")


@dataclass(frozen=True)
class HttpRequest:
    """A request with its whole body. path: with the query. headers: found by names in any case."""

    method: str
    path: str
    headers: Message
    body: bytes


@contextmanager
def serving(answer: Callable[[HttpRequest], HttpAnswer | None], tls: ssl.SSLContext | None = None) -> Iterator[int]:
    """Serve during the `with` block, each connection in a thread of its own. Yields the port."""
    server = _Server(answer)
    if tls is not None:
        server.socket = tls.wrap_socket(server.socket, server_side=True)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, name="local-http")
    thread.start()
    try:
        yield server.server_address[1]
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def forward(
    port: int, request: HttpRequest, headers: Mapping[str, str] | None = None, tls: ssl.SSLContext | None = None
) -> HttpAnswer:
    """The answer of another server of this machine, as it can be passed back. headers: in place of the request's."""
    connection = (
        http.client.HTTPConnection("127.0.0.1", port)
        if tls is None
        else http.client.HTTPSConnection("127.0.0.1", port, context=tls)
    )
    try:
        connection.request(request.method, request.path, request.body, headers or dict(request.headers))
        answer = connection.getresponse()
        kept = {name: value for name, value in answer.getheaders() if name.lower() not in _OF_ONE_HOP}
        return answer.status, kept, answer.read()
    finally:
        connection.close()


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 128

    def __init__(self, answer: Callable[[HttpRequest], HttpAnswer | None]) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.answer = answer

    def handle_error(self, *_: Any) -> None:
        """A client has cut its connection."""


class _Handler(BaseHTTPRequestHandler):
    server: _Server
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    def _serve(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        answer = self.server.answer(HttpRequest(self.command, self.path, self.headers, body))
        if answer is None:
            self.close_connection = True
            return
        status, headers, content = answer
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        if self.command != "HEAD" and "content-length" not in map(str.lower, headers):
            self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    do_GET = do_PUT = do_HEAD = do_POST = do_DELETE = do_MERGE = do_PATCH = _serve  # noqa: N815 - names of the base class

    def log_message(self, *_: Any) -> None:
        """Log nothing."""
