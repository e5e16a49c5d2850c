"""Parses connection strings of Azure Storage: `key=value;…`. No message shows a value of one."""

from __future__ import annotations

from dataclasses import dataclass

from azure_account.options.secret import Secret
from foundation.errors import ConfigurationError

# The account of the storage emulator. Its name and key are public and the same everywhere.
EMULATOR_ACCOUNT = "devstoreaccount1"
EMULATOR_KEY = "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=="

_KNOWN = {
    "defaultendpointsprotocol",
    "accountname",
    "accountkey",
    "sharedaccesssignature",
    "endpointsuffix",
    "blobendpoint",
    "tableendpoint",
    "usedevelopmentstorage",
    "developmentstorageproxyuri",
}
_IGNORED = ("queueendpoint", "fileendpoint", "dfsendpoint", "secondaryendpoint")


@dataclass(frozen=True)
class ConnectionString:
    """The parts of a connection string; None for a part that it does not have."""

    account: str | None = None
    key: Secret | None = None
    sas: Secret | None = None
    blob_endpoint: str | None = None
    table_endpoint: str | None = None


def parse_connection_string(text: str, option: str) -> ConnectionString:
    """Parse `text`, the value of `option`. `ConfigurationError` names the option and the part by its number."""
    parts = _split(text, option)
    if parts.get("usedevelopmentstorage", "").lower() == "true":
        return _emulator(parts.get("developmentstorageproxyuri", "http://127.0.0.1"))
    account = parts.get("accountname")
    blob, table = (_endpoint(parts, service, account) for service in ("blob", "table"))
    if blob is None:
        raise ConfigurationError(f"Option `{option}`: the connection string has neither AccountName nor BlobEndpoint.")
    return ConnectionString(account, _secret(parts, "accountkey"), _secret(parts, "sharedaccesssignature"), blob, table)


def _split(text: str, option: str) -> dict[str, str]:
    parts: dict[str, str] = {}
    for number, item in enumerate(filter(None, (item.strip() for item in text.split(";"))), 1):
        key, equals, value = item.partition("=")
        name = key.strip().lower()
        if not equals:
            raise ConfigurationError(f"Option `{option}`: part {number} of the connection string is not `Key=value`.")
        if name not in _KNOWN and not name.endswith(_IGNORED):
            raise ConfigurationError(
                f"Option `{option}`: the key of part {number} of the connection string is unknown. "
                "It may hold AccountName, AccountKey, SharedAccessSignature, BlobEndpoint, TableEndpoint, "
                "DefaultEndpointsProtocol, EndpointSuffix and UseDevelopmentStorage."
            )
        parts[name] = value.strip()
    if not parts:
        raise ConfigurationError(f"Option `{option}`: the connection string is empty.")
    return parts


def _endpoint(parts: dict[str, str], service: str, account: str | None) -> str | None:
    given = parts.get(f"{service}endpoint")
    if given:
        return given.rstrip("/")
    if not account or (service == "table" and "blobendpoint" in parts):
        return None
    scheme = parts.get("defaultendpointsprotocol", "https")
    return f"{scheme}://{account}.{service}.{parts.get('endpointsuffix', 'core.windows.net')}"


def _emulator(host: str) -> ConnectionString:
    base = host.rstrip("/")
    return ConnectionString(
        EMULATOR_ACCOUNT,
        Secret(EMULATOR_KEY),
        None,
        f"{base}:10000/{EMULATOR_ACCOUNT}",
        f"{base}:10002/{EMULATOR_ACCOUNT}",
    )


def _secret(parts: dict[str, str], name: str) -> Secret | None:
    return Secret(parts[name]) if parts.get(name) else None
