"""What Azure accepts as a name, a key, a tag, metadata, a block and a lease. Checked before a request. Pure.

Sources: "Naming and Referencing Containers, Blobs, and Metadata", "Set Blob Tags" and "Understanding the Table service
data model" of the Azure Storage REST reference.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from azure_account.values import BLOCKS_OF_A_BLOB, BYTES_OF_A_BLOCK
from foundation.errors import ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from azure_account.values import BlobAttributes, Bytes, Entity

MAX_STAGED_BLOCKS = 100_000
MAX_PUT_BYTES = 5000 * 1024 * 1024
MAX_NAME = 1024
MAX_TAGS = 10
MAX_TAG_KEY = 128
MAX_TAG_VALUE = 256
MAX_KEY = 512
MAX_PROPERTY_NAME = 255
MAX_METADATA_BYTES = 8 * 1024
TIERS = ("Hot", "Cool", "Cold", "Archive")
LEASE_SECONDS = range(15, 61)
_SHOWN = 80  # characters of an invalid name in a message

_CONTAINER = re.compile(r"\$root|\$web|\$logs|(?=.{3,63}\Z)[a-z0-9]+(?:-[a-z0-9]+)*\Z")
_TABLE = re.compile(r"[A-Za-z][A-Za-z0-9]{2,62}\Z")
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\ud800-\udfff\ufffe\uffff]")
_KEY = re.compile(r"[/\\#?\x00-\x1f\x7f-\x9f\ud800-\udfff]")
_TAG = re.compile(r"[A-Za-z0-9 +\-./:=_]*\Z")
_METADATA_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\Z")
_METADATA_VALUE = re.compile(r"(?:[\x21-\x7e](?:[\x20-\x7e]*[\x21-\x7e])?)?\Z")
_BLOCK_ID = re.compile(r"[\x21-\x7e]{1,64}\Z")
_LEASE_ID = re.compile(r"[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}\Z")


def check_container(name: str) -> None:
    """`ConfigurationError` unless `name` is valid for a container."""
    if not _CONTAINER.match(name):
        raise _invalid(
            "Container name",
            name,
            "use 3 to 63 lower-case letters, digits and single hyphens, with a letter or digit at both ends.",
        )


def check_blob(name: str) -> None:
    """`ConfigurationError` unless `name` is valid for a blob and has no segment `.` or `..`.

    HTTP libraries remove such segments from URLs, so the request would go to another blob.
    """
    if not 1 <= len(name) <= MAX_NAME:
        raise _invalid("Blob name", name, f"it has {len(name)} characters, not 1 to {MAX_NAME}.")
    if _CONTROL.search(name):
        raise _invalid("Blob name", name, "remove the control characters.")
    if "." in name and any(segment in {".", ".."} for segment in name.split("/")):
        raise _invalid("Blob name", name, "`.` and `..` cannot be segments of the name.")


def check_block(block_id: str, data: Bytes) -> None:
    """`ConfigurationError` unless the id is 1 to 64 visible ASCII characters, and the data 1 byte to 4,000 MiB."""
    size = data.nbytes if isinstance(data, memoryview) else len(data)
    if not 0 < size <= BYTES_OF_A_BLOCK:
        raise ConfigurationError(f"Block {_cut(block_id)} has {size:,} bytes: a block has 1 byte to 4,000 MiB.")
    if not _BLOCK_ID.match(block_id):
        raise _invalid("Block id", block_id, "use 1 to 64 visible ASCII characters.")


def check_block_list(block_ids: Sequence[str]) -> None:
    """`ConfigurationError` if the list has more blocks than a blob can have."""
    if len(block_ids) > BLOCKS_OF_A_BLOB:
        raise ConfigurationError(
            f"A blob can have {BLOCKS_OF_A_BLOB:,} blocks, not {len(block_ids):,}: use larger blocks or smaller blobs."
        )


def check_lease(lease_id: str, seconds: int | None = None) -> None:
    """`ConfigurationError` unless the id is a UUID and the duration, if given, 15 to 60 seconds."""
    if not _LEASE_ID.match(lease_id):
        raise _invalid("Lease id", lease_id, "use a UUID.")
    if seconds is not None and seconds not in LEASE_SECONDS:
        raise ConfigurationError(f"A lease lasts 15 to 60 seconds, not {seconds}.")


def check_attributes(attributes: BlobAttributes) -> None:
    """`ConfigurationError` for metadata, tags or a tier that Azure would refuse."""
    if attributes.metadata:
        _check_metadata(attributes.metadata)
    if attributes.tags:
        check_tags(attributes.tags)
    if attributes.tier is not None and attributes.tier not in TIERS:
        raise ConfigurationError(f"Access tier {attributes.tier!r} is unknown: use one of {', '.join(TIERS)}.")


def check_tags(tags: Mapping[str, str]) -> None:
    """`ConfigurationError` for more than ten tags, or one that breaks the limits of length and characters."""
    if len(tags) > MAX_TAGS:
        raise ConfigurationError(f"A blob can have {MAX_TAGS} index tags, not {len(tags)}.")
    for key, value in tags.items():
        if not 1 <= len(key) <= MAX_TAG_KEY or len(value) > MAX_TAG_VALUE:
            raise _invalid("Index tag", key, "a key has 1 to 128 characters and a value up to 256.")
        if not _TAG.match(key) or not _TAG.match(value):
            raise ConfigurationError(
                f"Index tag {key!r} = {_cut(value)!r} is not valid: use letters, digits, space and + - . / : = _ only."
            )


def check_table(name: str) -> None:
    """`ConfigurationError` unless `name` is valid for a table."""
    if not _TABLE.match(name) or name.lower() == "tables":
        raise _invalid("Table name", name, "use 3 to 63 letters and digits, a letter first, and not `tables`.")


def is_key(text: str) -> bool:
    """Whether a table can have this key, as `check_keys` says."""
    return not _KEY.search(text) and len(text) <= MAX_KEY


def check_keys(*keys: str) -> None:
    r"""`ConfigurationError` for a key with `/ \ # ?` or control characters, or of over 512 characters."""
    for key in keys:
        if not is_key(key):
            raise _invalid("Table key", key, "use up to 512 characters without / \\ # ? and control characters.")


def check_entity(entity: Entity) -> None:
    """`ConfigurationError` for keys, property names or integers that a table cannot hold."""
    check_keys(entity.partition_key, entity.row_key)
    for name, value in entity.properties.items():
        if (
            not _METADATA_NAME.match(name)
            or len(name) > MAX_PROPERTY_NAME
            or name in {"PartitionKey", "RowKey", "Timestamp"}
        ):
            raise _invalid(
                "Property name", name, "use letters, digits and _, and not PartitionKey, RowKey or Timestamp."
            )
        if isinstance(value, int) and not -(2**63) <= value < 2**63:
            raise ConfigurationError(f"Property {name} = {value} does not fit into 64 bits.")


def _check_metadata(metadata: Mapping[str, str]) -> None:
    _check_distinct(metadata)
    for name, value in metadata.items():
        if not _METADATA_NAME.match(name):
            raise _invalid("Metadata name", name, "use letters, digits and _, and no digit first.")
        if not _METADATA_VALUE.match(value):
            raise ConfigurationError(
                f"Metadata {name} = {_cut(value)!r} is not valid: use ASCII characters without spaces at the ends."
            )
    size = sum(len(name) + len(value) for name, value in metadata.items())
    if size > MAX_METADATA_BYTES:
        raise ConfigurationError(f"A blob can have {MAX_METADATA_BYTES} bytes of metadata, not {size}.")


def _check_distinct(names: Iterable[str]) -> None:
    seen: set[str] = set()
    for name in names:
        if name.lower() in seen:
            raise ConfigurationError(f"Metadata name {name!r} is given twice: Azure ignores case.")
        seen.add(name.lower())


def _invalid(what: str, name: str, reason: str) -> ConfigurationError:
    return ConfigurationError(f"{what} {_cut(name)!r} is not valid: {reason}")


def _cut(text: str) -> str:
    return text if len(text) <= _SHOWN else text[: _SHOWN - 3] + "..."
