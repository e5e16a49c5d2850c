"""How to reach one storage account: options and environment become one frozen, picklable value.

`account_settings` looks at nothing but its arguments. Which credential is meant, when `auth` does not say so: the one
that is given among `connectionString`, `accountKey`, `sasToken`, `clientSecret` and `certificatePath`; if none is, the
variables AZURE_STORAGE_CONNECTION_STRING, AZURE_STORAGE_KEY and AZURE_STORAGE_SAS_TOKEN in this order; else `default`.
"""

from __future__ import annotations

import base64
import binascii
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeAlias
from urllib.parse import urlsplit

from azure_account.account_options import ACCOUNT_OPTIONS as ACCOUNT_OPTIONS  # noqa: PLC0414 - offered here too
from azure_account.connection_string import ConnectionString, parse_connection_string
from azure_account.errors import ConfigurationError
from azure_account.retry import RetryPolicy
from azure_account.secret import Secret

if TYPE_CHECKING:
    from collections.abc import Mapping

    from azure_account.option_table import ParsedOptions


@dataclass(frozen=True)
class SharedKey:
    """`auth=accountKey`."""

    account: str
    key: Secret


@dataclass(frozen=True)
class SasToken:
    """`auth=sas`; the token without `?`."""

    token: Secret


@dataclass(frozen=True)
class DefaultIdentity:
    """`auth=default`: the environment, managed identity, developer tools, whichever answers first."""

    client_id: str | None = None


@dataclass(frozen=True)
class ManagedIdentity:
    """`auth=managedIdentity`; without client id the system-assigned one."""

    client_id: str | None = None


@dataclass(frozen=True)
class WorkloadIdentity:
    """`auth=workloadIdentity`; what is None comes from the pod's AZURE_* variables."""

    tenant_id: str | None = None
    client_id: str | None = None


@dataclass(frozen=True)
class ClientSecret:
    """`auth=clientSecret`."""

    tenant_id: str
    client_id: str
    secret: Secret


@dataclass(frozen=True)
class ClientCertificate:
    """`auth=clientCertificate`."""

    tenant_id: str
    client_id: str
    path: str
    password: Secret | None = None


@dataclass(frozen=True)
class AzureCli:
    """`auth=azureCli`."""

    tenant_id: str | None = None


@dataclass(frozen=True)
class Anonymous:
    """`auth=anonymous`: public containers, reading only."""


TokenAuth: TypeAlias = (
    DefaultIdentity | ManagedIdentity | WorkloadIdentity | ClientSecret | ClientCertificate | AzureCli
)
Auth: TypeAlias = SharedKey | SasToken | Anonymous | TokenAuth


@dataclass(frozen=True)
class Proxy:
    """An HTTP proxy."""

    hostname: str
    port: int

    @property
    def url(self) -> str:
        """Its URL."""
        return f"http://{self.hostname}:{self.port}"


@dataclass(frozen=True)
class Timeouts:
    """Limits of one try, in seconds. `request` bounds sending and waiting each; leases have their own, shorter one."""

    connect: float = 10.0
    request: float = 60.0
    lease: float = 5.0


@dataclass(frozen=True)
class AccountSettings:
    """All that `connect` needs. Hashable and picklable; its `repr` shows no secret.

    Endpoints have no trailing slash. `table_endpoint` is None where it cannot be derived.
    """

    account: str
    blob_endpoint: str
    table_endpoint: str | None
    auth: Auth
    proxy: Proxy | None = None
    auth_proxy: Proxy | None = None
    retry: RetryPolicy = field(default_factory=RetryPolicy)
    timeouts: Timeouts = field(default_factory=Timeouts)


def account_settings(
    options: ParsedOptions,
    url_account: str | None,
    env: Mapping[str, str],
    *,
    url_endpoint: str | None = None,
) -> AccountSettings:
    """Settings from the account's options, the account and blob endpoint of a URL, and the environment.

    `ConfigurationError` names the option that is missing, malformed or contradicts another.
    """
    kind, values = _credential_values(options, env)
    connection = _connection(values) if kind == "connectionString" else ConnectionString()
    account = _account(options, url_account, connection, env)
    blob = _blob_endpoint(options, url_endpoint, connection, account)
    auth = _auth(kind, values, account, connection)
    if isinstance(auth, TokenAuth) and not blob.startswith("https://"):
        raise ConfigurationError(
            f"auth={kind} sends a token and needs an https endpoint, not {blob}. "
            "Give accountKey, sasToken or connectionString, or set auth=anonymous."
        )
    return AccountSettings(
        account=account,
        blob_endpoint=blob,
        table_endpoint=_table_endpoint(options, connection, blob),
        auth=auth,
        proxy=_proxy(options, "proxy"),
        auth_proxy=_proxy(options, "authProxy"),
        retry=RetryPolicy(max_attempts=options["maxAttempts"], deadline=options["retryDeadlineMs"] / 1000),
        timeouts=Timeouts(options["connectTimeoutMs"] / 1000, options["requestTimeoutMs"] / 1000),
    )


_BY_OPTION = {
    "connectionString": "connectionString",
    "accountKey": "accountKey",
    "sasToken": "sas",
    "clientSecret": "clientSecret",
    "certificatePath": "clientCertificate",
}
_BY_VARIABLE = {
    "AZURE_STORAGE_CONNECTION_STRING": "connectionString",
    "AZURE_STORAGE_KEY": "accountKey",
    "AZURE_STORAGE_SAS_TOKEN": "sasToken",
}
# Spark's default redaction goes by names: these match it, the plain ones do not.
_MASKED_NAMES = {"accountAccessKey": "accountKey", "connectionSecret": "connectionString"}
_CREDENTIAL_OPTIONS = (*_BY_OPTION, "tenantId", "clientId", "certificatePassword")


def _credential_values(options: ParsedOptions, env: Mapping[str, str]) -> tuple[str, dict[str, str]]:
    """The kind of credential, and the values of its options, which are never shown."""
    values = {name: options[name] for name in _CREDENTIAL_OPTIONS if options[name] is not None}
    for masked, name in _MASKED_NAMES.items():
        if options[masked] is not None:
            if name in values:
                raise ConfigurationError(f"Options {name} and {masked} are the same thing: give one of them.")
            values[name] = options[masked]
    present = [name for name in _BY_OPTION if name in values]
    if options["auth"] is not None:
        return str(options["auth"]), values
    if len(present) > 1:
        raise ConfigurationError(
            f"Options {' and '.join(present)} are given together: remove all but one, or say with auth which to use."
        )
    if present:
        return _BY_OPTION[present[0]], values
    for variable, name in _BY_VARIABLE.items():
        if env.get(variable):
            return _BY_OPTION[name], {**values, name: env[variable]}
    return "default", values


def _connection(values: Mapping[str, str]) -> ConnectionString:
    return parse_connection_string(_need(values, "connectionString", "connectionString"), "connectionString")


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
        named = ", ".join(f"{source} says {name}" for source, name in given.items())
        raise ConfigurationError(f"The storage account is not clear: {named}. Make them agree.")
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
    """The account in `https://<account>.blob.…` or, path style, in `http://host:port/<account>`."""
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
            f"Option {option}: the endpoint is not a URL such as https://name.blob.core.windows.net."
        )
    if parts.query or parts.fragment:
        raise ConfigurationError(f"Option {option}: the endpoint has a query; give a signature as sasToken instead.")
    return url.rstrip("/")


def _auth(kind: str, values: Mapping[str, str], account: str, connection: ConnectionString) -> Auth:
    match kind:
        case "accountKey":
            return SharedKey(account, _key(_need(values, "accountKey", kind), "accountKey"))
        case "sas":
            return SasToken(_sas(_need(values, "sasToken", kind), "sasToken"))
        case "connectionString":
            return _connection_auth(connection, account)
        case "anonymous":
            return Anonymous()
        case _:
            return _token_auth(kind, values)


def _token_auth(kind: str, values: Mapping[str, str]) -> TokenAuth:
    match kind:
        case "managedIdentity":
            return ManagedIdentity(values.get("clientId"))
        case "workloadIdentity":
            return WorkloadIdentity(values.get("tenantId"), values.get("clientId"))
        case "clientSecret" | "clientCertificate":
            return _service_principal(kind, values)
        case "azureCli":
            return AzureCli(values.get("tenantId"))
        case _:
            return DefaultIdentity(values.get("clientId"))


def _service_principal(kind: str, values: Mapping[str, str]) -> ClientSecret | ClientCertificate:
    tenant, client = _need(values, "tenantId", kind), _need(values, "clientId", kind)
    if kind == "clientSecret":
        return ClientSecret(tenant, client, Secret(_need(values, "clientSecret", kind)))
    password = values.get("certificatePassword")
    path = _need(values, "certificatePath", kind)
    return ClientCertificate(tenant, client, path, Secret(password) if password else None)


def _connection_auth(connection: ConnectionString, account: str) -> Auth:
    if connection.key is not None:
        return SharedKey(account, _key(connection.key.reveal(), "connectionString"))
    if connection.sas is not None:
        return SasToken(_sas(connection.sas.reveal(), "connectionString"))
    return Anonymous()


def _need(values: Mapping[str, str], option: str, kind: str) -> str:
    if option not in values:
        raise ConfigurationError(f"Option {option} is missing: auth={kind} needs it.")
    return values[option]


def _key(value: str, option: str) -> Secret:
    try:
        base64.b64decode(value, validate=True)
    except (binascii.Error, ValueError):
        raise ConfigurationError(
            f"Option {option}: the account key is not base64. Copy it whole from the account's access keys."
        ) from None
    return Secret(value)


def _sas(value: str, option: str) -> Secret:
    token = value.lstrip("?")
    if "sig=" not in token:
        raise ConfigurationError(f"Option {option}: the shared access signature has no `sig` part. Copy it whole.")
    return Secret(token)


def _proxy(options: ParsedOptions, prefix: str) -> Proxy | None:
    if not options[f"{prefix}.use"]:
        given = [name for name in (f"{prefix}.hostname", f"{prefix}.port") if name in options.given]
        if given and f"{prefix}.use" not in options.given:
            raise ConfigurationError(f"Option {given[0]} has no effect: set {prefix}.use to true, or remove it.")
        return None
    for name in (f"{prefix}.hostname", f"{prefix}.port"):
        if options[name] is None:
            raise ConfigurationError(f"Option {name} is missing: {prefix}.use needs it.")
    return Proxy(options[f"{prefix}.hostname"], options[f"{prefix}.port"])
