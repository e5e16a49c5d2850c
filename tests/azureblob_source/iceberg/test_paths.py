from __future__ import annotations

import pytest

from azureblob_source.iceberg.paths import root

AZURE = "https://acme.blob.core.windows.net/data"


@pytest.mark.parametrize(
    ("url", "scheme", "expected"),
    [
        (AZURE, "abfss", "abfss://data@acme.dfs.core.windows.net/"),
        (AZURE, "wasbs", "wasbs://data@acme.blob.core.windows.net/"),
        ("https://acme.blob.core.usgovcloudapi.net/data", "abfs", "abfs://data@acme.dfs.core.usgovcloudapi.net/"),
        ("http://127.0.0.1:10000/acme/data", "abfs", "abfs://data@acme.dfs.core.windows.net/"),
        ("http://azurite:10000/acme/data", "wasb", "wasb://data@acme.blob.core.windows.net/"),
        ("https://blobs.acme.org/data", "abfss", "abfss://data@blobs.acme.org/"),
    ],
)
def test_blobs_have_a_path_with_the_host_of_the_scheme(url: str, scheme: str, expected: str) -> None:
    assert expected == root(url, scheme)
