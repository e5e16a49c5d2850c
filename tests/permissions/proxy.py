"""A reverse proxy before Azurite that records which operation each request is, and refuses what a SAS does not permit.

client ─► proxy: operation_of ─► record ─► the SAS lacks a letter: 403 AuthorizationPermissionMismatch
                                       └─► Azurite, which checks most letters too

Azurite asks for less than Azure documents (`operations.UNCHECKED`). A signature is over path and fields, not over the
host, so it holds for both.
"""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING
from urllib.parse import parse_qs, urlsplit

from tests.permissions.operations import COPY, Operation, operation_of
from tools.local_http import forward, serving

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from tools.azurite import Azurite
    from tools.local_http import HttpAnswer, HttpRequest

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
        serving(partial(_answer, proxy, "blob", azurite.endpoint)) as blobs,
        serving(partial(_answer, proxy, "table", azurite.table_endpoint)) as tables,
    ):
        proxy.endpoint, proxy.table_endpoint = (
            f"http://127.0.0.1:{port}/{azurite.account_name}" for port in (blobs, tables)
        )
        yield proxy


def _answer(proxy: CheckingProxy, service: str, endpoint: str, request: HttpRequest) -> HttpAnswer:
    headers = dict(request.headers)
    refusal = proxy.refusal(service, request.method, request.path, headers)
    if refusal is not None:
        return 403, {"x-ms-error-code": refusal, "Content-Length": "0"}, b""
    return forward(urlsplit(endpoint).port or 80, request, proxy.forwarded(headers))
