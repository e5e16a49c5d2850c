"""The address of a place in a storage account: container and path, parsed from `container/path` or a URL. Pure."""

from __future__ import annotations

import re
from dataclasses import dataclass
from urllib.parse import SplitResult, unquote, urlsplit

from azure_account.names import MAX_NAME
from foundation.errors import ConfigurationError

_HADOOP_SCHEMES = ("abfs", "abfss", "wasb", "wasbs")
_ADDRESS = re.compile(r"[0-9.]+|[0-9a-f]*:[0-9a-f:.]*")
_SIGNATURE = re.compile(r"[?&]sig=")


@dataclass(frozen=True)
class Address:
    """A container and, if one is named, a path in it. endpoint: the blob endpoint of a URL."""

    container: str
    path: str | None = None
    endpoint: str | None = None

    @property
    def account(self) -> str | None:
        """The account of the endpoint: `name` of `https://name.blob.core…` or of an emulator's `http://host/name`."""
        url = urlsplit(self.endpoint or "")
        host = url.hostname or ""
        named = url.path.strip("/") or (host.partition(".")[0] if ".blob." in host else "")
        return named.removesuffix("-secondary") or None

    def __str__(self) -> str:
        """`container/path`."""
        return f"{self.container}/{self.path}" if self.path else self.container


def parse_address(path: str) -> Address:
    """The address that a path names. The names in it are not checked.

    path: `container/path`, or an https, abfss or wasbs URL. `ConfigurationError` for another URL, or one with a query
    or credentials.
    """
    url = _split_url(path)
    credentials = url.password or (url.username and url.scheme not in _HADOOP_SCHEMES)
    if url.query or url.fragment or credentials or _SIGNATURE.search(path):
        message = (
            "The path contains a query or credentials, and paths are shown in plans. Set a SAS as option `sasToken`."
        )
        raise ConfigurationError(message)
    if not url.scheme:
        return _split(path.strip("/"), None)
    names = unquote(url.path).strip("/")
    host = url.netloc.rpartition("@")[2].replace(".dfs.", ".blob.", 1)
    if url.scheme in _HADOOP_SCHEMES:
        if not url.username or not url.hostname:
            message = f"Path {path!r} is incomplete: it must be {url.scheme}://<container>@<account host>/<path>."
            raise ConfigurationError(message)
        scheme = "http" if url.scheme == "wasb" else "https"  # Hadoop uses https for abfs too
        return Address(url.username, names or None, f"{scheme}://{host}")
    if url.scheme in ("http", "https") and url.hostname:
        endpoint = f"{url.scheme}://{host}"
        if _path_style(url.hostname):
            account, _, names = names.partition("/")
            endpoint = f"{endpoint}/{account}"
        return _split(names, endpoint)
    message = f"Path {path[:MAX_NAME]!r} is not supported. Use `container/path` or an https, abfss or wasbs URL."
    raise ConfigurationError(message)


def _split_url(path: str) -> SplitResult:
    """The parts of a URL; a string without `://` is all path."""
    if "://" not in path:
        return SplitResult("", "", path, "", "")
    try:
        return urlsplit(path)
    except ValueError:
        message = "The path has `://`, but is no valid URL. Use `container/path` or an https, abfss or wasbs URL."
        raise ConfigurationError(message) from None


def _path_style(host: str) -> bool:
    """Whether the account is the first part of the path: emulators have an address or a host name without a dot."""
    return "." not in host or _ADDRESS.fullmatch(host) is not None


def _split(names: str, endpoint: str | None) -> Address:
    container, _, path = names.partition("/")
    return Address(container, path.strip("/") or None, endpoint)
