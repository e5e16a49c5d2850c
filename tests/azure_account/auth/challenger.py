"""A gate before the emulator that treats tokens as Azure does: one that has ended or is revoked is answered 401.

The answer has the header WWW-Authenticate, by which the SDK asks for another token; Azurite answers 403 without it.
"""

from __future__ import annotations

import ssl
import threading
import time
from collections import Counter
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import jwt

from tests.azure_account.auth.token_service import TENANT
from tools.local_http import forward, serving

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.azure_account.auth.certificates import Certificate
    from tools.azurite import Azurite
    from tools.local_http import HttpAnswer, HttpRequest

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


@contextmanager
def challenger(azurite: Azurite, certificate: Certificate, bundle: str) -> Iterator[Challenger]:
    """Run a gate before the blob service of an emulator that serves HTTPS."""
    gate, trust = Challenger(azurite), ssl.create_default_context(cafile=bundle)
    with serving(partial(_answer, gate, trust), certificate.context()) as port:
        gate.endpoint = f"https://127.0.0.1:{port}/{azurite.account_name}"
        yield gate


def _answer(gate: Challenger, trust: ssl.SSLContext, request: HttpRequest) -> HttpAnswer:
    answer: HttpAnswer
    if gate.refuses(request.headers.get("Authorization", "").removeprefix("Bearer ")):
        answer = 401, {"x-ms-error-code": "InvalidAuthenticationInfo", "WWW-Authenticate": CHALLENGE}, b""
    else:
        answer = forward(urlsplit(gate.azurite.endpoint).port or 443, request, tls=trust)
    with gate.lock:
        gate.answers[answer[0]] += 1
    return answer
