"""The kinds of credentials, and the one that options and environment give.

If `auth` is not set, the kind follows from the option that is: `connectionString`, `accountKey`, `sasToken`,
`clientSecret` or `certificatePath`. If none of them is set, the variables AZURE_STORAGE_CONNECTION_STRING,
AZURE_STORAGE_KEY and AZURE_STORAGE_SAS_TOKEN are looked at in this order. If none of those is set, it is `default`.
"""

from __future__ import annotations

import base64
import binascii
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeAlias
from urllib.parse import unquote

from azure_account.options.connection_string import ConnectionString, parse_connection_string
from azure_account.options.secret import Secret
from foundation.errors import ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from azure_account.options.option_table import ParsedOptions


@dataclass(frozen=True)
class SharedKey:
    """`auth=accountKey`."""

    account: str
    key: Secret


@dataclass(frozen=True)
class SasToken:
    """`auth=sas`; `token` has no `?` in front."""

    token: Secret


@dataclass(frozen=True)
class DefaultIdentity:
    """`auth=default`: the first of environment, managed identity and developer tools that has a token."""

    client_id: str | None = None


@dataclass(frozen=True)
class ManagedIdentity:
    """`auth=managedIdentity`; without client id it is the system-assigned identity."""

    client_id: str | None = None


@dataclass(frozen=True)
class WorkloadIdentity:
    """`auth=workloadIdentity`; an id that is None is taken from the pod's AZURE_* variables."""

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
    """`auth=anonymous`: public containers, which can only be read."""


TokenAuth: TypeAlias = (
    DefaultIdentity | ManagedIdentity | WorkloadIdentity | ClientSecret | ClientCertificate | AzureCli
)
Auth: TypeAlias = SharedKey | SasToken | Anonymous | TokenAuth


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
# Spark redacts options by their names: those on the left match its pattern, those on the right do not.
_MASKED_NAMES = {"accountAccessKey": "accountKey", "connectionSecret": "connectionString"}
_CREDENTIAL_OPTIONS = (*_BY_OPTION, "tenantId", "clientId", "certificatePassword")


@dataclass(frozen=True)
class CredentialOptions:
    """A kind of credential, as a value of the option `auth`, and the values of its options. No `repr` shows these."""

    kind: str
    values: Mapping[str, str] = field(repr=False)

    def connection_string(self) -> ConnectionString:
        """The parsed connection string, or an empty one if the credential is of another kind."""
        if self.kind != "connectionString":
            return ConnectionString()
        return parse_connection_string(self._required("connectionString"), "connectionString")

    def auth(self, account: str, connection: ConnectionString) -> Auth:
        """The credential for this account. `ConfigurationError` names the option that is missing or malformed."""
        match self.kind:
            case "accountKey":
                return SharedKey(account, _key(self._required("accountKey"), "accountKey"))
            case "sas":
                return SasToken(_sas(self._required("sasToken"), "sasToken"))
            case "connectionString":
                return _connection_auth(connection, account)
            case "anonymous":
                return Anonymous()
            case _:
                return self._token_auth()

    def _token_auth(self) -> TokenAuth:
        match self.kind:
            case "managedIdentity":
                return ManagedIdentity(self.values.get("clientId"))
            case "workloadIdentity":
                return WorkloadIdentity(self.values.get("tenantId"), self.values.get("clientId"))
            case "clientSecret" | "clientCertificate":
                return self._service_principal()
            case "azureCli":
                return AzureCli(self.values.get("tenantId"))
            case _:
                return DefaultIdentity(self.values.get("clientId"))

    def _service_principal(self) -> ClientSecret | ClientCertificate:
        tenant, client = self._required("tenantId"), self._required("clientId")
        if self.kind == "clientSecret":
            return ClientSecret(tenant, client, Secret(self._required("clientSecret")))
        password = self.values.get("certificatePassword")
        path = self._required("certificatePath")
        return ClientCertificate(tenant, client, path, Secret(password) if password else None)

    def _required(self, option: str) -> str:
        if option not in self.values:
            raise ConfigurationError(f"Option `{option}` is missing: auth={self.kind} needs it.")
        return self.values[option]


def given_credential(options: ParsedOptions, env: Mapping[str, str]) -> CredentialOptions:
    """The credential that the options give, else the environment. `ConfigurationError` if it is not clear which."""
    values = {name: options[name] for name in _CREDENTIAL_OPTIONS if options[name] is not None}
    for masked, name in _MASKED_NAMES.items():
        if options[masked] is not None:
            if name in values:
                raise ConfigurationError(f"Options `{name}` and `{masked}` are the same thing: give one of them.")
            values[name] = options[masked]
    present = [name for name in _BY_OPTION if name in values]
    if options["auth"] is not None:
        return CredentialOptions(str(options["auth"]), values)
    if len(present) > 1:
        names = "` and `".join(present)
        raise ConfigurationError(
            f"Options `{names}` are given together: remove all but one, or set auth to the one to use."
        )
    if present:
        return CredentialOptions(_BY_OPTION[present[0]], values)
    for variable, name in _BY_VARIABLE.items():
        if env.get(variable):
            return CredentialOptions(_BY_OPTION[name], {**values, name: env[variable]})
    return CredentialOptions("default", values)


def _connection_auth(connection: ConnectionString, account: str) -> Auth:
    if connection.key is not None:
        return SharedKey(account, _key(connection.key.reveal(), "connectionString"))
    if connection.sas is not None:
        return SasToken(_sas(connection.sas.reveal(), "connectionString"))
    return Anonymous()


def _key(value: str, option: str) -> Secret:
    try:
        base64.b64decode(value, validate=True)
    except (binascii.Error, ValueError):
        raise ConfigurationError(
            f"Option `{option}`: the account key is not base64. Copy it whole from the account's access keys."
        ) from None
    return Secret(value)


def _sas(value: str, option: str) -> Secret:
    token = value.lstrip("?")
    fault = _fault_of_sas(token)
    if fault is not None:
        raise ConfigurationError(f"Option `{option}`: the shared access signature {fault}")
    return Secret(token)


def _fault_of_sas(token: str) -> str | None:
    """What Azure would refuse as a wrong credential, although it is only written in a wrong way."""
    if token.startswith(("'", '"')):
        return "is in quotes. Give it without them."
    if "://" in token:
        return "is a whole URL. Give only what follows its `?`."
    signature = dict(part.partition("=")[::2] for part in token.split("&")).get("sig", "")
    if not signature:
        return "has no `sig` part. Copy it whole."
    if "+" in signature or " " in signature:  # a plus sign in a URL is a space
        return "has a `sig` part that is not escaped. Write %2B for each + in it, %2F for / and %3D for =."
    plain = unquote(signature)
    if "%" in plain:
        return "has a `sig` part that was escaped twice. Write % for each %25 in it."
    try:
        base64.b64decode(plain, validate=True)
    except ValueError:
        return "has a `sig` part that is cut off or changed. Copy it whole."
    return None
