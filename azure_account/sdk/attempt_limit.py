"""Ends what an attempt waits for when its time is up, however slowly bytes still arrive.

The time limits of HTTP libraries are those of one wait for the network: an answer of which a byte arrives every two
seconds lasts as long as it likes. `attempt_limit` sets the end of all that this thread sends and receives in it. Not
limited is the look-up of a host's name, which only the system can end.
"""

from __future__ import annotations

import io
import threading
from contextlib import contextmanager
from http.client import HTTPResponse
from typing import TYPE_CHECKING, Any

from azure.core.exceptions import AzureError
from requests.adapters import HTTPAdapter
from urllib3 import HTTPConnectionPool, HTTPSConnectionPool
from urllib3.connection import HTTPConnection, HTTPSConnection

from foundation.clock import SYSTEM_CLOCK

if TYPE_CHECKING:
    import socket
    from collections.abc import Iterator

    from requests import PreparedRequest, Response
    from urllib3.poolmanager import ProxyManager


_TIME_IS_UP = "the time of the attempt is up"


class AttemptTimeoutError(AzureError):
    """The time of an attempt is up. None of the errors after which the SDK waits and sends a request again."""


class _Attempt(threading.local):
    """The attempt that a thread is making. end: monotonic seconds; None for no limit. answered: see `was_answered`."""

    end: float | None = None
    answered: bool = False


_attempt = _Attempt()


@contextmanager
def attempt_limit(seconds: float | None) -> Iterator[None]:
    """Limit the requests that this thread makes by a `LimitedAdapter`: they end with `AttemptTimeoutError`."""
    _attempt.end = None if seconds is None else SYSTEM_CLOCK.monotonic() + seconds
    _attempt.answered = False
    try:
        yield
    finally:
        _attempt.end = None


@contextmanager
def limited_part(seconds: float) -> Iterator[None]:
    """Limit what an attempt does before its own request, which then goes on as if this had not been."""
    end, answered = _attempt.end, _attempt.answered
    part_end = SYSTEM_CLOCK.monotonic() + seconds
    _attempt.end = part_end if end is None else min(end, part_end)
    try:
        yield
    finally:
        _attempt.end, _attempt.answered = end, answered


def was_answered() -> bool:
    """Whether the head of an answer has arrived in the last attempt of this thread."""
    return _attempt.answered


def time_left() -> float | None:
    """The seconds that are left to the attempt of this thread, or None without limit. `AttemptTimeoutError` if none."""
    return None if _attempt.end is None else _left(_attempt.end)


def _left(end: float) -> float:
    """The seconds until the end. `AttemptTimeoutError` if there are none."""
    left = end - SYSTEM_CLOCK.monotonic()
    if left <= 0:
        raise AttemptTimeoutError(_TIME_IS_UP)
    return left


class LimitedAdapter(HTTPAdapter):
    """An adapter whose requests end in time. A connection is made, and a body sent, within half of what is left."""

    def init_poolmanager(self, *args: Any, **kwargs: Any) -> None:
        """Make the pool of connections."""
        super().init_poolmanager(*args, **kwargs)
        self.poolmanager.pool_classes_by_scheme = _POOLS

    def proxy_manager_for(self, *args: Any, **kwargs: Any) -> ProxyManager:
        """Make the pool of connections to a proxy."""
        manager: ProxyManager = super().proxy_manager_for(*args, **kwargs)
        manager.pool_classes_by_scheme = _POOLS
        return manager

    def send(self, request: PreparedRequest, *args: Any, **kwargs: Any) -> Response:
        """Send a request, and receive the head of its answer. Its `timeout` is a pair of seconds, as the SDK gives it.

        `AttemptTimeoutError` if no time is left.
        """
        if _attempt.end is not None:
            left = _left(_attempt.end)
            connect, read = kwargs["timeout"]
            kwargs["timeout"] = (min(connect, left / 2), min(read, left))
        answer = super().send(request, *args, **kwargs)
        _attempt.answered = True
        return answer


class _LimitedBytes(io.RawIOBase):
    """The bytes of an answer, until the end of the attempt."""

    def __init__(self, received: io.RawIOBase, connection: socket.socket, end: float) -> None:
        self._received, self._connection, self._end = received, connection, end

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int | None:
        self._connection.settimeout(_left(self._end))
        try:
            return self._received.readinto(buffer)
        except TimeoutError:
            raise AttemptTimeoutError(_TIME_IS_UP) from None

    def close(self) -> None:
        self._received.close()
        super().close()


class _LimitedResponse(HTTPResponse):
    def __init__(self, sock: socket.socket, *args: Any, **kwargs: Any) -> None:
        super().__init__(sock, *args, **kwargs)
        if _attempt.end is not None:
            self.fp = io.BufferedReader(_LimitedBytes(self.fp.detach(), sock, _attempt.end))


class _LimitedConnection(HTTPConnection):
    response_class = _LimitedResponse


class _LimitedTlsConnection(HTTPSConnection):
    response_class = _LimitedResponse


class _LimitedPool(HTTPConnectionPool):
    ConnectionCls = _LimitedConnection


class _LimitedTlsPool(HTTPSConnectionPool):
    ConnectionCls = _LimitedTlsConnection


_POOLS = {"http": _LimitedPool, "https": _LimitedTlsPool}
