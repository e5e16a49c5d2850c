"""The settings of one storage account: options and environment become one frozen, picklable value."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING
from urllib.parse import quote, urlsplit

from azure_account.options.authentication import TokenAuth, given_credential
from azure_account.options.secret import Secret
from azure_account.retrying.policy import RetryPolicy
from foundation.errors import ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from azure_account.address import Address
    from azure_account.options.authentication import Auth
    from azure_account.options.connection_string import ConnectionString
    from azure_account.options.option_table import ParsedOptions


@dataclass(frozen=True)
class Proxy:
    """An HTTP proxy, and the user and password that it asks for, if any."""

    hostname: str
    port: int
    username: str | None = None
    password: Secret | None = None

    @property
    def url(self) -> str:
        """The proxy's URL, with the password."""
        if self.username is None:
            return f"http://{self.hostname}:{self.port}"
        password = quote(self.password.reveal() if self.password else "", safe="")
        return f"http://{quote(self.username, safe='')}:{password}@{self.hostname}:{self.port}"


@dataclass(frozen=True)
class Timeouts:
    """Limits of one attempt, in seconds. `request` limits sending and waiting each; `lease` both for lease requests.

    They limit each wait for the network. attempt: limits all of it together, to the answer's last byte; None for none.
    """

    connect: float = 10.0
    request: float = 60.0
    lease: float = 5.0
    attempt: float | None = None


@dataclass(frozen=True)
class AccountSettings:
    """What `connect` needs. Hashable and picklable; its `repr` shows no secret.

    Endpoints have no trailing slash. `table_endpoint` is None if it is not given and cannot be derived.
    """

    account: str
    blob_endpoint: str
    table_endpoint: str | None
    auth: Auth
    proxy: Proxy | None = None
    auth_proxy: Proxy | None = None
    retry: RetryPolicy = field(default_factory=RetryPolicy)
    timeouts: Timeouts = field(default_factory=Timeouts)


def account_settings(options: ParsedOptions, address: Address | None, env: Mapping[str, str]) -> AccountSettings:
    """Settings from the options, an address and the environment.

    address: names the account and its blob endpoint, if it was a URL.

    `ConfigurationError` names the option that is missing or malformed or contradicts another.
    """
    credential = given_credential(options, env)
    connection = credential.connection_string()
    account = _account(options, None if address is None else address.account, connection, env)
    blob = _blob_endpoint(options, None if address is None else address.endpoint, connection, account)
    auth = credential.auth(account, connection)
    table = _table_endpoint(options, connection, blob)
    for endpoint in (blob, table):
        if isinstance(auth, TokenAuth) and endpoint is not None and not endpoint.startswith("https://"):
            raise ConfigurationError(
                f"auth={credential.kind} sends a token and needs an https endpoint, not {endpoint}. "
                "Give accountKey, sasToken or connectionString, or set auth=anonymous."
            )
    return AccountSettings(
        account=account,
        blob_endpoint=blob,
        table_endpoint=table,
        auth=auth,
        proxy=_proxy(options, "proxy"),
        auth_proxy=_proxy(options, "authProxy"),
        retry=RetryPolicy(max_attempts=options["maxAttempts"], deadline=options["retryDeadlineMs"] / 1000),
        timeouts=Timeouts(options["connectTimeoutMs"] / 1000, options["requestTimeoutMs"] / 1000),
    )


def _account(
    options: ParsedOptions, url_account: str | None, connection: ConnectionString, env: Mapping[str, str]
) -> str:
    found: dict[str, str | None] = {
        "accountName": options["accountName"],
        "the URL of path": url_account,
        "connectionString": connection.account,
    }
    given = {source: name for source, name in found.items() if name}
    if len(set(given.values())) > 1:
        named = ", ".join(f"{name} ({source})" for source, name in given.items())
        raise ConfigurationError(f"The options name different storage accounts: {named}. Give the same one in all.")
    if given:
        return next(iter(given.values()))
    host = connection.blob_endpoint or options["endpoint"]
    name = env.get("AZURE_STORAGE_ACCOUNT") or _account_of(host or "")
    if not name:
        raise ConfigurationError(
            "No storage account is named: give accountName, connectionString, endpoint or a URL as path, "
            "or set AZURE_STORAGE_ACCOUNT."
        )
    return name


def _account_of(endpoint: str) -> str:
    """The account in `https://<account>.blob.…` or, path-style, in `http://host:port/<account>`."""
    parts = urlsplit(endpoint)
    path = parts.path.strip("/").split("/")[0]
    if path:
        return path
    host = parts.hostname or ""
    return host.split(".")[0] if ".blob." in host else ""


def _blob_endpoint(options: ParsedOptions, url_endpoint: str | None, connection: ConnectionString, account: str) -> str:
    if options["endpoint"]:
        return _url(str(options["endpoint"]), "endpoint")
    if connection.blob_endpoint:
        return _url(connection.blob_endpoint, "connectionString")
    if url_endpoint:
        return _url(url_endpoint, "path")
    return f"https://{account}.blob.core.windows.net"


def _table_endpoint(options: ParsedOptions, connection: ConnectionString, blob: str) -> str | None:
    if options["tableEndpoint"]:
        return _url(options["tableEndpoint"], "tableEndpoint")
    if connection.table_endpoint and not options["endpoint"]:
        return _url(connection.table_endpoint, "connectionString")
    return blob.replace(".blob.", ".table.", 1) if ".blob." in blob else None


def _url(url: str, option: str) -> str:
    parts = urlsplit(url)
    if parts.scheme not in {"http", "https"} or not parts.hostname or parts.username is not None:
        raise ConfigurationError(
            f"Option `{option}`: the endpoint is not a URL such as https://name.blob.core.windows.net."
        )
    if parts.query or parts.fragment:
        raise ConfigurationError(f"Option `{option}`: the endpoint has a query; give a signature as sasToken instead.")
    return url.rstrip("/")


def _proxy(options: ParsedOptions, prefix: str) -> Proxy | None:
    hostname, port, username, password = (f"{prefix}.{name}" for name in ("hostname", "port", "username", "password"))
    if not options[f"{prefix}.use"]:
        given = [name for name in (hostname, port, username, password) if name in options.given]
        if given and f"{prefix}.use" not in options.given:
            raise ConfigurationError(f"Option `{given[0]}` has no effect: set {prefix}.use to true, or remove it.")
        return None
    for name in (hostname, port):
        if options[name] is None:
            raise ConfigurationError(f"Option `{name}` is missing: {prefix}.use needs it.")
    if options[password] is not None and options[username] is None:
        raise ConfigurationError(f"Option `{username}` is missing: {password} needs it.")
    if any(mark in options[hostname] for mark in "/@"):
        raise ConfigurationError(
            f"Option `{hostname}` must be a host alone: without http://, and with {username} and {password} beside it."
        )
    secret = None if options[password] is None else Secret(options[password])
    return Proxy(options[hostname], options[port], options[username], secret)
