from __future__ import annotations

import pickle
from typing import TYPE_CHECKING

import pytest

from azure_account.errors import ConfigurationError
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
)
from azure_account.options.connection_string import EMULATOR_ACCOUNT, EMULATOR_KEY
from azure_account.options.secret import Secret
from azure_account.options.settings import AccountSettings, Proxy, account_settings

if TYPE_CHECKING:
    from collections.abc import Mapping

KEY = "a2V5a2V5a2V5"
SAS = "sv=2026-02-06&sig=c2lnbmF0dXJl"
CONNECTION = f"DefaultEndpointsProtocol=https;AccountName=acc;AccountKey={KEY};EndpointSuffix=core.windows.net"


def settings_of(
    options: Mapping[str, str], *, url_account: str | None = None, env: Mapping[str, str] | None = None
) -> AccountSettings:
    return account_settings(ACCOUNT_OPTIONS.parse(options), url_account, env or {})


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
def test_the_credential_is_the_one_that_is_given(options: Mapping[str, str], expected: object) -> None:
    assert settings_of(options, url_account="acc").auth == expected


def test_a_connection_string_gives_all() -> None:
    settings = settings_of({"connectionString": CONNECTION})
    assert (
        "acc",
        "https://acc.blob.core.windows.net",
        "https://acc.table.core.windows.net",
        SharedKey("acc", Secret(KEY)),
    ) == (settings.account, settings.blob_endpoint, settings.table_endpoint, settings.auth)


def test_a_connection_string_with_a_signature_and_endpoints() -> None:
    settings = settings_of(
        {"connectionString": f"BlobEndpoint=https://acc.blob.core.windows.net/;SharedAccessSignature={SAS}"}
    )
    assert ("acc", "https://acc.blob.core.windows.net", SasToken(Secret(SAS))) == (
        settings.account,
        settings.blob_endpoint,
        settings.auth,
    )


def test_the_emulator_has_a_short_connection_string() -> None:
    settings = settings_of({"connectionString": "UseDevelopmentStorage=true"})
    assert settings.blob_endpoint == "http://127.0.0.1:10000/devstoreaccount1"
    assert settings.table_endpoint == "http://127.0.0.1:10002/devstoreaccount1"
    assert settings.auth == SharedKey(EMULATOR_ACCOUNT, Secret(EMULATOR_KEY))


def test_endpoints_follow_the_account_or_the_option() -> None:
    assert settings_of({"accountName": "acc"}).blob_endpoint == "https://acc.blob.core.windows.net"
    china = settings_of({"endpoint": "https://acc.blob.core.chinacloudapi.cn/"})
    assert ("acc", "https://acc.blob.core.chinacloudapi.cn", "https://acc.table.core.chinacloudapi.cn") == (
        china.account,
        china.blob_endpoint,
        china.table_endpoint,
    )
    custom = settings_of({"endpoint": "https://storage.example.org", "accountName": "acc", "accountKey": KEY})
    assert custom.table_endpoint is None


def test_the_endpoint_of_a_url_is_used_and_an_option_overrides_it() -> None:
    parsed = ACCOUNT_OPTIONS.parse({})
    url = "https://acc.blob.core.usgovcloudapi.net"
    assert account_settings(parsed, "acc", {}, url_endpoint=url).blob_endpoint == url
    parsed = ACCOUNT_OPTIONS.parse({"endpoint": "https://private.example.org"})
    assert account_settings(parsed, "acc", {}, url_endpoint=url).blob_endpoint == "https://private.example.org"


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
def test_variables_are_used_when_no_option_is_given(env: Mapping[str, str], expected: object) -> None:
    settings = settings_of({}, env=env)
    assert ("acc", expected) == (settings.account, settings.auth)


def test_variables_are_ignored_when_a_credential_is_given() -> None:
    env = {"AZURE_STORAGE_CONNECTION_STRING": CONNECTION}
    assert settings_of({"accountName": "other", "sasToken": SAS}, env=env).auth == SasToken(Secret(SAS))
    assert settings_of({"accountName": "other", "auth": "default"}, env=env).auth == DefaultIdentity()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({}, "No storage account is named: give accountName"),
        ({"accountName": "acc", "auth": "accountKey"}, "accountKey is missing: auth=accountKey needs it"),
        ({"accountName": "acc", "auth": "sas"}, "sasToken is missing"),
        ({"auth": "connectionString"}, "connectionString is missing"),
        ({"accountName": "acc", "clientSecret": "s", "clientId": "c"}, "tenantId is missing"),
        ({"accountName": "acc", "clientSecret": "s", "tenantId": "t"}, "clientId is missing"),
        ({"accountName": "acc", "auth": "clientCertificate", "tenantId": "t", "clientId": "c"}, "certificatePath"),
        ({"accountName": "acc", "accountKey": KEY, "sasToken": SAS}, "accountKey and sasToken are given together"),
        ({"connectionString": CONNECTION, "accountName": "other"}, "accountName says other, connectionString says acc"),
        ({"accountName": "acc", "accountKey": "not base64!"}, "accountKey: the account key is not base64"),
        ({"accountName": "acc", "sasToken": "sv=1"}, "sasToken: .* no `sig`"),
        ({"connectionString": "AccountName"}, "part 1 of the connection string"),
        ({"connectionString": "AccountName=a;Nonsense=1"}, "key of part 2"),
        ({"connectionString": f"AccountKey={KEY}"}, "neither AccountName nor BlobEndpoint"),
        ({"accountName": "acc", "endpoint": "acc.blob.core.windows.net"}, "Option endpoint"),
        ({"accountName": "acc", "endpoint": f"https://acc.blob.core.windows.net?{SAS}"}, "as sasToken instead"),
        ({"endpoint": "http://127.0.0.1:10000/acc"}, "auth=default sends a token and needs an https endpoint"),
        ({"accountName": "acc", "proxy.use": "true", "proxy.port": "80"}, "proxy.hostname is missing"),
        ({"accountName": "acc", "authProxy.hostname": "h"}, "authProxy.hostname has no effect"),
        ({"accountName": "acc", "auth": "key"}, "auth: the value 'key'"),
    ],
)
def test_contradictions_and_missing_parts_name_the_option(options: Mapping[str, str], message: str) -> None:
    with pytest.raises(ConfigurationError, match=message):
        settings_of(options)


def test_the_account_of_the_url_must_agree() -> None:
    with pytest.raises(ConfigurationError, match="accountName says acc, the URL of path says other"):
        settings_of({"accountName": "acc"}, url_account="other")


def test_proxies_limits_and_retries_are_read() -> None:
    settings = settings_of(
        {
            "accountName": "acc",
            "proxy.use": "true",
            "proxy.hostname": "squid",
            "proxy.port": "3128",
            "authProxy.use": "false",
            "maxAttempts": "3",
            "requestTimeoutMs": "5s",
            "retryDeadlineMs": "20000",
        }
    )
    assert (Proxy("squid", 3128), None) == (settings.proxy, settings.auth_proxy)
    assert settings.proxy is not None
    assert settings.proxy.url == "http://squid:3128"
    assert (3, 20.0, 5.0) == (settings.retry.max_attempts, settings.retry.deadline, settings.timeouts.request)


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
def test_settings_survive_pickling_and_show_no_secret(auth: str) -> None:
    options = ACCOUNT_OPTIONS.parse({"accountName": "acc", "auth": auth, **SECRETS.get(auth, {})})
    settings = account_settings(options, None, {})
    copy = pickle.loads(pickle.dumps(settings))  # noqa: S301 - our own bytes
    assert (settings, hash(settings)) == (copy, hash(copy))
    for shown in (repr(settings), str(settings), f"{settings}", repr(options), repr(settings.auth)):
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


def test_a_secret_hides_itself() -> None:
    secret = Secret("U0VDUkVU")
    assert (["***"], "***", "***", "***") == ([str(secret)], repr(secret), f"{secret}", f"{secret!s:}")
    assert secret.reveal() == "U0VDUkVU"
    assert secret == pickle.loads(pickle.dumps(secret))  # noqa: S301 - our own bytes


def test_a_key_under_its_masked_name_is_the_same_key() -> None:
    plain = ACCOUNT_OPTIONS.parse({"accountName": "a", "accountKey": "a2V5"})
    masked = ACCOUNT_OPTIONS.parse({"accountname": "a", "accountaccesskey": "a2V5"})
    assert account_settings(plain, None, {}) == account_settings(masked, None, {})
    both = ACCOUNT_OPTIONS.parse({"accountName": "a", "accountKey": "a2V5", "accountAccessKey": "a2V5"})
    with pytest.raises(ConfigurationError, match="accountKey and accountAccessKey are the same thing"):
        account_settings(both, None, {})
