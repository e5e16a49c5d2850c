"""Where a store lies in a container. Pure.

    <store>/store.json                          the manifest
    <store>/g<generation>/p<partition>/…        a state of `state_backup`: one partition of one generation
    <store>/pins/<reader>/<20-digit batch>.json which version a batch of a reading query uses

`<store>` is any path, such as `stores/planes`. `<reader>` is such as the id of a query; with a given version it ends
in `.v<version>`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from azure_account.names import check_blob
from foundation.errors import ConfigurationError
from state_backup.record.names import StateNames

MANIFEST = "store.json"
_PINS = "pins"
_LONGEST = 700
_LONGEST_READER = 200
_LEVEL = re.compile(r"g[0-9]+")
_BATCH_DIGITS = 20
_AFTER_SLASH = "0"  # the character after `/`


@dataclass(frozen=True)
class StoreNames:
    """The names of one store."""

    store: str

    def __post_init__(self) -> None:
        """`ConfigurationError` unless the path can be the beginning of blob names, and is no part of another store."""
        StateNames(self.store)
        if len(self.store) > _LONGEST:
            text = f"Store {self.store[:80]!r} is not valid: its path has more than {_LONGEST} characters."
            raise ConfigurationError(text)
        if any(level in (MANIFEST, _PINS) or _LEVEL.fullmatch(level) for level in self.store.split("/")):
            raise ConfigurationError(
                f"Store {self.store!r} is not valid: no level may be {MANIFEST}, {_PINS} or g with a number, "
                "which are names inside a store."
            )

    @property
    def folder(self) -> str:
        """What all blobs of the store begin with."""
        return f"{self.store}/"

    @property
    def manifest(self) -> str:
        """The blob of the manifest."""
        return f"{self.store}/{MANIFEST}"

    @property
    def generations(self) -> str:
        """What all blobs of generations begin with."""
        return f"{self.store}/g"

    def generation_prefix(self, generation: int) -> str:
        """What all blobs of a generation begin with."""
        return f"{self.store}/g{generation}/"

    def after_generation(self, generation: int) -> str:
        """A name above those of all blobs of a generation, and not above those of any other one that follows it."""
        return f"{self.store}/g{generation}{_AFTER_SLASH}"

    def generation_of(self, blob: str) -> int | None:
        """The generation that a blob belongs to; None for other blobs."""
        if not blob.startswith(self.folder):
            return None
        level, slash, _ = blob.removeprefix(self.folder).partition("/")
        return int(level[1:]) if slash and _LEVEL.fullmatch(level) and level == f"g{int(level[1:])}" else None

    def is_own(self, blob: str) -> bool:
        """Whether a blob of the folder is one of the store."""
        return blob == self.manifest or blob.startswith(self.all_pins) or self.generation_of(blob) is not None

    def state(self, generation: int, partition: int) -> str:
        """The state of a partition, for `state_backup`."""
        return f"{self.store}/g{generation}/p{partition}"

    @property
    def all_pins(self) -> str:
        """What the pins of all readers begin with."""
        return f"{self.store}/{_PINS}/"

    def pins(self, reader: str) -> str:
        """What the pins of a reader begin with. `ConfigurationError` unless the reader's name is one level."""
        check_blob(reader)
        if "/" in reader or len(reader) > _LONGEST_READER:
            text = f"Reader {reader[:80]!r} is not valid: give up to {_LONGEST_READER} characters without `/`."
            raise ConfigurationError(text)
        return f"{self.store}/{_PINS}/{reader}/"

    def reader_and_batch(self, blob: str) -> tuple[str, int] | None:
        """The reader and batch that a pin's blob names; None for other blobs."""
        reader, _, batch = blob.removeprefix(self.all_pins).removesuffix(".json").rpartition("/")
        return (reader, int(batch)) if reader and batch.isdecimal() else None

    def pin(self, reader: str, batch: int) -> str:
        """The pin of a reader's batch; the names of one reader are ordered by batch."""
        if not 0 <= batch < 10**_BATCH_DIGITS:
            raise ConfigurationError(f"Batch {batch} of reader {reader} is not valid: batches are numbered from 0.")
        return f"{self.pins(reader)}{batch:0{_BATCH_DIGITS}}.json"
