"""The address of a stream: container and stream, from a path or URL and from options. Pure."""

from __future__ import annotations

from azure_account.address import Address, parse_address
from azure_account.names import check_container
from azureblob_source.log.naming import check_stream
from azureblob_source.spark_options import NO_TABLE
from foundation.errors import ConfigurationError


def stream_address(path: str | None, container: str | None, stream: str | None) -> Address:
    """The address named by `path`, or by the options `container` and `stream`, or by both if they agree."""
    named = parse_address(path) if path else Address("")
    merged = Address(
        container=_agree("container", named.container or None, container) or "",
        path=_agree("stream", named.path, stream.strip("/") if stream else None),
        endpoint=named.endpoint,
    )
    if not merged.container:
        message = "No container is named. Set the path to `container/stream`, or the option `container`."
        raise ConfigurationError(f"{message} {NO_TABLE}")
    try:
        check_container(merged.container)
    except ConfigurationError as error:
        raise ConfigurationError(f"{error} Change the path or the option `container`.") from None
    if merged.path is not None:
        check_stream(merged.path, option="path` or `stream")
    return merged


def _agree(option: str, from_path: str | None, from_option: str | None) -> str | None:
    if from_path and from_option and from_path != from_option:
        message = f"The path names {option} {from_path!r}, but option `{option}` is {from_option!r}. Leave one out."
        raise ConfigurationError(message)
    return from_path or from_option
