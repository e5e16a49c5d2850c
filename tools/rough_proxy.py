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
from functools import partial
from typing import TYPE_CHECKING
from urllib.parse import parse_qs, urlsplit

from tools.local_http import forward, serving

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tools.azurite import Azurite
    from tools.local_http import HttpAnswer, HttpRequest


class Fate(Enum):
    """What the proxy does with a request."""

    PASS = "passed on"  # noqa: S105 - no password
    BUSY = "answered 503 ServerBusy, with Retry-After"
    LOST = "cut off before the service saw it"
    UNANSWERED = "done by the service, then cut off"
    LATE = "done by the service, answered seconds later"


LATE_SECONDS = 3.0


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
        serving(partial(_answer, proxy, "blob", azurite.endpoint)) as blobs,
        serving(partial(_answer, proxy, "table", azurite.table_endpoint)) as tables,
    ):
        proxy.endpoint, proxy.table_endpoint = (
            f"http://127.0.0.1:{port}/{azurite.account_name}" for port in (blobs, tables)
        )
        yield proxy


def _answer(proxy: RoughProxy, service: str, endpoint: str, request: HttpRequest) -> HttpAnswer | None:
    """What becomes of a request to one service of the emulator."""
    fate = proxy.decide(request.method, request.path, service)
    if fate is Fate.BUSY:
        return 503, {"x-ms-error-code": "ServerBusy", "Retry-After": "1", "Content-Length": "0"}, b""
    answer = None if fate is Fate.LOST else _forwarded(proxy, urlsplit(endpoint).port or 80, request)
    if fate is Fate.LATE:
        time.sleep(LATE_SECONDS)
    return None if fate is Fate.UNANSWERED else answer


def _forwarded(proxy: RoughProxy, port: int, request: HttpRequest) -> HttpAnswer | None:
    """The answer of the service; None if it does not run."""
    try:
        return forward(port, request)
    except (OSError, http.client.HTTPException):
        with proxy.lock:
            proxy.refused += 1
        return None
