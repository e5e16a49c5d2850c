"""A store in the in-memory account, and fills of it."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any

from adjunct_store.versions.manifest_store import Fill, open_fill, read_manifest
from adjunct_store.versions.names import StoreNames
from adjunct_store.versions.opening import FillRequirements
from adjunct_store.versions.transitions import Publication
from azure_account.location import Location
from azure_account.memory.account import MemoryAccount

if TYPE_CHECKING:
    from adjunct_store.versions.manifest import Manifest, Version
    from azure_account.container import BlobContainer

STORE = "stores/planes"
NAMES = StoreNames(STORE)
SCHEMA = {"keys": [["tail", "string"]], "ordered": False}
OTHER = {"keys": [["tail", "string"]], "ordered": True}
PARTITIONS = 2
_ids = itertools.count(1)


def new_account() -> MemoryAccount:
    account = MemoryAccount()
    account.container("box").create()
    return account


def opened(container: BlobContainer, schema: dict[str, Any] = SCHEMA, source: str = "planes", **settings: Any) -> Fill:
    """settings: those of `FillRequirements`, and the keyword arguments of `open_fill`."""
    others = {name: settings.pop(name) for name in ("before_take_over", "clock", "new_id") if name in settings}
    terms = FillRequirements(source, **{"partitions": PARTITIONS, "threads": 1, **settings})
    return open_fill(Location.in_container(container, STORE), schema, terms, **others)


def uploaded(container: BlobContainer, generation: int, partition: int) -> str:
    """What a task does, as far as the manifest knows: the blobs of a checkpoint, and its id."""
    id_ = f"1700000000000-{next(_ids)}"
    container.put(f"{NAMES.state(generation, partition)}/files/{id_}", b"1")
    return id_


def published(fill: Fill, batch: int, **flags: Any) -> Version:
    container = fill._storage.container
    changed = {batch % PARTITIONS: uploaded(container, fill.generation.number, batch % PARTITIONS)}
    return fill.publish(Publication(batch, changed, batch + 1, 100 * (batch + 1), **flags))


def manifest_of(container: BlobContainer) -> Manifest:
    manifest = read_manifest(container, STORE)
    assert manifest is not None
    return manifest


def generations_in(container: BlobContainer) -> set[int]:
    """The generations that have blobs."""
    found = {NAMES.generation_of(blob.name) for blob in container.list(NAMES.generations)}
    return {each for each in found if each is not None}


def numbers(manifest: Manifest) -> dict[int, str]:
    """The versions by number, with their states."""
    return {each.number: each.state.value for each in manifest.versions}
