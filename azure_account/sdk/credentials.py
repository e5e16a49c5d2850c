"""Credentials for the SDK. `azure.identity` (0.3 s to import) is imported only when a token is needed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from azure.core.credentials import AzureNamedKeyCredential, AzureSasCredential

from azure_account.options.authentication import (
    Anonymous,
    AzureCli,
    ClientCertificate,
    ClientSecret,
    DefaultIdentity,
    ManagedIdentity,
    SasToken,
    SharedKey,
    WorkloadIdentity,
)
from foundation.errors import ConfigurationError

if TYPE_CHECKING:
    from azure.core.credentials import TokenCredential

    from azure_account.options.authentication import TokenAuth
    from azure_account.options.settings import AccountSettings

# Sovereign clouds have token authorities of their own. Source: azure.identity.AzureAuthorityHosts.
_AUTHORITIES = {
    "core.chinacloudapi.cn": "login.chinacloudapi.cn",
    "core.usgovcloudapi.net": "login.microsoftonline.us",
}


def sdk_credential(
    settings: AccountSettings,
) -> AzureNamedKeyCredential | AzureSasCredential | TokenCredential | None:
    """The `credential` of the SDK's clients; None is anonymous."""
    match settings.auth:
        case SharedKey(account, key):
            return AzureNamedKeyCredential(account, key.reveal())
        case SasToken(token):
            return AzureSasCredential(token.reveal())
        case Anonymous():
            return None
        case token_auth:
            return _token_credential(token_auth, _identity_options(settings))


def _identity_options(settings: AccountSettings) -> dict[str, Any]:
    options: dict[str, Any] = {}
    if settings.auth_proxy is not None:
        options["proxies"] = {"http": settings.auth_proxy.url, "https": settings.auth_proxy.url}
    host = urlsplit(settings.blob_endpoint).hostname or ""
    for suffix, authority in _AUTHORITIES.items():
        if host.endswith(suffix):
            options["authority"] = authority
    return options


def _token_credential(auth: TokenAuth, options: dict[str, Any]) -> TokenCredential:
    from azure import identity  # noqa: PLC0415 - slow to import, and not needed with keys

    match auth:
        case DefaultIdentity(client_id):
            chosen = {"managed_identity_client_id": client_id} if client_id else {}
            return identity.DefaultAzureCredential(**chosen, **options)
        case ManagedIdentity(client_id):
            return identity.ManagedIdentityCredential(client_id=client_id, **_without_authority(options))
        case WorkloadIdentity(tenant_id, client_id):
            return _workload_identity(tenant_id, client_id, options)
        case ClientSecret(tenant_id, client_id, secret):
            return identity.ClientSecretCredential(tenant_id, client_id, secret.reveal(), **options)
        case ClientCertificate():
            return _certificate(auth, options)
        case AzureCli(tenant_id):
            return identity.AzureCliCredential(tenant_id=tenant_id or "")


def _workload_identity(tenant_id: str | None, client_id: str | None, options: dict[str, Any]) -> TokenCredential:
    from azure.identity import WorkloadIdentityCredential  # noqa: PLC0415 - see above

    try:
        return WorkloadIdentityCredential(tenant_id=tenant_id, client_id=client_id, **options)
    except ValueError:
        raise ConfigurationError(
            "auth=workloadIdentity needs AZURE_TENANT_ID, AZURE_CLIENT_ID and AZURE_FEDERATED_TOKEN_FILE in the "
            "environment of driver and executors, or the options tenantId and clientId. Check the pod's label "
            "azure.workload.identity/use and its service account."
        ) from None


def _certificate(auth: ClientCertificate, options: dict[str, Any]) -> TokenCredential:
    from azure.identity import CertificateCredential  # noqa: PLC0415 - see above

    password = auth.password.reveal() if auth.password else None
    try:
        return CertificateCredential(auth.tenant_id, auth.client_id, auth.path, password=password, **options)
    except OSError as failed:
        raise ConfigurationError(
            f"Option `certificatePath`: {auth.path} cannot be read ({failed.strerror}). "
            "The file must be on the driver and on every executor."
        ) from None
    except ValueError:
        raise ConfigurationError(
            f"Option `certificatePath`: {auth.path} holds no usable certificate with private key (PEM or PKCS12), "
            "or certificatePassword is wrong."
        ) from None


def _without_authority(options: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in options.items() if name != "authority"}
