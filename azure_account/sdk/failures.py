"""Maps the SDK's errors to failures of an attempt and to the error tree.

A message has the status, the service's error code, the request id and, for codes that are unknown here, the first line
of the service's text. Messages of the SDK are not used: they contain URLs, and a URL may contain a signature.
"""

from __future__ import annotations

import re
import socket
import ssl
from contextlib import contextmanager
from dataclasses import dataclass
from http import HTTPStatus
from typing import TYPE_CHECKING, Any

from azure.core.exceptions import (
    AzureError,
    HttpResponseError,
    ServiceRequestError,
    ServiceRequestTimeoutError,
    ServiceResponseTimeoutError,
)
from urllib3.exceptions import ConnectTimeoutError, NewConnectionError, ProxyError

from azure_account.options.authentication import (
    Anonymous,
    ClientCertificate,
    ClientSecret,
    DefaultIdentity,
    ManagedIdentity,
    SasToken,
    SharedKey,
    TokenAuth,
    WorkloadIdentity,
)
from azure_account.retrying.policy import RETRYABLE_STATUS, retry_after_seconds
from azure_account.sdk.attempt_limit import AttemptTimeoutError, attempt_limit, was_answered
from azure_account.sdk.permissions import lacks
from azure_account.service import Absent, Ambiguous, ConditionFailed, Failure, Throttled, Unreached
from foundation.clock import SYSTEM_CLOCK
from foundation.errors import AzureBlobError, ConfigurationError, NotFoundError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from azure_account.options.settings import AccountSettings

_CONDITION_FAILED = frozenset(
    {
        "BlobAlreadyExists",
        "BlobOverwritten",
        "ConditionNotMet",
        "ContainerAlreadyExists",
        "EntityAlreadyExists",
        "InfiniteLeaseDurationRequired",
        "PendingCopyOperation",
        "ResourceAlreadyExists",
        "TableAlreadyExists",
        "TargetConditionNotMet",
        "UnauthorizedBlobOverwrite",  # 403: the SAS may create blobs, and this one exists
        "UpdateConditionNotSatisfied",
    }
)
_ABSENT = frozenset({"BlobNotFound", "EntityNotFound", "InvalidBlockList", "ResourceNotFound"})
_NO_PLACE = frozenset({"ContainerNotFound", "TableNotFound", "ContainerDisabled"})
# Rejected without processing. A container or table that is being deleted can be created again within a minute.
_THROTTLED = frozenset({"ServerBusy", "ContainerBeingDeleted", "TableBeingDeleted", "AccountBeingCreated"})
_SHOWN = 120  # characters of a text of the SDK's that a message shows
_NOT_IMPLEMENTED = "APINotImplemented"
"""A code of the emulator, with status 500 or 501, by its version: a repeat cannot help."""

_NEXT_STEP = {
    "AuthenticationFailed": "{credential} Also check this machine's clock: 15 minutes of difference are refused.",
    "AuthorizationFailure": "{credential} If it is right, the network rules of the account refuse this machine.",
    "AuthorizationPermissionMismatch": "Grant it; a new role takes up to ten minutes to work.",
    "AuthorizationServiceMismatch": "Give a SAS that has it.",
    "AuthorizationResourceTypeMismatch": "Give a SAS that has it.",
    "InsufficientAccountPermissions": "Grant it.",
    "InvalidAuthenticationInfo": "{credential}",
    "NoAuthenticationInformation": "Give a credential: accountKey, sasToken, connectionString or another auth.",
    "PublicAccessNotPermitted": "The account allows no anonymous access: choose another auth.",
    "KeyBasedAuthenticationNotPermitted": "The account allows no shared key: choose an auth that uses a token.",
    "AccountIsDisabled": "The storage account is disabled: enable it in the portal.",
    "BlobArchived": "Rehydrate the blob before you read it.",
    "BlobBeingRehydrated": "Wait until the blob is rehydrated.",
    "CannotVerifyCopySource": "The source of the copy may not be read: grant the permission to read it.",
    "BlobImmutableDueToPolicy": "An immutability policy protects the blob: write to another name.",
    "BlockCountExceedsLimit": "A blob can have 100,000 staged blocks: commit it, or use larger blocks.",
    "BlockListTooLong": "A blob can have 50,000 blocks: use larger blocks or smaller blobs.",
    "InvalidBlobOrBlock": "Use block ids of one length within a blob, and no name that holds another type of blob.",
    "InvalidBlobType": "The name holds another type of blob: write to another name.",
    "RequestBodyTooLarge": "Use smaller blocks (maxFlushThresholdSize).",
    "MemoryExtentStoreAtSizeLimit": "The storage emulator is full: restart it, or raise its --extentMemoryLimit.",
    "InvalidHeaderValue": "If this is the storage emulator, start it with --skipApiVersionCheck.",
    _NOT_IMPLEMENTED: "The storage emulator does not have this operation: use an account in Azure.",
    "FeatureNotYetSupportedForHierarchicalNamespaceAccounts": "Accounts with hierarchical namespace do not have this.",
}
_TUNNEL = re.compile(r"Tunnel connection failed: (\d{3})")

_NOT_GRANTED = frozenset(
    {
        "AuthorizationPermissionMismatch",
        "AuthorizationResourceTypeMismatch",
        "AuthorizationServiceMismatch",
        "CannotVerifyCopySource",
        "InsufficientAccountPermissions",
    }
)


@dataclass(frozen=True)
class RequestContext:
    """What a message says of a request. `tables` is true if it was sent to the table service."""

    operation: str
    target: str
    settings: AccountSettings
    tables: bool = False

    @property
    def endpoint(self) -> str:
        """URL of the service."""
        return (self.settings.table_endpoint if self.tables else self.settings.blob_endpoint) or ""

    def error(self, cause: str, next_step: str) -> ConfigurationError:
        """The error of a request that no repeat can help."""
        return ConfigurationError(self.operation.capitalize(), self.target, cause, next_step)


class KnownError(AzureError):
    """An error of this package on its way through the SDK."""

    def failure(self, context: RequestContext) -> Failure | AzureBlobError:
        """What to raise in place of it."""
        raise NotImplementedError


class PastTheEnd(Absent):
    """The range begins at or past the end of the blob."""


@contextmanager
def one_attempt(context: RequestContext, limit: float | None) -> Iterator[None]:
    """Turns the SDK's errors into ours. `from None`, because their text may contain a signature.

    An answer that cannot be read is as good as lost: what the request has done is not known, nor is what was asked.
    """
    try:
        with attempt_limit(limit):
            yield
    except AzureBlobError:  # which may be a ValueError
        raise
    except AzureError as error:
        raise failure_of(error, context) from None
    except (ValueError, TypeError, LookupError, ArithmeticError, AttributeError) as error:
        if not was_answered():
            raise
        lines = str(error).splitlines() or [type(error).__name__]
        cause = f"the answer of {context.endpoint} cannot be read ({plain(lines[0])[:_SHOWN]})"
        step = "Have the proxy between here and the service pass the headers of answers as they are."
        raise Ambiguous(cause, next_step=step) from None


def failure_of(error: AzureError, context: RequestContext) -> Failure | AzureBlobError:
    """What to raise in place of `error`."""
    if isinstance(error, KnownError):
        return error.failure(context)
    response = getattr(error, "response", None)
    if isinstance(error, HttpResponseError) and response is not None:
        return _of_answer(error, response, context)
    return _of_connection(error, context)


def error_code(error: HttpResponseError) -> str:
    """The service's code, such as `BlobNotFound`; empty if it gave none."""
    code = getattr(error, "error_code", None)
    if code is None:
        code = getattr(error.response, "headers", {}).get("x-ms-error-code")
    return str(getattr(code, "value", code) or "")


def _of_answer(error: HttpResponseError, response: Any, context: RequestContext) -> Failure | AzureBlobError:
    code, status = error_code(error), int(response.status_code)
    cause = _cause(status, code, response)
    if status == HTTPStatus.PROXY_AUTHENTICATION_REQUIRED:
        return _refused_by_proxy(status, "proxy", context)
    if code == _NOT_IMPLEMENTED:
        return _final(cause, code, status, error, context)
    if code in _THROTTLED or status in RETRYABLE_STATUS:
        headers = {name.lower(): value for name, value in response.headers.items()}
        sure = code in _THROTTLED or status == HTTPStatus.TOO_MANY_REQUESTS
        return (Throttled if sure else Ambiguous)(cause, retry_after=retry_after_seconds(headers, SYSTEM_CLOCK.now()))
    if code == "InvalidRange":
        return PastTheEnd(cause)
    if code in _NO_PLACE or (status == HTTPStatus.NOT_FOUND and "/" not in context.target):
        return no_place(cause, context)
    if (
        code in _ABSENT
        or status == HTTPStatus.NOT_FOUND
        or (code == "InvalidBlobOrBlock" and context.operation.startswith("commit block list"))
    ):
        return Absent(cause)
    if code in _CONDITION_FAILED or code.startswith("Lease") or status == HTTPStatus.PRECONDITION_FAILED:
        return ConditionFailed(cause)
    return _final(cause, code, status, error, context)


def _final(cause: str, code: str, status: int, error: HttpResponseError, context: RequestContext) -> ConfigurationError:
    template = _NEXT_STEP.get(code)
    if template is None and status in {HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN}:
        template = "{credential} Also check the role or the permissions, and the network rules of the account."
    if template is None:
        lines = str(getattr(error, "message", "") or "").strip().splitlines()
        template = "Check the option or the name that the service does not accept."
        cause = f"{cause}: {plain(lines[0])}" if lines else cause
    if code in _NOT_GRANTED:  # in the cause, which errors of the callers have too
        cause = f"{cause}: {lacks(context.operation, context.settings.auth)}"
    step = template.replace("{credential}", _refused_hint(context.settings))
    return context.error(cause, step)


def no_place(cause: str, context: RequestContext) -> NotFoundError:
    """The error for a request whose container or table does not exist."""
    place = context.target.split("/")[0]
    what = "table" if context.tables else "container"
    step = f"Create the {what} {place} first, or check its name and the account's ({context.endpoint})."
    return NotFoundError(context.operation.capitalize(), context.target, cause, step)


def _of_connection(error: AzureError, context: RequestContext) -> Failure | AzureBlobError:
    chain = list(chain_of(error))
    found = (
        of_handshake(chain, context.endpoint, f"the option {_endpoint_option(context)}", context)
        or of_proxy(chain, "proxy", context)
        or _unreached(error, chain, context)
    )
    if found is not None:
        return found
    if isinstance(error, AttemptTimeoutError):
        return Ambiguous(f"no whole answer from {context.endpoint} within the time limit of an attempt")
    if isinstance(error, ServiceResponseTimeoutError):
        step = "Check the network and the state of the storage service, or raise requestTimeoutMs."
        return Ambiguous(f"no answer from {context.endpoint} within the time limit", next_step=step)
    reason = "could not be sent whole" if isinstance(error, ServiceRequestError) else "was cut off"
    return Ambiguous(f"the exchange with {context.endpoint} {reason} ({type(chain[-1]).__name__})")


def of_handshake(
    chain: list[BaseException], service: str, named_by: str, context: RequestContext
) -> ConfigurationError | None:
    """service: the URL or the name of what was asked. named_by: what to check if its host is wrong."""
    refused = next((item for item in chain if isinstance(item, ssl.SSLCertVerificationError)), None)
    if refused is not None:
        return context.error(*_of_certificate(refused, service, named_by))
    if any(isinstance(item, ssl.SSLError) and getattr(item, "reason", "") == "WRONG_VERSION_NUMBER" for item in chain):
        return context.error(f"{service} does not speak TLS", f"Check whether {named_by} should begin with http.")
    return None


def _of_certificate(refused: ssl.SSLCertVerificationError, service: str, named_by: str) -> tuple[str, str]:
    """Cause and next step. The codes are OpenSSL's X509_V_ERR_…."""
    match getattr(refused, "verify_code", None):
        case 9 | 10 as code:
            when = "has expired" if code == 10 else "is not valid yet"  # noqa: PLR2004 - see above
            step = "Have the certificate renewed, and check this machine's clock."
            return f"the TLS certificate of {service} {when}", step
        case 62 | 64:
            return f"the TLS certificate of {service} is for another host", f"Check {named_by}."
        case _:
            step = f"Check {named_by}, and trust the certificate by REQUESTS_CA_BUNDLE on driver and executors."
            return f"the TLS certificate of {service} is not trusted", step


def of_proxy(chain: list[BaseException], prefix: str, context: RequestContext) -> Failure | AzureBlobError | None:
    """What a proxy has answered to CONNECT, or that there is no proxy. prefix: of the options of that proxy."""
    status = next((int(found.group(1)) for item in chain if (found := _TUNNEL.search(str(item)))), None)
    if status is not None:
        return _refused_by_proxy(status, prefix, context)
    if any(isinstance(item, ProxyError) for item in chain):
        return Unreached("the proxy cannot be reached", next_step=f"Check {prefix}.hostname and {prefix}.port.")
    return None


def _refused_by_proxy(status: int, prefix: str, context: RequestContext) -> Failure | AzureBlobError:
    if status == HTTPStatus.PROXY_AUTHENTICATION_REQUIRED:
        step = f"Check {prefix}.username and {prefix}.password, or those in the variable HTTPS_PROXY."
        return context.error(f"the proxy wants another user or password ({status})", step)
    if status < HTTPStatus.INTERNAL_SERVER_ERROR:
        return context.error(f"the proxy refuses the connection ({status})", "Have the proxy allow the host.")
    return Unreached(f"the proxy cannot reach the service ({status})", next_step="Check the proxy's own network.")


def _unreached(error: AzureError, chain: list[BaseException], context: RequestContext) -> Unreached | None:
    option = _endpoint_option(context)
    if any(isinstance(item, socket.gaierror) for item in chain):
        step = f"Check accountName, the option {option} and the network."
        return Unreached(f"the host of {context.endpoint} is unknown", next_step=step)
    connecting = any(isinstance(item, (NewConnectionError, ConnectTimeoutError)) for item in chain)
    if connecting or isinstance(error, ServiceRequestTimeoutError):
        step = f"Check that the service runs, the option {option}, the network and the firewall."
        return Unreached(f"{context.endpoint} cannot be reached", next_step=step)
    return None


def _endpoint_option(context: RequestContext) -> str:
    return "tableEndpoint" if context.tables else "endpoint"


def chain_of(error: BaseException) -> Iterator[BaseException]:
    """The error and all errors in it, outermost first, in whichever attribute a library keeps them."""
    pending, seen = [error], set()
    while pending:
        item = pending.pop(0)
        if id(item) in seen:
            continue
        seen.add(id(item))
        yield item
        inner = (getattr(item, "inner_exception", None), getattr(item, "reason", None), item.__cause__, *item.args)
        pending += [found for found in inner if isinstance(found, BaseException)]


def _cause(status: int, code: str, response: Any) -> str:
    request_id = response.headers.get("x-ms-request-id")
    name = f"{status} {code}" if code else f"{status}"
    return f"{name} (request id {request_id})" if request_id else name


def _refused_hint(settings: AccountSettings) -> str:
    """What to do if the service refuses the credential."""
    if isinstance(settings.auth, TokenAuth):
        return "Check that the token's identity is of the account's tenant and cloud, and was not revoked."
    return credential_hint(settings)


def credential_hint(settings: AccountSettings) -> str:
    """What to check of the credential."""
    match settings.auth:
        case SharedKey():
            return "Check accountKey (or the key in connectionString): is it a current key of this account?"
        case SasToken():
            return "Check sasToken: is it whole, not expired, and for this account?"
        case ClientSecret():
            return "Check tenantId, clientId and clientSecret: has the secret expired?"
        case ClientCertificate():
            return "Check tenantId, clientId and certificatePath: is the certificate one of the application's?"
        case ManagedIdentity():
            return "Check that this machine has the identity, and set clientId if it has several."
        case WorkloadIdentity():
            return "Check tenantId, clientId, and the issuer, subject and audience of the federated credential."
        case DefaultIdentity():
            return "Set auth to the kind of credential to use, and its options."
        case Anonymous():
            return "The container is not public: give a credential."
        case _:
            return "Check auth and its options (tenantId, clientId)."


def plain(line: str) -> str:
    """A line of the service's text without signatures."""
    return " ".join(word.split("?")[0] if "sig=" in word else word for word in line.split()).rstrip(".")
