"""The address of a stream: container and stream, from a path or URL and from options. Pure."""

from __future__ import annotations

from azure_account.address import Address, parse_address
from azure_account.names import check_container
from azure_account.values import Relocation
from azureblob_source.log.naming import check_stream, log_prefix, table_location
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


def stream_of(path: str, where: object) -> str:
    """The stream at the path of a location. `ConfigurationError` if it names none, or the name is not possible."""
    if not path:
        raise ConfigurationError(f"{where} names no stream. Give `container/stream`.")
    return check_stream(path, option="where")


def log_place(path: str | None, stream: Address) -> tuple[Relocation, ...]:
    """Where the log of a stream is, with its schemas and checkpoints, by option `logPath`; none: in the stream."""
    if path is None:
        return ()
    where = parse_address(path)
    above, below = f"{stream.container}/{stream.path}/", f"{where.container}/{where.path}/"
    if not where.path or above.startswith(below) or below.startswith(above) or where.endpoint is not None:
        message = f"Option `logPath` ({path}) must be a folder of the account, `container/path`, outside {stream}."
        raise ConfigurationError(f"{message} Choose another one, such as `logs/{stream.path}`.")
    names = (log_prefix(""), "/_schemas/", f"{table_location('')}/")
    return tuple(Relocation(f"{stream.path}{each}", where.container, f"{where.path}{each}") for each in names)


def _agree(option: str, from_path: str | None, from_option: str | None) -> str | None:
    if from_path and from_option and from_path != from_option:
        message = f"The path names {option} {from_path!r}, but option `{option}` is {from_option!r}. Leave one out."
        raise ConfigurationError(message)
    return from_path or from_option
