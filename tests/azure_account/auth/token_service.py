"""Stand-ins of the services that give tokens, as documented: IMDS and App Service by HTTP, Entra ID by HTTPS.

    GET  /metadata/identity/oauth2/token?api-version=2018-02-01&resource=…   IMDS; needs the header `Metadata: true`
    GET  /msi/token?api-version=2019-08-01&resource=…                        App Service; needs `X-IDENTITY-HEADER`
    POST /<tenant>/oauth2/v2.0/token                                         Entra ID

Tokens are JWTs that Azurite's `--oauth basic` accepts. A test scripts the next answers, or how long tokens live.
"""

from __future__ import annotations

import json
import threading
import time
import uuid
from collections import Counter
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qs, urlsplit

import jwt

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.azure_account.auth.certificates import Certificate

TENANT, CLIENT, HEADER = "11111111-2222-3333-4444-555555555555", "66666666-7777-8888-9999-000000000000", "h34der"
STORAGE = "https://storage.azure.com"
LENIENT_SECONDS = 3
"""How long a token is taken after its end, as services do: a request can be on its way for so long."""


@dataclass(frozen=True)
class Said:
    """One scripted answer. delay: seconds before it."""

    status: int
    body: dict[str, Any] | str = field(default_factory=dict)
    headers: dict[str, str] = field(default_factory=dict)
    delay: float = 0.0


def entra_error(code: str, text: str, status: int = 401) -> Said:
    """An error of Entra ID, with the lines that follow its text."""
    described = (
        f"{code}: {text} Trace ID: {uuid.uuid4()} Correlation ID: {uuid.uuid4()} Timestamp: 2026-01-01 00:00:00Z"
    )
    return Said(status, {"error": "invalid_client", "error_description": described, "error_codes": [int(code[6:])]})


@dataclass
class TokenService:
    """Running stand-ins. `script` has the next answers, in order; when it is empty, tokens are given.

    seconds: how long tokens live. limit: at most so many requests at a time, others are answered 429. hold: seconds
    before each answer. skew: of the service's clock. asked: requests by service, and `given`: the tokens. assertions:
    what workload identity has sent.
    """

    seconds: float = 3600.0
    audience: str = STORAGE
    limit: int | None = None
    hold: float = 0.0
    script: list[Said] = field(default_factory=list)
    asked: Counter[str] = field(default_factory=Counter)
    assertions: list[str] = field(default_factory=list)
    tokens: list[str] = field(default_factory=list)
    imds: str = ""
    entra: str = ""
    skew: float = 0.0
    _busy: int = 0
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def variables(self) -> dict[str, str]:
        """The environment in which `azure.identity` finds IMDS here."""
        return {"AZURE_POD_IDENTITY_AUTHORITY_HOST": self.imds}

    def next_script(self) -> Said | None:
        with self._lock:
            return self.script.pop(0) if self.script else None

    def token(self) -> tuple[str, int]:
        """A new token, and when it ends in seconds since 1970, by the clock of this service."""
        now = time.time() + self.skew
        claims = {
            "aud": self.audience,
            "iss": f"https://sts.windows.net/{TENANT}/",
            "iat": int(now) - 1,
            "nbf": int(now) - 1,
            "exp": int(now + self.seconds) + LENIENT_SECONDS,
            "jti": str(uuid.uuid4()),
        }
        token = jwt.encode(claims, "k" * 32, "HS256")
        with self._lock:
            self.tokens.append(token)
            self.asked["given"] += 1
        return token, claims["exp"]  # type: ignore[return-value]

    @contextmanager
    def admitted(self) -> Iterator[bool]:
        """Whether there are fewer requests at a time than `limit`."""
        with self._lock:
            self._busy += 1
            admitted = self.limit is None or self._busy <= self.limit
        try:
            yield admitted
        finally:
            with self._lock:
                self._busy -= 1


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 128

    def __init__(self, service: TokenService) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.service = service

    def handle_error(self, *_: Any) -> None:
        """A client has given up."""


class _Handler(BaseHTTPRequestHandler):
    server: _Server
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        url = urlsplit(self.path)
        query = {name: values[0] for name, values in parse_qs(url.query).items()}
        if url.path.endswith("/.well-known/openid-configuration"):
            self._say(Said(200, _discovery(f"https://{self.headers['Host']}", url.path.split("/")[1])))
        elif url.path == "/common/discovery/instance":
            self._say(Said(200, {"metadata": []}))
        elif url.path.startswith("/metadata/"):
            self._answer("imds", "" if self.headers.get("Metadata") == "true" else "Required metadata header")
        elif url.path == "/msi/token":
            self._answer("app service", "" if self.headers.get("X-IDENTITY-HEADER") == HEADER else "wrong header")
        else:
            self._say(Said(404, {"error": "not_found"}))
        assert STORAGE in query.get("resource", STORAGE)

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0)).decode()
        form = {name: values[0] for name, values in parse_qs(body).items()}
        self.server.service.assertions.append(form.get("client_assertion") or form.get("client_secret") or "")
        self._answer("entra", "" if form["scope"].startswith(STORAGE) else "wrong scope")

    def _answer(self, asked: str, fault: str) -> None:
        service = self.server.service
        service.asked[asked] += 1
        with service.admitted() as admitted:
            if service.hold:
                time.sleep(service.hold)
            said = service.next_script()
            if said is None and not admitted:
                said = Said(429, {"error": "too_many_requests"}, {"Retry-After": "1"})
            if said is None and fault:
                said = Said(400, {"error": "invalid_request", "error_description": fault})
            self._say(said or self._token(asked))

    def _token(self, asked: str) -> Said:
        token, end = self.server.service.token()
        left = int(self.server.service.seconds)
        body: dict[str, Any] = {"access_token": token, "token_type": "Bearer", "resource": STORAGE}
        if asked == "entra":
            return Said(200, {**body, "expires_in": left})
        return Said(200, {**body, "expires_in": str(left), "expires_on": str(end)})

    def _say(self, said: Said) -> None:
        time.sleep(said.delay)
        body = (said.body if isinstance(said.body, str) else json.dumps(said.body)).encode()
        self.send_response(said.status)
        for name, value in {"Content-Type": "application/json", **said.headers}.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: Any) -> None:
        """Nothing."""


def _discovery(host: str, tenant: str) -> dict[str, Any]:
    return {
        "token_endpoint": f"{host}/{tenant}/oauth2/v2.0/token",
        "authorization_endpoint": f"{host}/{tenant}/oauth2/v2.0/authorize",
        "issuer": f"{host}/{tenant}/v2.0",
    }


@contextmanager
def token_service(certificate: Certificate | None = None) -> Iterator[TokenService]:
    """Run the stand-ins; Entra ID only with a certificate."""
    service = TokenService()
    with ExitStack() as stack:
        plain = stack.enter_context(_serving(_Server(service)))
        service.imds = f"http://127.0.0.1:{plain.server_address[1]}"
        if certificate is not None:
            server = _Server(service)
            server.socket = certificate.context().wrap_socket(server.socket, server_side=True)
            stack.enter_context(_serving(server))
            service.entra = f"https://127.0.0.1:{server.server_address[1]}"
        yield service


@contextmanager
def _serving(server: _Server) -> Iterator[_Server]:
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
