"""What the command line reads of stores. Writes nothing to the account, so it needs no right to write."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from adjunct_store.encoding.schema import StoreSchema
from adjunct_store.host.cache import HostCache
from adjunct_store.host.directories import LazyDirectories
from adjunct_store.versions import pin as pin_json
from adjunct_store.versions.manifest_store import read_manifest
from adjunct_store.versions.names import MANIFEST, StoreNames
from adjunct_store.view import View
from foundation.errors import ConfigurationError, CorruptError, NotFoundError
from foundation.parallel import concurrent_map

if TYPE_CHECKING:
    from collections.abc import Iterator
    from datetime import datetime
    from pathlib import Path

    from adjunct_store.versions.manifest import Generation, Manifest, Version
    from azure_account.container import BlobContainer
    from azure_account.values import BlobProperties

_REQUESTS_AT_ONCE = 16


@dataclass(frozen=True)
class FoundPin:
    """A pin: which version a batch of a reader uses. version: None if it cannot be read, for the `cause`."""

    reader: str
    batch: str
    version: int | None
    confirmed: bool
    written: datetime
    cause: str = ""


@dataclass(frozen=True)
class FoundStore:
    """A store. manifest: None if it cannot be read, for the `cause`."""

    store: str
    manifest: Manifest | None
    pins: tuple[FoundPin, ...] = ()
    cause: str = ""

    @property
    def newest(self) -> Version | None:
        """The version that readers get."""
        return None if self.manifest is None else self.manifest.newest


def find_stores(container: BlobContainer, prefix: str) -> list[FoundStore]:
    """The store of this name, or all stores whose path begins with these levels, in name order."""
    if prefix:
        one = _found(container, prefix)
        if one is not None:
            return [one]
    below = f"{prefix}/" if prefix else ""
    manifests = [blob.name for blob in container.list(below) if blob.name.endswith(f"/{MANIFEST}")]
    stores = [name.removesuffix(f"/{MANIFEST}") for name in manifests]
    found = concurrent_map(lambda store: _found(container, store), stores, _REQUESTS_AT_ONCE, after_error="wait")
    return [each for each in found if each is not None]


def _found(container: BlobContainer, store: str) -> FoundStore | None:
    try:
        manifest = read_manifest(container, store)
        if manifest is None:
            return None
        return FoundStore(store, manifest, _pins(container, StoreNames(store)))
    except (ConfigurationError, CorruptError) as error:
        return FoundStore(store, None, cause=str(error))


def _pins(container: BlobContainer, names: StoreNames) -> tuple[FoundPin, ...]:
    blobs = list(container.list(names.all_pins))
    found = concurrent_map(lambda blob: _pin(container, names, blob), blobs, _REQUESTS_AT_ONCE, after_error="wait")
    return tuple(each for each in found if each is not None)


def _pin(container: BlobContainer, names: StoreNames, blob: BlobProperties) -> FoundPin | None:
    reader, _, batch = blob.name.removeprefix(names.all_pins).rpartition("/")
    number = batch.removesuffix(".json").lstrip("0") or "0"
    try:
        pin = pin_json.from_json(container.get(blob.name).data, blob.name)
    except NotFoundError:
        return None
    except (ConfigurationError, CorruptError) as error:
        return FoundPin(reader, number, None, False, blob.last_modified, str(error))
    return FoundPin(reader, number, pin.version, pin.confirmed, blob.last_modified)


def chosen_version(container: BlobContainer, store: str, number: int | None) -> tuple[Version, Generation]:
    """A version by its number, by default the one that readers get now. `NotFoundError` if it does not exist."""
    manifest = read_manifest(container, store)
    if manifest is None:
        cause = "the store does not exist"
        raise NotFoundError("read", f"store {store} in {container.url}", cause, "Check the name with `ls`.")
    version = manifest.newest if number is None else manifest.version(number)
    generation = None if version is None else manifest.generation(version.generation)
    if version is None or generation is None:
        have = ", ".join(str(each.number) for each in manifest.versions) or "none"
        wanted = "no version that readers get" if number is None else f"no version {number}"
        step = "Choose one of these with --version." if manifest.versions else "Wait until its fill has published one."
        raise NotFoundError("read", f"store {store}", f"it has {wanted}; its versions are {have}", step)
    return version, generation


@contextmanager
def opened(
    container: BlobContainer, store: str, version: Version, generation: Generation, cache_dir: Path | None
) -> Iterator[View]:
    """A version, whose partitions are fetched to this host when they are needed.

    No pin is written: `NotFoundError` if a clean-up deletes the version. After a `CorruptError` the next call fetches
    the damaged partition again.
    """
    directories = LazyDirectories(HostCache(container, store, cache_dir), version)
    schema = StoreSchema.from_json(generation.schema)
    try:
        with View(directories, schema, on_damage=lambda partition, _: directories.discard(partition)) as view:
            yield view
    finally:
        directories.close()
