"""A gate before the emulator that treats tokens as Azure does: one that has ended or is revoked is answered 401.

The answer has the header WWW-Authenticate, by which the SDK asks for another token; Azurite answers 403 without it.
"""

from __future__ import annotations

import http.client
import ssl
import threading
import time
from collections import Counter
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import jwt

from tests.azure_account.auth.token_service import TENANT

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.azure_account.auth.certificates import Certificate
    from tools.azurite import Azurite

CHALLENGE = (
    f"Bearer authorization_uri=https://login.microsoftonline.com/{TENANT}/oauth2/authorize "
    "resource_id=https://storage.azure.com"
)


@dataclass
class Challenger:
    """A running gate. revoked: tokens that it refuses. refuses_all: it refuses each. answers: by status."""

    azurite: Azurite
    endpoint: str = ""
    revoked: set[str] = field(default_factory=set)
    refuses_all: bool = False
    looks_at_times: bool = True
    answers: Counter[int] = field(default_factory=Counter)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def refuses(self, token: str) -> bool:
        """Whether Azure would refuse this token."""
        if self.refuses_all or token in self.revoked:
            return True
        if not self.looks_at_times:
            return False
        claims: dict[str, Any] = jwt.decode(token, options={"verify_signature": False})
        return not claims["nbf"] <= time.time() < claims["exp"]


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 128

    def __init__(self, gate: Challenger, trust: ssl.SSLContext) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.gate, self.trust = gate, trust

    def handle_error(self, *_: Any) -> None:
        """A client has cut its connection."""


class _Handler(BaseHTTPRequestHandler):
    server: _Server
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    def _serve(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        token = self.headers.get("Authorization", "").removeprefix("Bearer ")
        if self.server.gate.refuses(token):
            code = {"x-ms-error-code": "InvalidAuthenticationInfo", "WWW-Authenticate": CHALLENGE}
            self._answer(401, code, b"")
            return
        upstream = urlsplit(self.server.gate.azurite.endpoint)
        connection = http.client.HTTPSConnection(upstream.hostname or "", upstream.port, context=self.server.trust)
        connection.request(self.command, self.path, body, dict(self.headers))
        found = connection.getresponse()
        kept = {name: value for name, value in found.getheaders() if name.lower() not in _OF_ONE_HOP}
        self._answer(found.status, kept, found.read())
        connection.close()

    do_GET = do_PUT = do_HEAD = do_POST = do_DELETE = _serve

    def _answer(self, status: int, headers: dict[str, str], body: bytes) -> None:
        with self.server.gate.lock:
            self.server.gate.answers[status] += 1
        self.send_response(status)
        if "content-length" not in {name.lower() for name in headers}:
            headers = {**headers, "Content-Length": str(len(body))}
        for name, value in headers.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: Any) -> None:
        """Nothing."""


_OF_ONE_HOP = ("connection", "keep-alive", "transfer-encoding", "date", "server")


@contextmanager
def challenger(azurite: Azurite, certificate: Certificate, bundle: str) -> Iterator[Challenger]:
    """Run a gate before the blob service of an emulator that serves HTTPS."""
    gate = Challenger(azurite)
    server = _Server(gate, ssl.create_default_context(cafile=bundle))
    server.socket = certificate.context().wrap_socket(server.socket, server_side=True)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
    thread.start()
    try:
        gate.endpoint = f"https://127.0.0.1:{server.server_address[1]}/{azurite.account_name}"
        yield gate
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
