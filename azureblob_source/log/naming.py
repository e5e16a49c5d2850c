"""Names of blobs and block ids: format and check. Pure.

    <stream>[/<partition>]/yyyy/MM/dd/HH/mm-ss[-xxxxxxxx].avro[.gz]     data
    <stream>/_log/<20-digit version>.json                               commit log
    <stream>/_log/_first.json                                           its retention boundary
    <stream>/_log/_checkpoint.json                                      where its newest checkpoint is: a hint
    <stream>/_iceberg/metadata/snap-<20-digit version>.avro             checkpoints of the log
    <stream>/_iceberg/metadata/m-<20-digit version>-<digest>.avro       their manifests
    <stream>/_iceberg/metadata/v<number>.metadata.json                  Iceberg tables that they make up
    <stream>/_iceberg/metadata/version-hint.text                        number of the newest one: a hint
    <stream>/_schemas/<fingerprint>.avsc                                writer schemas
    <stream>/_replaced/<20-digit version>/<rest of a data name>         data that an entry has removed, and keeps
    _batches/<transaction id>/_log/<20-digit version>.json              batch log: batch entries

Every name that is not data has a level that begins with `_`, which Spark, Hive, Trino and Synapse skip.
"""

from __future__ import annotations

import re
import unicodedata
from typing import TYPE_CHECKING
from urllib.parse import unquote

from azure_account.names import MAX_NAME
from foundation.errors import ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Iterable
    from datetime import datetime

BATCHES = "_batches"
"""Level above the batch logs."""

_VERSION_DIGITS = 20
LAST_VERSION = 10**_VERSION_DIGITS - 1
_CHECKPOINT_NAME = re.compile(r".*/_iceberg/metadata/snap-(\d{20})\.avro")
_TABLE_NAME = re.compile(r".*/_iceberg/metadata/v(\d+)\.metadata\.json", re.ASCII)
_MANIFEST_NAME = re.compile(r".*/_iceberg/metadata/m-(\d{20})-[0-9a-f]+\.avro")
_LOG_NAME = re.compile(r"(.*)/_log/(\d{20})\.json")
_DATA_NAME = re.compile(r".+/\d{4}/\d\d/\d\d/\d\d/\d\d-\d\d(?:-([^/]+))?\.avro(?:\.gz)?")
# What a path, a URL, Hive-style partition discovery or Azure would read as something other than plain text.
_ESCAPED = frozenset('/\\%?#*:"<>|=`{}[]^')
_UNPRINTABLE = frozenset(("Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"))
_LEVELS = {"": "%00", "\0": "%C0%80"}
"""Of values that would have no level, or that of another one."""
_VALUES = {level: value for value, level in _LEVELS.items()}
NOT_DATA = re.compile(r"/(?:[_./]|$)|\\")
"""What no name of data has: a level that readers of data skip, an empty level, a backslash, which Azure reads as /."""


def blob_name(stream: str, partition: str | None, started: datetime, suffix: str | None, extension: str) -> str:
    """Name of a data blob. `started` is the UTC time of its first row; `partition` is an already encoded level."""
    levels = [stream] if partition is None else [stream, partition]
    time = started.strftime("%Y/%m/%d/%H/%M-%S")
    name = "/".join([*levels, time]) + (f"-{suffix}" if suffix else "") + extension
    if len(name) > MAX_NAME:
        raise ConfigurationError(
            f"The blob name would have {len(name)} characters, Azure allows {MAX_NAME}: stream {stream[:80]!r}, "
            f"partition {(partition or '')[:80]!r}…. Shorten the partition value, for instance by hashing the column."
        )
    return name


def is_data(name: str) -> bool:
    """Whether `name` is of the form that `blob_name` gives."""
    return _DATA_NAME.fullmatch(name) is not None


def has_suffix(name: str) -> bool:
    """Whether a data blob's name has a random suffix, so that no other writer makes a blob of that name by chance."""
    found = _DATA_NAME.fullmatch(name)
    return found is not None and found[1] is not None


def may_be_data(name: str, stream: str | None = None) -> bool:
    """Whether `name` can be a data blob below `stream`, by default below any: no log, schema or other hidden blob."""
    if stream is None:
        return NOT_DATA.search(f"/{name}") is None
    return name.startswith(f"{stream}/") and NOT_DATA.search(name, len(stream)) is None


def partition_level(value: str) -> str:
    r"""A partition value as one level of a blob name.

    Percent-encoded: what would split or hide the level (`/`, `\`, a leading `_` or `.`), what Azure strips (trailing
    dots and spaces), what partition discovery reads (`=`), control and unassigned characters, and `%` itself. The
    empty string becomes `%00`, and so that no two values have one level, a null character alone `%C0%80`.
    """
    if value in _LEVELS:
        return _LEVELS[value]
    last = len(value.rstrip(". ")) - 1
    return "".join(
        _percent(character) if _must_escape(character, place, last) else character
        for place, character in enumerate(value)
    )


def partition_value(level: str) -> str:
    """The inverse of `partition_level`; of levels that other programs have named, without percent-encoding if any."""
    try:
        return _VALUES[level] if level in _VALUES else unquote(level, errors="surrogatepass")
    except UnicodeDecodeError:
        return level


def _must_escape(character: str, place: int, last: int) -> bool:
    return (
        character in _ESCAPED
        or unicodedata.category(character) in _UNPRINTABLE
        or (place == 0 and character in "_. ")
        or place > last
    )


def _percent(character: str) -> str:
    return "".join(f"%{byte:02X}" for byte in character.encode("utf-8", "surrogatepass"))


def check_stream(stream: str, *, option: str) -> str:
    """`stream` if it can be a blob-name prefix; else a `ConfigurationError` that names `option`."""
    problem = _stream_problem(stream)
    if problem is not None:
        shown = stream if len(stream) <= 80 else stream[:80] + "…"  # noqa: PLR2004 - a readable line
        raise ConfigurationError(f"stream name {shown!r} is invalid: {problem}. Change the option `{option}`.")
    return stream


def _stream_problem(stream: str) -> str | None:
    if any(unicodedata.category(character) in _UNPRINTABLE for character in stream):
        return "it contains a control or unassigned character"
    if "\\" in stream:
        return "it contains a backslash, which Azure reads as /"
    if len(stream) > MAX_NAME - 64:
        return f"it leaves no room for the time below it within Azure's {MAX_NAME} characters"
    for level in stream.split("/"):
        if level in ("", ".", ".."):
            return "it has an empty, `.` or `..` level"
        if level.startswith(("_", ".")):
            return f"level {level!r} begins with `{level[0]}`, which readers of data skip"
        if level.endswith((".", " ")):
            return f"level {level!r} ends with a dot or space, which Azure strips"
    return None


def block_id(attempt: str, ordinal: int) -> str:
    """Id of a blob's block `ordinal`: of one length, in order, and never the same for two attempts."""
    return f"{attempt}-{ordinal:05d}"


def attempt_of_blocks(block_ids: Iterable[str]) -> str | None:
    """The attempt whose blocks `0 … n-1` these are, None if they are not of one attempt."""
    attempts = {_attempt_of_block(place, each) for place, each in enumerate(block_ids)}
    return attempts.pop() if len(attempts) == 1 else None


def _attempt_of_block(ordinal: int, of: str) -> str | None:
    attempt = of.rpartition("-")[0]
    return attempt if attempt and of == block_id(attempt, ordinal) else None


def log_prefix(stream: str) -> str:
    """Prefix of a stream's commit log."""
    return f"{stream}/_log/"


def hundred_prefix(stream: str, version: int) -> str:
    """Prefix of the hundred log entries to which a version belongs."""
    return f"{log_prefix(stream)}{version:0{_VERSION_DIGITS}d}"[:-2]


def log_name(stream: str, version: int) -> str:
    """Name of one entry of a stream's commit log."""
    return f"{log_prefix(stream)}{version:0{_VERSION_DIGITS}d}.json"


def log_version(name: str) -> int | None:
    """The version that a log entry's name carries, or None for any other name."""
    match = _LOG_NAME.fullmatch(name)
    return int(match[2]) if match else None


def log_stream(name: str) -> str | None:
    """The stream whose log a log entry's name belongs to, or None for any other name."""
    match = _LOG_NAME.fullmatch(name)
    return match[1] if match else None


def boundary_name(stream: str) -> str:
    """Name of the blob that holds the retention boundary of a stream's log."""
    return f"{log_prefix(stream)}_first.json"


def metadata_prefix(stream: str) -> str:
    """Prefix of the checkpoints of a stream's log."""
    return f"{table_location(stream)}/metadata/"


def checkpoint_name(stream: str, version: int) -> str:
    """Name of the checkpoint at a version."""
    return f"{checkpoint_prefix(stream)}{version:0{_VERSION_DIGITS}d}.avro"


def checkpoint_prefix(stream: str, version: int | None = None, span: int = 0) -> str:
    """Prefix of checkpoints, by default of all; else of those whose versions differ in the last `span` digits."""
    digits = "" if version is None else f"{version:0{_VERSION_DIGITS}d}"[: _VERSION_DIGITS - span]
    return f"{metadata_prefix(stream)}snap-{digits}"


def checkpoint_version(name: str) -> int | None:
    """The version that a checkpoint's name carries, or None for any other name."""
    match = _CHECKPOINT_NAME.fullmatch(name)
    return int(match[1]) if match else None


def manifest_name(stream: str, version: int, digest: str) -> str:
    """Name of a manifest that the checkpoint at a version writes."""
    return f"{metadata_prefix(stream)}m-{version:0{_VERSION_DIGITS}d}-{digest}.avro"


def table_location(stream: str) -> str:
    """Where the Iceberg table of a stream is: its readers are told this path."""
    return f"{stream}/_iceberg"


def table_name(stream: str, number: int) -> str:
    """Name of one state of the Iceberg table of a stream; numbers are consecutive."""
    return f"{metadata_prefix(stream)}v{number}.metadata.json"


def table_number(name: str) -> int | None:
    """The number in the name of a state of a table, or None for any other name."""
    match = _TABLE_NAME.fullmatch(name)
    return int(match[1]) if match else None


def table_hint_name(stream: str) -> str:
    """Name of the blob that has the number of the newest state."""
    return f"{metadata_prefix(stream)}version-hint.text"


def manifest_version(name: str) -> int | None:
    """The version of the checkpoint that has written a manifest, or None for any other name."""
    match = _MANIFEST_NAME.fullmatch(name)
    return int(match[1]) if match else None


def hint_name(stream: str) -> str:
    """Name of the blob that says where the newest checkpoint is."""
    return f"{log_prefix(stream)}_checkpoint.json"


def probe_name(stream: str, digest: str) -> str:
    """Name of a trial blob, which is written and deleted to find out what the service permits."""
    return f"{log_prefix(stream)}_probe-{digest}"


def replaced_prefix(stream: str) -> str:
    """Prefix of the blobs that entries have removed, and keep."""
    return f"{stream}/_replaced/"


def replaced_name(stream: str, version: int, name: str) -> str:
    """Where the entry of a version keeps a data blob of the stream that it removes."""
    return f"{replaced_prefix(stream)}{version:0{_VERSION_DIGITS}d}/{name[len(stream) + 1 :]}"


def of_replaced(stream: str, name: str) -> tuple[int, str] | None:
    """The inverse of `replaced_name`: version and name. None for any other name."""
    prefix = replaced_prefix(stream)
    version, _, rest = name[len(prefix) :].partition("/") if name.startswith(prefix) else ("", "", "")
    is_version = len(version) == _VERSION_DIGITS and version.isascii() and version.isdigit()
    return (int(version), f"{stream}/{rest}") if is_version and rest else None


def schema_name(stream: str, fingerprint: str) -> str:
    """Name of a writer schema of a stream."""
    return f"{stream}/_schemas/{fingerprint}.avsc"


def batches_stream(transaction_id: str) -> str:
    """The pseudo-stream whose log is the batch log of one transaction id."""
    return f"{BATCHES}/{partition_level(transaction_id)}"


def is_batch_log(stream: str) -> bool:
    """Whether it is not a stream, but the log of batches whose rows go to several streams."""
    return stream.startswith(f"{BATCHES}/")
