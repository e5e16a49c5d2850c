"""HTTP for the SDK's clients: one connection pool, no retries of its own, and logs without signatures."""

from __future__ import annotations

import logging
import os
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import requests
from azure.core.pipeline.transport import RequestsTransport
from requests.utils import get_environ_proxies
from urllib3.util import Retry

from azure_account.container import READ_CHUNK_BYTES
from azure_account.retrying.policy import http_date
from azure_account.sdk.attempt_limit import LimitedAdapter
from foundation.errors import ConfigurationError

if TYPE_CHECKING:
    from datetime import datetime

    from azure_account.options.settings import AccountSettings

# Connections kept open per host. With more threads than that, the extra connections are closed after use.
POOL_CONNECTIONS = 64

NO_ETAG = "it has no header ETag"
"""Why an answer cannot be read, see `failures.one_attempt`."""


def transport(settings: AccountSettings, endpoint: str) -> RequestsTransport:
    """A transport with a session of its own.

    Proxies and certificate bundle of the environment are read here, once: if the session reads them for each request,
    this takes a quarter of its CPU time.
    """
    session = _session()
    session.trust_env = False
    session.proxies = (
        {"http": settings.proxy.url, "https": settings.proxy.url} if settings.proxy else get_environ_proxies(endpoint)
    )
    return _transport(session, settings)


def token_transport(settings: AccountSettings) -> RequestsTransport:
    """A transport for requests for tokens, with the same limits; its session reads proxies for each request."""
    return _transport(_session(), settings)


def _session() -> requests.Session:
    session = requests.Session()
    adapter = LimitedAdapter(
        pool_maxsize=POOL_CONNECTIONS, max_retries=Retry(total=False, redirect=False, raise_on_status=False)
    )
    session.mount("https://", adapter)
    session.mount("http://", adapter)
    return session


def _transport(session: requests.Session, settings: AccountSettings) -> RequestsTransport:
    return RequestsTransport(
        session=session,
        session_owner=False,
        connection_timeout=settings.timeouts.connect,
        read_timeout=settings.timeouts.request,
        connection_verify=_certificate_bundle() or True,
        connection_data_block_size=READ_CHUNK_BYTES,  # a body that is read in parts is joined by copies, twice
    )


def _certificate_bundle() -> str | None:
    for variable in ("REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE"):
        bundle = os.environ.get(variable)
        if bundle:
            if not Path(bundle).exists():
                raise ConfigurationError(
                    f"{variable} names {bundle}, which does not exist here: it must be on the driver and on every "
                    "executor."
                )
            return bundle
    return None


class _HideSignature(logging.Filter):
    """Removes shared access signatures from the HTTP library's logs: at DEBUG it logs the URL of each request."""

    def filter(self, record: logging.LogRecord) -> bool:
        """Replace the signature in the record's text."""
        text = record.getMessage()
        if "sig=" in text:
            record.msg, record.args = _SIGNATURE.sub("sig=***", text), ()
        return True


_SIGNATURE = re.compile(r"sig=[^&\s\"]+")
_hide_signature = _HideSignature()


def quiet_logs() -> None:
    """Raise the levels of the SDK's loggers, unless they are set, and remove signatures from the HTTP library's logs.

    The SDK logs each request at INFO, and at WARNING each credential without a token; our errors name these.
    """
    logging.getLogger("urllib3.connectionpool").addFilter(_hide_signature)
    levels = {"azure.core.pipeline.policies.http_logging_policy": logging.WARNING, "azure.identity": logging.ERROR}
    for name, level in levels.items():
        logger = logging.getLogger(name)
        if logger.level == logging.NOTSET:
            logger.setLevel(level)


class AnswerDate:
    """A hook of a request: when the service answered, by its clock. Of several answers the first counts."""

    def __init__(self) -> None:
        self._header: str | None = None

    def __call__(self, answer: Any) -> None:
        """Note the date of an answer, as `raw_response_hook`."""
        if self._header is None:
            self._header = answer.http_response.headers.get("Date", "")

    def time(self) -> datetime:
        """`ValueError` if there is none, or a malformed one: an age must not be guessed."""
        moment = http_date(self._header or "")
        if moment is None:
            raise ValueError(f"header Date is {self._header!r}" if self._header else "it has no header Date")
        return moment
