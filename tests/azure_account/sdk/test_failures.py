from __future__ import annotations

import datetime as dt
import socket
import ssl
import types
from typing import Any

import pytest
from azure.core import exceptions as sdk
from azure.storage.blob import StorageErrorCode
from urllib3.connection import HTTPConnection
from urllib3.exceptions import NewConnectionError, ProtocolError

from azure_account.options.authentication import Anonymous, Auth, DefaultIdentity, SasToken, SharedKey
from azure_account.options.secret import Secret
from azure_account.options.settings import AccountSettings
from azure_account.sdk.failures import RequestContext, failure_of
from azure_account.sdk.token_failures import NoTokenError
from azure_account.sdk.transport import AnswerDate
from azure_account.service import Absent, Ambiguous, ConditionFailed, Failure, Throttled, Unreached
from foundation.errors import AzureBlobError, ConfigurationError, NotFoundError

URL = "https://acc.blob.core.windows.net"
TOKEN = "sv=1&sig=S3CR3T00"


def context(operation: str = "put blob", target: str = "c/b", auth: Auth | None = None) -> RequestContext:
    key = SharedKey("acc", Secret("a2V5"))
    return RequestContext(operation, target, AccountSettings("acc", URL, None, auth or key))


def answer(status: int, code: str = "", **headers: str) -> sdk.HttpResponseError:
    response: Any = types.SimpleNamespace(
        status_code=status,
        reason="reason",
        headers={"x-ms-error-code": code, "x-ms-request-id": "id-1", **headers} if code else headers,
        request=types.SimpleNamespace(url=f"{URL}/c/b?{TOKEN}"),
    )
    return sdk.HttpResponseError(message=f"first line of {URL}/c/b?{TOKEN}\nRequestId:1", response=response)


@pytest.mark.parametrize(
    ("status", "code", "expected"),
    [
        (503, "ServerBusy", Throttled),
        (429, "", Throttled),
        (409, "ContainerBeingDeleted", Throttled),
        (503, "", Ambiguous),
        (500, "OperationTimedOut", Ambiguous),
        (500, "InternalError", Ambiguous),
        (500, "APINotImplemented", ConfigurationError),
        (502, "", Ambiguous),
        (504, "", Ambiguous),
        (408, "", Ambiguous),
        (404, "BlobNotFound", Absent),
        (404, "", Absent),
        (400, "InvalidBlockList", Absent),
        (404, "ContainerNotFound", NotFoundError),
        (404, "TableNotFound", NotFoundError),
        (409, "BlobAlreadyExists", ConditionFailed),
        (403, "UnauthorizedBlobOverwrite", ConditionFailed),
        (412, "ConditionNotMet", ConditionFailed),
        (412, "LeaseIdMissing", ConditionFailed),
        (409, "LeaseAlreadyPresent", ConditionFailed),
        (409, "EntityAlreadyExists", ConditionFailed),
        (412, "", ConditionFailed),
        (403, "AuthenticationFailed", ConfigurationError),
        (403, "AuthorizationPermissionMismatch", ConfigurationError),
        (401, "", ConfigurationError),
        (409, "BlobArchived", ConfigurationError),
        (409, "BlockCountExceedsLimit", ConfigurationError),
        (400, "InvalidBlobOrBlock", ConfigurationError),
        (400, "InvalidHeaderValue", ConfigurationError),
        (413, "RequestBodyTooLarge", ConfigurationError),
        (418, "Teapot", ConfigurationError),
    ],
)
def test_an_answer_is_mapped_to_a_failure_or_an_error(status: int, code: str, expected: type[Exception]) -> None:
    assert type(failure_of(answer(status, code), context())) is expected


def test_of_several_answers_the_first_date_counts() -> None:
    date = AnswerDate()
    for header in ("Thu, 01 Jan 2026 00:01:00 GMT", "Thu, 01 Jan 2026 01:00:00 GMT"):
        date(types.SimpleNamespace(http_response=types.SimpleNamespace(headers={"Date": header})))
    assert dt.datetime(2026, 1, 1, 0, 1, tzinfo=dt.UTC) == date.time()


def test_an_unknown_block_is_absent_only_for_a_commit() -> None:
    assert isinstance(failure_of(answer(400, "InvalidBlobOrBlock"), context("commit block list")), Absent)


def test_every_error_code_of_the_sdk_is_mapped() -> None:
    for code in StorageErrorCode:
        for status in (400, 403, 404, 409, 412, 500, 503):
            assert isinstance(failure_of(answer(status, code.value), context()), (Failure, AzureBlobError))


def test_every_lease_code_of_the_sdk_is_a_failed_condition() -> None:
    leases = [code.value for code in StorageErrorCode if "lease" in code.value.lower() and "Duration" not in code.value]
    assert len(leases) > 10
    assert [ConditionFailed] * len(leases) == [type(failure_of(answer(409, code), context())) for code in leases]


SDK_ERRORS = [item for item in vars(sdk).values() if isinstance(item, type) and issubclass(item, sdk.AzureError)]


@pytest.mark.parametrize("error_type", SDK_ERRORS)
def test_every_error_class_of_the_sdk_is_mapped(error_type: type[sdk.AzureError]) -> None:
    try:
        error = error_type(f"cannot reach {URL}/c/b?{TOKEN}")
    except (TypeError, AttributeError):
        pytest.skip("it is made from an answer only")
    found = failure_of(error, context(auth=SasToken(Secret(TOKEN))))
    assert isinstance(found, (Failure, AzureBlobError))
    assert "S3CR3T" not in str(found)


@pytest.mark.parametrize(
    ("auth", "code", "hint"),
    [
        (SharedKey("acc", Secret("a2V5")), "AuthenticationFailed", "Check accountKey .* clock"),
        (SasToken(Secret(TOKEN)), "AuthenticationFailed", "Check sasToken"),
        (SasToken(Secret(TOKEN)), "AuthorizationPermissionMismatch", "sasToken lacks the permission"),
        (DefaultIdentity(), "AuthorizationPermissionMismatch", "the role Storage Blob Data Contributor"),
        (DefaultIdentity(), "InvalidAuthenticationInfo", "of the account's tenant"),
        (Anonymous(), "NoAuthenticationInformation", "Give a credential"),
        (Anonymous(), "", "The container is not public"),
    ],
)
def test_the_error_for_a_refused_credential_names_its_option(auth: Auth, code: str, hint: str) -> None:
    found = failure_of(answer(403, code), context(auth=auth))
    assert isinstance(found, ConfigurationError)
    with pytest.raises(ConfigurationError, match=hint):
        raise found


def test_a_message_has_operation_object_code_and_request_id_and_no_signature() -> None:
    found = failure_of(answer(400, "OutOfRangeInput"), context(auth=SasToken(Secret(TOKEN))))
    assert (
        f"Put blob c/b failed: 400 OutOfRangeInput (request id id-1): first line of {URL}/c/b. "
        "Check the option or the name that the service does not accept."
    ) == str(found)


def test_the_failure_has_the_retry_after_of_the_answer() -> None:
    found = failure_of(answer(503, "ServerBusy", **{"Retry-After": "7"}), context())
    assert isinstance(found, Throttled)
    assert 7.0 == found.retry_after


def connection(cause: BaseException, error_type: type[sdk.AzureError] = sdk.ServiceRequestError) -> sdk.AzureError:
    return error_type(cause, error=cause)


@pytest.mark.parametrize(
    ("error", "expected", "text"),
    [
        (
            connection(NewConnectionError(HTTPConnection("h"), "refused")),
            Unreached,
            "cannot be reached",
        ),
        (
            connection(socket.gaierror("unknown")),
            Unreached,
            "is unknown",
        ),
        (connection(ssl.SSLCertVerificationError("self-signed")), ConfigurationError, "REQUESTS_CA_BUNDLE"),
        (connection(TimeoutError("t"), sdk.ServiceRequestTimeoutError), Unreached, "cannot be reached"),
        (connection(TimeoutError("t"), sdk.ServiceResponseTimeoutError), Ambiguous, "within the time limit"),
        (
            connection(ProtocolError("Connection aborted.", ConnectionResetError(104)), sdk.ServiceResponseError),
            Ambiguous,
            "ConnectionResetError",
        ),
        (connection(ssl.SSLError("eof")), Ambiguous, "could not be sent whole"),
        (sdk.IncompleteReadError("cut"), Ambiguous, "was cut off"),
        (NoTokenError(ValueError("no"), None), ConfigurationError, "no token from SharedKey: no"),
    ],
)
def test_a_failed_connection_is_mapped_by_whether_it_can_have_had_an_effect(
    error: sdk.AzureError, expected: type[Exception], text: str
) -> None:
    found = failure_of(error, context())
    assert type(found) is expected
    assert text in str(found)
