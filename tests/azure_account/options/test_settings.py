from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from azure_account.options.authentication import SasToken, SharedKey
from azure_account.options.connection_string import EMULATOR_ACCOUNT, EMULATOR_KEY
from azure_account.options.secret import Secret
from azure_account.options.settings import Proxy
from foundation.errors import ConfigurationError
from tests.azure_account.settings_of import CONNECTION, KEY, SAS, settings_of

if TYPE_CHECKING:
    from collections.abc import Mapping

PROXY = {"proxy.use": "true", "proxy.hostname": "squid", "proxy.port": "3128"}


def test_a_connection_string_has_account_endpoints_and_key() -> None:
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
    assert "http://127.0.0.1:10000/devstoreaccount1" == settings.blob_endpoint
    assert "http://127.0.0.1:10002/devstoreaccount1" == settings.table_endpoint
    assert SharedKey(EMULATOR_ACCOUNT, Secret(EMULATOR_KEY)) == settings.auth


def test_endpoints_follow_the_account_or_the_option() -> None:
    assert "https://acc.blob.core.windows.net" == settings_of({"accountName": "acc"}).blob_endpoint
    china = settings_of({"endpoint": "https://acc.blob.core.chinacloudapi.cn/"})
    assert ("acc", "https://acc.blob.core.chinacloudapi.cn", "https://acc.table.core.chinacloudapi.cn") == (
        china.account,
        china.blob_endpoint,
        china.table_endpoint,
    )
    custom = settings_of({"endpoint": "https://storage.example.org", "accountName": "acc", "accountKey": KEY})
    assert custom.table_endpoint is None


def test_the_endpoint_of_a_url_is_used_and_an_option_overrides_it() -> None:
    url = "https://acc.blob.core.usgovcloudapi.net"
    assert url == settings_of({}, url_account="acc", url_endpoint=url).blob_endpoint
    private = {"endpoint": "https://private.example.org"}
    assert private["endpoint"] == settings_of(private, url_account="acc", url_endpoint=url).blob_endpoint


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({}, "No storage account is named: give accountName"),
        ({"accountName": "acc", "auth": "accountKey"}, "Option `accountKey` is missing: auth=accountKey needs it"),
        ({"accountName": "acc", "auth": "sas"}, "`sasToken` is missing"),
        ({"auth": "connectionString"}, "`connectionString` is missing"),
        ({"accountName": "acc", "clientSecret": "s", "clientId": "c"}, "`tenantId` is missing"),
        ({"accountName": "acc", "clientSecret": "s", "tenantId": "t"}, "`clientId` is missing"),
        ({"accountName": "acc", "auth": "clientCertificate", "tenantId": "t", "clientId": "c"}, "certificatePath"),
        (
            {"accountName": "acc", "accountKey": KEY, "sasToken": SAS},
            "Options `accountKey` and `sasToken` are given together",
        ),
        (
            {"connectionString": CONNECTION, "accountName": "other"},
            r"accounts: other \(accountName\), acc \(connectionString\)",
        ),
        ({"accountName": "acc", "accountKey": "not base64!"}, "`accountKey`: the account key is not base64"),
        ({"accountName": "acc", "sasToken": "sv=1"}, "`sasToken`: .* no `sig`"),
        ({"connectionString": "AccountName"}, "part 1 of the connection string"),
        ({"connectionString": "AccountName=a;Nonsense=1"}, "key of part 2"),
        ({"connectionString": f"AccountKey={KEY}"}, "neither AccountName nor BlobEndpoint"),
        ({"accountName": "acc", "endpoint": "acc.blob.core.windows.net"}, "Option `endpoint`"),
        ({"accountName": "acc", "endpoint": f"https://acc.blob.core.windows.net?{SAS}"}, "as sasToken instead"),
        ({"endpoint": "http://127.0.0.1:10000/acc"}, "auth=default sends a token and needs an https endpoint"),
        ({"accountName": "acc", "proxy.use": "true", "proxy.port": "80"}, "`proxy.hostname` is missing"),
        ({"accountName": "acc", "authProxy.hostname": "h"}, "`authProxy.hostname` has no effect"),
        ({"accountName": "acc", "auth": "key"}, "`auth`: the value 'key'"),
        ({"accountName": "acc", **PROXY, "proxy.password": "p"}, "`proxy.username` is missing: proxy.password needs"),
        ({"accountName": "acc", **PROXY, "proxy.hostname": "u:p@squid"}, "`proxy.hostname` must be a host alone"),
        ({"accountName": "acc", **PROXY, "proxy.hostname": "http://squid"}, "without http://"),
        ({"accountName": "acc", "tableEndpoint": "http://h/acc"}, "needs an https endpoint, not http://h/acc"),
    ],
)
def test_the_error_for_a_contradiction_or_a_missing_value_names_the_option(
    options: Mapping[str, str], message: str
) -> None:
    with pytest.raises(ConfigurationError, match=message):
        settings_of(options)


def test_the_password_of_a_proxy_is_in_no_text_but_the_url_of_the_proxy() -> None:
    settings = settings_of({"accountName": "acc", **PROXY, "proxy.username": "some one", "proxy.password": "p:@s/w%"})
    assert settings.proxy is not None
    assert "http://some%20one:p%3A%40s%2Fw%25@squid:3128" == settings.proxy.url
    assert "p:@s/w%" not in repr(settings)


def test_the_account_of_the_url_must_agree() -> None:
    with pytest.raises(ConfigurationError, match=r"acc \(accountName\), other \(the URL of path\)"):
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
    assert "http://squid:3128" == settings.proxy.url
    assert (3, 20.0, 5.0) == (settings.retry.max_attempts, settings.retry.deadline, settings.timeouts.request)
