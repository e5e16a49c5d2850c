"""Tokens of one credential: kept until they near their end, fetched by one thread at a time, and counted.

The SDK asks for a token with each request when less than five minutes are left, and `azure.identity` then asks the
token service each time. Here a token is fetched again

- when its end is near: in the background of other threads, which go on with the old one, and at most every 30 s;
- when it has ended: all threads wait for one fetch;
- when the service has refused it, at most every 5 s, by a new credential: the old one would give the same token again;
- when the service asks for one of another tenant, which later ones are of, too.

A request for a token is part of the attempt that needs it: it ends with that, or after `requestTimeoutMs`, and the
retry loop repeats it.
"""

from __future__ import annotations

import json
import re
import threading
from dataclasses import dataclass
from http import HTTPStatus
from typing import TYPE_CHECKING, Any

from azure.core.credentials import AccessToken

from azure_account.retrying.policy import RETRYABLE_STATUS, retry_after_seconds
from azure_account.sdk.attempt_limit import AttemptTimeoutError, limited_part, time_left
from azure_account.sdk.token_failures import NoTokenError, TokenAnswer
from foundation.clock import SYSTEM_CLOCK, Clock
from foundation.errors import AzureBlobError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from azure.core.credentials import AccessTokenInfo, TokenCredential, TokenRequestOptions

REFRESH_SECONDS = 300.0
"""A token is fetched again when less than this is left. The SDK has the same number."""
REFRESH_INTERVAL_SECONDS = 30.0
REFUSED_INTERVAL_SECONDS = 5.0
_END_SECONDS = 30.0
"""A token with less than this, or a tenth of its life, left could end on its way to the service."""
_SHOWN = 200
_JWT = re.compile(r"eyJ[\w.-]{16,}")


@dataclass
class _Held:
    """A token, when it was fetched, and when the last fetch that should replace it began. In monotonic seconds.

    tenant: that was asked for; None for the credential's own.
    """

    token: AccessTokenInfo
    fetched: float
    asked: float
    life: float
    tenant: str | None


class Tokens:
    """A credential for the SDK's clients. Thread-safe; `requested` counts how often a token was asked for.

    make: makes a credential of `azure.identity`, which calls the given function with each answer of a token service;
    it is called at once, so that what is missing is an error now. limit: seconds that a token may take.
    """

    def __init__(
        self,
        make: Callable[[Callable[[Any], None]], TokenCredential],
        *,
        limit: float,
        clock: Clock = SYSTEM_CLOCK,
    ) -> None:
        self._make, self._limit, self._clock = make, limit, clock
        self._held: dict[tuple[str, ...], _Held] = {}
        self._answer: TokenAnswer | None = None
        self._credential: Any = make(self._note)
        self._lock = threading.Lock()
        self.requested: int = 0

    def get_token(self, *scopes: str, **options: Any) -> AccessToken:
        """See `get_token_info`, which the SDK prefers."""
        token = self.get_token_info(*scopes, options=options)  # type: ignore[arg-type]
        return AccessToken(token.token, token.expires_on)

    def get_token_info(self, *scopes: str, options: TokenRequestOptions | None = None) -> AccessTokenInfo:
        """A token that is not near its end, or `NoTokenError`.

        options: with `tenant_id` or `claims` if the service has refused the token: it answered with a challenge.
        """
        options = options or {}
        held = self._held.get(scopes)
        if held is not None and not self._must_wait(held, options):
            if self._is_due(held) and self._lock.acquire(blocking=False):
                try:
                    return self._refreshed(scopes, options, held)
                finally:
                    self._lock.release()
            return held.token
        left = time_left()
        if not self._lock.acquire(timeout=-1 if left is None else left):
            raise NoTokenError(AttemptTimeoutError("another thread waits for a token"), None)
        try:
            held = self._held.get(scopes)
            if held is not None and not self._must_wait(held, options):
                return held.token
            return self._fetch(scopes, options)
        finally:
            self._lock.release()

    def _must_wait(self, held: _Held, options: TokenRequestOptions) -> bool:
        """Whether the token cannot be used: it has ended, or it was refused and is of another tenant or not new."""
        tenant = options.get("tenant_id")
        if tenant and tenant != held.tenant:
            return True
        age = self._clock.monotonic() - held.fetched
        if held.life <= 0:  # by this host's clock, which is wrong then
            return age > REFRESH_INTERVAL_SECONDS
        if held.token.expires_on - self._clock.now() < min(_END_SECONDS, held.life / 10):
            return True
        return _is_refused(options) and age > REFUSED_INTERVAL_SECONDS

    def _is_due(self, held: _Held) -> bool:
        if self._clock.monotonic() - held.asked < REFRESH_INTERVAL_SECONDS:
            return False
        now, refresh_on = self._clock.now(), held.token.refresh_on
        return held.token.expires_on - now < REFRESH_SECONDS or (refresh_on is not None and refresh_on <= now)

    def _refreshed(self, scopes: tuple[str, ...], options: TokenRequestOptions, held: _Held) -> AccessTokenInfo:
        """A newer token, or this one, which has not ended, if there is none."""
        newest = self._held[scopes]
        if newest is not held:  # another thread was faster
            return newest.token
        held.asked = self._clock.monotonic()
        try:
            return self._fetch(scopes, options)
        except (NoTokenError, AzureBlobError):
            return held.token

    def _fetch(self, scopes: tuple[str, ...], options: TokenRequestOptions) -> AccessTokenInfo:
        self.requested += 1
        held, is_refused = self._held.get(scopes), _is_refused(options)
        tenant = options.get("tenant_id") or (None if held is None else held.tenant)
        wanted: TokenRequestOptions = {**options, "tenant_id": tenant} if tenant else options
        # An answer that asks to wait stays: until then `azure.identity` repeats it without a request.
        if self._answer is not None and self._answer.status not in RETRYABLE_STATUS:
            self._answer = None
        try:
            if is_refused:
                self._credential = self._make(self._note)
            with limited_part(self._limit):
                token: AccessTokenInfo = self._credential.get_token_info(*scopes, options=wanted)
        except AzureBlobError:
            raise
        except Exception as error:
            raise NoTokenError(error, self._answer) from error
        self._answer = None
        now = self._clock.monotonic()
        self._held[scopes] = _Held(token, now, now, token.expires_on - self._clock.now(), tenant)
        return token

    def _note(self, answer: Any) -> None:
        response = answer.http_response
        if response.status_code < HTTPStatus.BAD_REQUEST:
            return
        headers = {name.lower(): value for name, value in response.headers.items()}
        self._answer = TokenAnswer(
            int(response.status_code), _words_of(response), retry_after_seconds(headers, self._clock.now())
        )


def _is_refused(options: TokenRequestOptions) -> bool:
    return bool(options.get("tenant_id") or options.get("claims"))


def _words_of(response: Any) -> str:
    """What an answer that is no token says: the description of Entra ID and IMDS, or the message of App Service."""
    try:
        body: Mapping[str, Any] = json.loads(response.text())
        said = str(body.get("error_description") or body.get("message") or body.get("error") or "")
    except (ValueError, AttributeError):
        return ""
    line = _JWT.sub("***", (said.splitlines() or [""])[0].split(" Trace ID")[0].strip())
    return line[:_SHOWN].rstrip(".")
