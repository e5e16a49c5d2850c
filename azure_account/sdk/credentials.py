"""Credentials for the SDK. `azure.identity` (0.3 s to import) is imported only when a token is needed."""

from __future__ import annotations

import os
from pathlib import Path
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
from azure_account.sdk.transport import token_transport
from foundation.errors import ConfigurationError

if TYPE_CHECKING:
    from azure.core.credentials import TokenCredential

    from azure_account.options.authentication import TokenAuth
    from azure_account.options.settings import AccountSettings
    from azure_account.sdk.tokens import Tokens

# Sovereign clouds have token authorities of their own. Source: azure.identity.AzureAuthorityHosts.
_AUTHORITIES = {
    "core.chinacloudapi.cn": "login.chinacloudapi.cn",
    "core.usgovcloudapi.net": "login.microsoftonline.us",
}


# What the chain of `auth=default` repeats by itself: the first failure of all of it says nothing of a lost connection.
_CHAIN_RETRIES = 3


def sdk_credential(settings: AccountSettings) -> AzureNamedKeyCredential | AzureSasCredential | Tokens | None:
    """The `credential` of the SDK's clients; None is anonymous."""
    match settings.auth:
        case SharedKey(account, key):
            return AzureNamedKeyCredential(account, key.reveal())
        case SasToken(token):
            return AzureSasCredential(token.reveal())
        case Anonymous():
            return None
        case token_auth:
            options = _identity_options(settings)
            from azure_account.sdk.tokens import Tokens  # noqa: PLC0415 - not needed with keys

            return Tokens(
                lambda note: _token_credential(token_auth, {**options, "raw_response_hook": note}),
                limit=settings.timeouts.request,
            )


def _identity_options(settings: AccountSettings) -> dict[str, Any]:
    """What each credential gets: time limits of requests, no retries of its own, proxies, the authority.

    A proxy is for https alone. What is asked by http is a service of this host (IMDS, App Service, Arc), and a proxy
    would be asked for the identity of another host.
    """
    proxies = {"http": ""} if settings.auth_proxy is None else {"http": "", "https": settings.auth_proxy.url}
    retries = _CHAIN_RETRIES if isinstance(settings.auth, DefaultIdentity) else 0
    options: dict[str, Any] = {"transport": token_transport(settings), "retry_total": retries, "proxies": proxies}
    host = urlsplit(settings.blob_endpoint).hostname or ""
    for suffix, authority in _AUTHORITIES.items():
        if host.endswith(suffix):
            options["authority"] = authority
    return options


def _token_credential(auth: TokenAuth, options: dict[str, Any]) -> TokenCredential:
    try:
        return _identity_credential(auth, options)
    except ConfigurationError:  # which is a ValueError
        raise
    except ValueError as error:
        raise ConfigurationError(f"{type(auth).__name__} is not complete: {error}") from None


def _identity_credential(auth: TokenAuth, options: dict[str, Any]) -> TokenCredential:
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
    """`WorkloadIdentityCredential`, but the file is read for each token: Kubernetes puts a new one there."""
    from azure.identity import ClientAssertionCredential  # noqa: PLC0415 - see above

    tenant, client = tenant_id or os.environ.get("AZURE_TENANT_ID"), client_id or os.environ.get("AZURE_CLIENT_ID")
    file = os.environ.get("AZURE_FEDERATED_TOKEN_FILE")
    if not (tenant and client and file):
        raise ConfigurationError(
            "auth=workloadIdentity needs AZURE_TENANT_ID, AZURE_CLIENT_ID and AZURE_FEDERATED_TOKEN_FILE in the "
            "environment of driver and executors, or the options tenantId and clientId. Check the pod's label "
            "azure.workload.identity/use and its service account."
        )
    return ClientAssertionCredential(tenant, client, lambda: _assertion(Path(file)), **options)


def _assertion(file: Path) -> str:
    try:
        return file.read_text().strip()
    except OSError as failed:
        raise ConfigurationError(
            f"The token file of the workload identity, {file}, cannot be read ({failed.strerror}). Check the variable "
            "AZURE_FEDERATED_TOKEN_FILE and the service account of the pod."
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
            f"Option `certificatePath`: {auth.path} holds no usable certificate with private RSA key (PEM or "
            "PKCS12), or certificatePassword is wrong."
        ) from None


def _without_authority(options: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in options.items() if name != "authority"}
