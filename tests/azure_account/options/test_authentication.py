from __future__ import annotations

import base64
import pickle
from typing import TYPE_CHECKING
from urllib.parse import quote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from azure_account.options.account_options import ACCOUNT_OPTIONS, AUTHS
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
    given_credential,
)
from azure_account.options.secret import Secret
from azure_account.options.settings import account_settings
from foundation.errors import ConfigurationError
from tests.azure_account.settings_of import CONNECTION, KEY, SAS, settings_of

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({}, DefaultIdentity()),
        ({"clientId": "c"}, DefaultIdentity("c")),
        ({"accountKey": KEY}, SharedKey("acc", Secret(KEY))),
        ({"sasToken": f"?{SAS}"}, SasToken(Secret(SAS))),
        ({"tenantId": "t", "clientId": "c", "clientSecret": "s"}, ClientSecret("t", "c", Secret("s"))),
        ({"tenantId": "t", "clientId": "c", "certificatePath": "p"}, ClientCertificate("t", "c", "p")),
        ({"auth": "managedIdentity"}, ManagedIdentity()),
        ({"auth": "managedidentity", "clientId": "c"}, ManagedIdentity("c")),
        ({"auth": "workloadIdentity"}, WorkloadIdentity()),
        ({"auth": "azureCli"}, AzureCli()),
        ({"auth": "anonymous"}, Anonymous()),
        ({"auth": "sas", "sasToken": SAS, "accountKey": KEY}, SasToken(Secret(SAS))),
    ],
)
def test_the_credential_is_that_of_the_options(options: Mapping[str, str], expected: object) -> None:
    assert expected == settings_of(options, url_account="acc").auth


@pytest.mark.parametrize(
    ("env", "expected"),
    [
        (
            {"AZURE_STORAGE_CONNECTION_STRING": CONNECTION, "AZURE_STORAGE_KEY": "b3RoZXI="},
            SharedKey("acc", Secret(KEY)),
        ),
        ({"AZURE_STORAGE_ACCOUNT": "acc", "AZURE_STORAGE_KEY": KEY}, SharedKey("acc", Secret(KEY))),
        ({"AZURE_STORAGE_ACCOUNT": "acc", "AZURE_STORAGE_SAS_TOKEN": SAS}, SasToken(Secret(SAS))),
        ({"AZURE_STORAGE_ACCOUNT": "acc"}, DefaultIdentity()),
    ],
)
def test_environment_variables_are_used_if_no_option_is_given(env: Mapping[str, str], expected: object) -> None:
    settings = settings_of({}, env=env)
    assert ("acc", expected) == (settings.account, settings.auth)


def test_environment_variables_are_ignored_if_a_credential_is_given() -> None:
    env = {"AZURE_STORAGE_CONNECTION_STRING": CONNECTION}
    assert SasToken(Secret(SAS)) == settings_of({"accountName": "other", "sasToken": SAS}, env=env).auth
    assert DefaultIdentity() == settings_of({"accountName": "other", "auth": "default"}, env=env).auth


SECRETS = {
    "accountKey": {"accountKey": "U0VDUkVU"},
    "sas": {"sasToken": "sig=U0VDUkVU"},
    "connectionString": {"connectionString": "AccountName=acc;AccountKey=U0VDUkVU"},
    "clientSecret": {"tenantId": "t", "clientId": "c", "clientSecret": "U0VDUkVU"},
    "clientCertificate": {
        "tenantId": "t",
        "clientId": "c",
        "certificatePath": "p",
        "certificatePassword": "U0VDUkVU",
    },
}


@pytest.mark.parametrize("auth", AUTHS)
def test_settings_can_be_pickled_and_show_no_secret(auth: str) -> None:
    options = ACCOUNT_OPTIONS.parse({"accountName": "acc", "auth": auth, **SECRETS.get(auth, {})})
    settings, given = account_settings(options, None, {}), given_credential(options, {})
    copy = pickle.loads(pickle.dumps(settings))  # noqa: S301 - our own bytes
    assert (settings, hash(settings)) == (copy, hash(copy))
    for shown in (repr(settings), str(settings), f"{settings}", repr(options), repr(settings.auth), repr(given)):
        assert "U0VDUkVU" not in shown


@pytest.mark.parametrize(
    "options",
    [
        {"accountKey": "U0VDUkVU!"},
        {"sasToken": "U0VDUkVU"},
        {"connectionString": "U0VDUkVU"},
        {"connectionString": "AccountKey=U0VDUkVU"},
        {"connectionString": "AccountName=acc;U0VDUkVU=1"},
        {"connectionString": "AccountName=acc;AccountKey=U0VDUkVU!"},
        {"connectionString": "BlobEndpoint=https://acc.blob.core.windows.net?sig=U0VDUkVU"},
        {"endpoint": "https://acc.blob.core.windows.net?sig=U0VDUkVU"},
        {"clientSecret": "U0VDUkVU"},
        {"accountKey": "U0VDUkVU", "sasToken": "sig=U0VDUkVU"},
    ],
)
def test_no_error_of_the_settings_shows_a_secret(options: Mapping[str, str]) -> None:
    with pytest.raises(ConfigurationError) as caught:
        settings_of({"accountName": "acc", **options})
    assert "U0VDUkVU" not in str(caught.value)


UNSIGNED = "sv=2026-02-06&sp=rwl&se=2027-01-01T00%3A00%3A00Z&sig="
BADLY_COPIED: Mapping[str, tuple[Callable[[str], str], str]] = {
    "in quotes": (lambda sig: f'"{UNSIGNED}{quote(sig, safe="")}"', "is in quotes. Give it without them."),
    "in single quotes": (lambda sig: f"'?{UNSIGNED}{quote(sig, safe='')}'", "is in quotes. Give it without them."),
    "a whole URL": (
        lambda sig: f"https://acc.blob.core.windows.net/data?{UNSIGNED}{quote(sig, safe='')}",
        "is a whole URL. Give only what follows its `?`.",
    ),
    "without a signature": (lambda _: UNSIGNED, "has no `sig` part. Copy it whole."),
    "not escaped": (
        lambda sig: f"{UNSIGNED}+{sig}",
        "is not escaped. Write %2B for each + in it, %2F for / and %3D for =.",
    ),
    "escaped twice": (lambda sig: UNSIGNED + quote(quote(sig, safe="")), "escaped twice. Write % for each %25 in it."),
    "cut off": (lambda sig: f"{UNSIGNED}{quote(sig[:-2], safe='')}", "is cut off or changed. Copy it whole."),
}


@given(st.binary(min_size=32, max_size=32))
def test_a_signature_is_accepted_as_azure_gives_it_and_refused_by_its_form_if_it_is_badly_copied(key: bytes) -> None:
    signature = base64.b64encode(key).decode()
    for given_ in (UNSIGNED + quote(signature, safe=""), "?" + UNSIGNED + quote(signature, safe="")):
        assert SasToken(Secret(given_.lstrip("?"))) == settings_of({"accountName": "acc", "sasToken": given_}).auth
    for spoil, sentence in BADLY_COPIED.values():
        bad = spoil(signature)
        for options in (
            {"sasToken": bad},
            {"connectionString": f"BlobEndpoint=https://acc.blob.core.windows.net;SharedAccessSignature={bad}"},
        ):
            with pytest.raises(ConfigurationError) as caught:
                settings_of({"accountName": "acc", **options})
            assert str(caught.value).endswith(sentence)
            assert signature[:10] not in str(caught.value)


def test_a_secret_is_not_shown() -> None:
    secret = Secret("U0VDUkVU")
    assert (["***"], "***", "***", "***") == ([str(secret)], repr(secret), f"{secret}", f"{secret!s:}")
    assert "U0VDUkVU" == secret.reveal()
    assert secret == pickle.loads(pickle.dumps(secret))  # noqa: S301 - our own bytes


def test_a_key_under_its_masked_name_is_the_same_key() -> None:
    plain = {"accountName": "a", "accountKey": "a2V5"}
    masked = {"accountname": "a", "accountaccesskey": "a2V5"}
    assert settings_of(plain) == settings_of(masked)
    with pytest.raises(ConfigurationError, match="`accountKey` and `accountAccessKey` are the same thing"):
        settings_of({**plain, "accountAccessKey": "a2V5"})
