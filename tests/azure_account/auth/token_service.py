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
from functools import partial
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qs, urlsplit

import jwt

from tools.local_http import serving

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.azure_account.auth.certificates import Certificate
    from tools.local_http import HttpAnswer, HttpRequest

TENANT, CLIENT, HEADER = "11111111-2222-3333-4444-555555555555", "66666666-7777-8888-9999-000000000000", "h34der"
STORAGE = "https://storage.azure.com"
LENIENT_SECONDS = 3
"""How long a token is taken after its end, as services do: a request can be on its way for so long."""


@dataclass(frozen=True)
class ServiceAnswer:
    """One answer. delay: seconds before it."""

    status: int
    body: dict[str, Any] | str = field(default_factory=dict)
    headers: dict[str, str] = field(default_factory=dict)
    delay: float = 0.0


def entra_error(code: str, text: str, status: int = 401) -> ServiceAnswer:
    """An error of Entra ID, with the lines that follow its text."""
    described = (
        f"{code}: {text} Trace ID: {uuid.uuid4()} Correlation ID: {uuid.uuid4()} Timestamp: 2026-01-01 00:00:00Z"
    )
    return ServiceAnswer(
        status, {"error": "invalid_client", "error_description": described, "error_codes": [int(code[6:])]}
    )


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
    script: list[ServiceAnswer] = field(default_factory=list)
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

    def next_script(self) -> ServiceAnswer | None:
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


def _answer(service: TokenService, request: HttpRequest) -> HttpAnswer:
    answer = _asked_entra(service, request) if request.method == "POST" else _asked(service, request)
    time.sleep(answer.delay)
    body = answer.body if isinstance(answer.body, str) else json.dumps(answer.body)
    return answer.status, {"Content-Type": "application/json", **answer.headers}, body.encode()


def _asked(service: TokenService, request: HttpRequest) -> ServiceAnswer:
    url = urlsplit(request.path)
    if url.path.endswith("/.well-known/openid-configuration"):
        return ServiceAnswer(200, _discovery(f"https://{request.headers['Host']}", url.path.split("/")[1]))
    if url.path == "/common/discovery/instance":
        return ServiceAnswer(200, {"metadata": []})
    resource = parse_qs(url.query).get("resource", [""])[0]
    wrong = "" if resource.startswith(STORAGE) else "wrong resource"
    if url.path.startswith("/metadata/"):
        fault = wrong if request.headers.get("Metadata") == "true" else "Required metadata header"
        return _token_or_refusal(service, "imds", fault)
    if url.path == "/msi/token":
        fault = wrong if request.headers.get("X-IDENTITY-HEADER") == HEADER else "wrong header"
        return _token_or_refusal(service, "app service", fault)
    return ServiceAnswer(404, {"error": "not_found"})


def _asked_entra(service: TokenService, request: HttpRequest) -> ServiceAnswer:
    form = {name: values[0] for name, values in parse_qs(request.body.decode()).items()}
    service.assertions.append(form.get("client_assertion") or form.get("client_secret") or "")
    return _token_or_refusal(service, "entra", "" if form["scope"].startswith(STORAGE) else "wrong scope")


def _token_or_refusal(service: TokenService, asked: str, fault: str) -> ServiceAnswer:
    service.asked[asked] += 1
    with service.admitted() as admitted:
        if service.hold:
            time.sleep(service.hold)
        answer = service.next_script()
        if answer is None and not admitted:
            answer = ServiceAnswer(429, {"error": "too_many_requests"}, {"Retry-After": "1"})
        if answer is None and fault:
            answer = ServiceAnswer(400, {"error": "invalid_request", "error_description": fault})
        return answer or _token(service, asked)


def _token(service: TokenService, asked: str) -> ServiceAnswer:
    token, end = service.token()
    left = int(service.seconds)
    body: dict[str, Any] = {"access_token": token, "token_type": "Bearer", "resource": STORAGE}
    if asked == "entra":
        return ServiceAnswer(200, {**body, "expires_in": left})
    return ServiceAnswer(200, {**body, "expires_in": str(left), "expires_on": str(end)})


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
    answer = partial(_answer, service)
    with ExitStack() as stack:
        service.imds = f"http://127.0.0.1:{stack.enter_context(serving(answer))}"
        if certificate is not None:
            service.entra = f"https://127.0.0.1:{stack.enter_context(serving(answer, certificate.context()))}"
        yield service
