"""The location of a stream: container and stream, parsed from a path or URL. Pure."""

from __future__ import annotations

import re
from dataclasses import dataclass
from urllib.parse import SplitResult, unquote, urlsplit

from azure_account.errors import ConfigurationError
from azure_account.names import MAX_NAME, check_container
from azureblob_source.log.naming import check_stream

_HADOOP_SCHEMES = ("abfs", "abfss", "wasb", "wasbs")
_ADDRESS = re.compile(r"[0-9.]+|[0-9a-f]*:[0-9a-f:.]*")
_SIGNATURE = re.compile(r"[?&]sig=")


@dataclass(frozen=True)
class Location:
    """A container and, if the path names one, a stream in it. `endpoint` is the blob endpoint of a URL."""

    container: str
    stream: str | None = None
    endpoint: str | None = None

    @property
    def account(self) -> str | None:
        """The account of the endpoint: `name` of `https://name.blob.core…` or of an emulator's `http://host/name`."""
        url = urlsplit(self.endpoint or "")
        host = url.hostname or ""
        named = url.path.strip("/") or (host.partition(".")[0] if ".blob." in host else "")
        return named.removesuffix("-secondary") or None

    def __str__(self) -> str:
        """`container/stream`."""
        return f"{self.container}/{self.stream}" if self.stream else self.container


def parse_location(path: str | None, container: str | None, stream: str | None) -> Location:
    """The location named by `path`, or by the options `container` and `stream`, or by both if they agree."""
    named = _from_path(path) if path else Location("")
    merged = Location(
        container=_agree("container", named.container or None, container) or "",
        stream=_agree("stream", named.stream, stream.strip("/") if stream else None),
        endpoint=named.endpoint,
    )
    if not merged.container:
        message = (
            "no container is named. Set the path to `container/stream`, or the option `container`. There are no "
            "catalog tables: use `save` and `load` in place of `saveAsTable`, `writeTo` and `CREATE TABLE`."
        )
        raise ConfigurationError(message)
    try:
        check_container(merged.container)
    except ConfigurationError as error:
        raise ConfigurationError(f"{error} Change the path or the option `container`.") from None
    if merged.stream is not None:
        check_stream(merged.stream, option="path` or `stream")
    return merged


def _agree(option: str, from_path: str | None, from_option: str | None) -> str | None:
    if from_path and from_option and from_path != from_option:
        message = f"the path names {option} {from_path!r}, but option `{option}` is {from_option!r}. Leave one out."
        raise ConfigurationError(message)
    return from_path or from_option


def _from_path(path: str) -> Location:
    url = _split_url(path)
    credentials = url.password or (url.username and url.scheme not in _HADOOP_SCHEMES)
    if url.query or url.fragment or credentials or _SIGNATURE.search(path):
        message = (
            "the path contains a query or credentials, and paths are shown in plans. Set a SAS as option `sasToken`."
        )
        raise ConfigurationError(message)
    if not url.scheme:
        return _split(path.strip("/"), None)
    names = unquote(url.path).strip("/")
    host = url.netloc.rpartition("@")[2].replace(".dfs.", ".blob.", 1)
    if url.scheme in _HADOOP_SCHEMES:
        if not url.username or not url.hostname:
            message = f"path {path!r} is incomplete: it must be {url.scheme}://<container>@<account host>/<stream>."
            raise ConfigurationError(message)
        scheme = "http" if url.scheme == "wasb" else "https"  # Hadoop uses https for abfs too
        return Location(url.username, names or None, f"{scheme}://{host}")
    if url.scheme in ("http", "https") and url.hostname:
        endpoint = f"{url.scheme}://{host}"
        if _path_style(url.hostname):
            account, _, names = names.partition("/")
            endpoint = f"{endpoint}/{account}"
        return _split(names, endpoint)
    message = f"path {path[:MAX_NAME]!r} is not supported. Use `container/stream` or an https, abfss or wasbs URL."
    raise ConfigurationError(message)


def _split_url(path: str) -> SplitResult:
    """The parts of a URL; a string without `://` is all path."""
    if "://" not in path:
        return SplitResult("", "", path, "", "")
    try:
        return urlsplit(path)
    except ValueError:
        message = "the path has `://`, but is no valid URL. Use `container/stream` or an https, abfss or wasbs URL."
        raise ConfigurationError(message) from None


def _path_style(host: str) -> bool:
    """Whether the account is the first part of the path: emulators have an address or a host name without a dot."""
    return "." not in host or _ADDRESS.fullmatch(host) is not None


def _split(names: str, endpoint: str | None) -> Location:
    container, _, stream = names.partition("/")
    return Location(container, stream.strip("/") or None, endpoint)
