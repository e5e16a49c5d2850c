"""Paths of a container's blobs as engines of Iceberg name them: absolute, with a scheme of Hadoop's. Pure."""

from __future__ import annotations

from urllib.parse import urlsplit

ABFSS = "abfss"
"""The scheme that engines and catalogs take everywhere."""
_SUFFIX = "core.windows.net"


def root(container_url: str, scheme: str = ABFSS) -> str:
    """What stands before the name of a blob: `abfss://<container>@<account>.dfs.core.windows.net/`.

    An emulator, whose URL has the account in its path, gets the host that its account would have in Azure.
    """
    url = urlsplit(container_url)
    account, _, container = url.path.strip("/").rpartition("/")
    host = f"{account}.blob.{_SUFFIX}" if account else url.netloc
    if scheme.startswith("abfs"):
        host = host.replace(".blob.", ".dfs.", 1)
    return f"{scheme}://{container}@{host}/"
