"""What it means that there is no token: the answer of the token service, or why there was none, and the next step."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from azure.core.exceptions import ServiceRequestError, ServiceResponseError

from azure_account.options.authentication import DefaultIdentity, ManagedIdentity
from azure_account.retrying.policy import RETRYABLE_STATUS
from azure_account.sdk.attempt_limit import AttemptTimeoutError
from azure_account.sdk.failures import KnownError, chain_of, credential_hint, of_handshake, of_proxy, plain
from azure_account.service import Failure, Throttled, Unreached

if TYPE_CHECKING:
    from azure_account.sdk.failures import RequestContext
    from foundation.errors import AzureBlobError

_IMDS_IS_BUSY = {(404, ManagedIdentity), (410, ManagedIdentity)}
"""Statuses of IMDS while it is updated, after which a request is to be repeated."""
_TOKENS_THROTTLED = "Each Python worker asks for a token of its own: start fewer at once, or raise retryDeadlineMs."
# Microsoft lists the codes as "Microsoft Entra authentication and authorization error codes".
_ENTRA_STEP = {
    "7000112": "The application is disabled: enable it in Entra ID.",
    "7000215": "Check clientSecret: it is the secret's value, not its id.",
    "7000222": "The client secret has expired: make a new one, and set clientSecret.",
    "700016": "Check clientId and tenantId: the tenant has no such application.",
    "700024": "The assertion is not of this time: check this machine's clock, and that the token file is renewed.",
    "700027": "Check certificatePath: the application does not have this certificate.",
    "70021": "Check issuer, subject and audience of the identity's federated credential.",
    "700213": "Check issuer, subject and audience of the identity's federated credential.",
    "90002": "Check tenantId: there is no such tenant.",
    "900023": "Check tenantId: there is no such tenant.",
    "500011": "The tenant does not know Azure Storage: check tenantId and the cloud of the endpoint.",
}


@dataclass(frozen=True)
class TokenAnswer:
    """The last refusal of a token service. text: its own words, one line without tokens; empty if it has none."""

    status: int
    text: str
    retry_after: float | None


class NoTokenError(KnownError):
    """There is no token. `answer` is what the token service said, if it did; `inner_exception` the SDK's error."""

    def __init__(self, error: Exception, answer: TokenAnswer | None) -> None:
        super().__init__("no token", error=error)
        self.answer = answer

    def failure(self, context: RequestContext) -> Failure | AzureBlobError:
        """What to raise in place of it."""
        return _no_token(self, context)


def _no_token(error: NoTokenError, context: RequestContext) -> Failure | AzureBlobError:
    answer, auth = error.answer, context.settings.auth
    if answer is not None and (answer.status in RETRYABLE_STATUS or (answer.status, type(auth)) in _IMDS_IS_BUSY):
        cause = f"the token service answered {_said(answer)}"
        return Throttled(cause, retry_after=answer.retry_after, next_step=_TOKENS_THROTTLED)
    found = None if answer is not None else _token_service_unreached(list(chain_of(error)), context)
    if found is not None:
        return found
    step = _step_of_entra(answer) or credential_hint(context.settings)
    if answer is not None and not isinstance(auth, DefaultIdentity):
        return context.error(f"no token from {type(auth).__name__}: the token service answered {_said(answer)}", step)
    lines = str(getattr(error.inner_exception, "message", "") or error.inner_exception).splitlines() or [""]
    # DefaultAzureCredential lists in indented lines what it has tried; its first line has no cause.
    tried = [line.strip().split(". ")[0] for line in lines if line.startswith("\t")] or lines[:1]
    return context.error(f"no token from {type(auth).__name__}: {'; '.join(map(plain, tried))}", step)


def _token_service_unreached(chain: list[BaseException], context: RequestContext) -> Failure | AzureBlobError | None:
    found = of_handshake(chain, "the token service", "AZURE_AUTHORITY_HOST", context) or of_proxy(
        chain, "authProxy", context
    )
    if found is not None:
        return found
    if any(isinstance(item, (ServiceRequestError, ServiceResponseError, AttemptTimeoutError)) for item in chain):
        if isinstance(context.settings.auth, ManagedIdentity):
            step = "Check that this machine has a managed identity: its service is at 169.254.169.254, without a proxy."
        else:
            step = "Check the network and authProxy.hostname."
        return Unreached("the token service cannot be reached", next_step=step)
    return None


def _said(answer: TokenAnswer) -> str:
    return f"{answer.status} ({answer.text})" if answer.text else str(answer.status)


def _step_of_entra(answer: TokenAnswer | None) -> str | None:
    """The next step for an error code of Entra ID, such as AADSTS7000222."""
    found = re.search(r"AADSTS(\d+)", answer.text) if answer else None
    return _ENTRA_STEP.get(found.group(1)) if found else None
