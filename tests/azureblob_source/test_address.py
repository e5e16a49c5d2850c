from __future__ import annotations

import pytest

from azure_account.address import Address
from azureblob_source.address import stream_address
from foundation.errors import ConfigurationError

BLOB = "https://acme.blob.core.windows.net"


@pytest.mark.parametrize(
    ("path", "address"),
    [
        ("data", Address("data")),
        ("data/", Address("data")),
        ("/data/flights/", Address("data", "flights")),
        ("data/flights/2013", Address("data", "flights/2013")),
        ("$root/flights", Address("$root", "flights")),
        (f"{BLOB}/data", Address("data", None, BLOB)),
        (f"{BLOB}/data/flights/2013/", Address("data", "flights/2013", BLOB)),
        (f"{BLOB}/data/S%C3%A3o%20Paulo", Address("data", "São Paulo", BLOB)),
        ("https://acme.dfs.core.windows.net/data/flights", Address("data", "flights", BLOB)),
        (
            "https://acme.blob.core.chinacloudapi.cn/data",
            Address("data", None, "https://acme.blob.core.chinacloudapi.cn"),
        ),
        ("https://blobs.example.com/data/flights", Address("data", "flights", "https://blobs.example.com")),
        ("abfss://data@acme.dfs.core.windows.net/flights", Address("data", "flights", BLOB)),
        ("abfs://data@acme.dfs.core.windows.net/", Address("data", None, BLOB)),
        ("wasbs://data@acme.blob.core.windows.net/a/b", Address("data", "a/b", BLOB)),
        ("wasb://data@acme.blob.core.windows.net", Address("data", None, BLOB.replace("https", "http"))),
        (
            "http://127.0.0.1:10000/devstoreaccount1/data/flights",
            Address("data", "flights", "http://127.0.0.1:10000/devstoreaccount1"),
        ),
        (
            "http://localhost:10000/devstoreaccount1/data",
            Address("data", None, "http://localhost:10000/devstoreaccount1"),
        ),
        ("http://azurite:10000/dev/data/flights", Address("data", "flights", "http://azurite:10000/dev")),
        ("http://[::1]:10000/dev/data/flights", Address("data", "flights", "http://[::1]:10000/dev")),
        ("wasb://data@acme.example.com:10000/flights", Address("data", "flights", "http://acme.example.com:10000")),
    ],
)
def test_a_path_names_container_stream_and_endpoint(path: str, address: Address) -> None:
    assert address == stream_address(path, None, None)


@pytest.mark.parametrize(
    ("path", "container", "stream"),
    [
        (None, "data", "flights"),
        ("data", None, "flights"),
        ("data/flights", "data", None),
        ("data/flights", "data", "flights"),
        ("data/flights", None, "/flights/"),
    ],
)
def test_options_and_path_may_both_name_an_address_if_they_agree(
    path: str | None, container: str | None, stream: str | None
) -> None:
    assert Address("data", "flights") == stream_address(path, container, stream)


@pytest.mark.parametrize(
    ("path", "container", "stream", "message"),
    [
        ("data/flights", "other", None, "path names container 'data', but option `container` is 'other'"),
        ("data/flights", None, "planes", "path names stream 'flights', but option `stream` is 'planes'"),
        (None, None, "flights", "No container is named"),
        ("/", None, None, "No container is named"),
        (
            "Data/flights",
            None,
            None,
            "Container name 'Data' is not valid.*3 to 63 lower-case.*Change the path or the option `container`",
        ),
        ("ab", None, None, "Container name 'ab' is not valid"),
        ("a--b", None, None, "Container name 'a--b' is not valid"),
        ("-ab", None, None, "Container name '-ab' is not valid"),
        ("x" * 64, None, None, "is not valid"),
        ("data/_log", None, None, "begins with `_`.*Change the option `path` or `stream`"),
        ("data", None, "a/../b", "`..` level"),
        (f"{BLOB}/data/a/%2E%2E/b", None, None, "`..` level"),
        ("abfss://acme.dfs.core.windows.net/data", None, None, "abfss://<container>@<account host>/<path>"),
        ("s3://data/flights", None, None, "is not supported"),
        ("https:///data", None, None, "is not supported"),
        ("https://[half/data", None, None, "is no valid URL"),
    ],
)
def test_an_invalid_address_is_refused_with_the_next_step(
    path: str | None, container: str | None, stream: str | None, message: str
) -> None:
    with pytest.raises(ConfigurationError, match=message):
        stream_address(path, container, stream)


@pytest.mark.parametrize(
    "path",
    [
        f"{BLOB}/data/flights?sv=2024-11-04&sig=topsecret",
        f"{BLOB}/data/flights#topsecret",
        "data/flights?sv=2024-11-04&sig=topsecret",
        "https://user:topsecret@acme.blob.core.windows.net/data",
        "https://topsecret@acme.blob.core.windows.net/data",
        "wasbs://data:topsecret@acme.blob.core.windows.net/flights",
        "abfss://data@acme.dfs.core.windows.net/flights?sig=topsecret",
        "https://[half/data?sig=topsecret",
    ],
)
def test_a_credential_in_the_path_is_refused_and_not_repeated(path: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        stream_address(path, None, None)
    assert "topsecret" not in str(caught.value)
    assert caught.value.__cause__ is None


@pytest.mark.parametrize(
    ("endpoint", "account"),
    [
        (BLOB, "acme"),
        ("https://acme-secondary.blob.core.windows.net", "acme"),
        ("https://acme.z1.blob.storage.azure.net", "acme"),
        ("http://127.0.0.1:10000/devstoreaccount1", "devstoreaccount1"),
        ("https://blobs.example.com", None),
        (None, None),
    ],
)
def test_the_account_is_taken_from_an_endpoint_that_names_it(endpoint: str | None, account: str | None) -> None:
    assert account == Address("data", None, endpoint).account


def test_an_address_is_shown_as_container_and_stream() -> None:
    assert "data/flights" == str(Address("data", "flights", BLOB))
    assert "data" == str(Address("data"))
