"""What a clean-up finds and deletes: versions that no pin uses, and generations that the manifest does not name."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING

from adjunct_store.versions.pin import counts, from_json
from azure_account.account import Condition, Done, Missing
from azure_account.errors import AzureBlobError, ConfigurationError, CorruptError, NotFoundError
from state_backup.threads import mapped

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    from adjunct_store.versions.manifest import Manifest
    from adjunct_store.versions.names import StoreNames
    from azure_account.account import BlobContainer

logger = logging.getLogger(__name__)

_GONE = 0
"""No version has this number."""
_NEXT = "!"
"""The first character that may follow in a name of a generation's blob."""


@dataclass(frozen=True)
class CleanedUp:
    """What a clean-up did: versions and generations that have left the manifest, and the number of deleted blobs."""

    versions: tuple[int, ...] = ()
    generations: tuple[int, ...] = ()
    deleted_blobs: int = 0


def unused_versions(
    container: BlobContainer, names: StoreNames, manifest: Manifest, retiring: Collection[int], known: dict[str, int]
) -> set[int]:
    """Those of the retiring versions that no pin uses, confirmed or not.

    manifest: is stored, with these versions retiring, before the call: pins that are put after the listing cannot be
    confirmed. Expired pins do not count, and are deleted unless their version serves. A pin that cannot be read keeps
    all versions. known: the versions of pins by ETag, as far as they were read before; it is brought up to date.
    """
    unused, read = set(retiring), dict(known)
    known.clear()
    for blob in container.list(names.all_pins):
        version = read[blob.etag] if blob.etag in read else _version_of(container, blob.name)
        if version is not None:
            known[blob.etag] = version
            found = manifest.version(version)
            if found is not None and manifest.serves(found):
                continue
        if not counts(container.age(blob.name), manifest.pins_expire):
            container.delete(blob.name, condition=Condition(if_match=blob.etag))
        elif version is None:
            unused.clear()
        else:
            unused.discard(version)
    return unused


def _version_of(container: BlobContainer, blob: str) -> int | None:
    """The version of a pin; None if it cannot be read. One that is gone was of no version that is in use."""
    try:
        return from_json(container.get(blob).data, blob).version
    except NotFoundError:
        return _GONE
    except (ConfigurationError, CorruptError) as error:
        logger.warning("no version is dropped: %s", error)
        return None


def delete_generations(
    container: BlobContainer, names: StoreNames, manifest: Manifest, threads: int
) -> tuple[int, int]:
    """Delete what there is of generations that are not registered any more: how many blobs, and how many are left.

    A generation is registered before the first upload into its folder, and never again after it has left the manifest:
    so no upload that counts is deleted, also if the manifest has changed meanwhile.
    """
    registered = {each.number for each in manifest.generations}
    errors: list[AzureBlobError] = []

    def delete(blob: str) -> bool:
        try:
            return isinstance(container.delete(blob), Done | Missing)
        except AzureBlobError as error:
            errors.append(error)
            return False

    deleted = left = 0
    for generation in _stored_generations(container, names):
        if generation in registered or generation >= manifest.next_generation:
            continue
        blobs = [blob.name for blob in container.list(names.generation_prefix(generation), uncommitted=True)]
        done = mapped(delete, blobs, threads, "clean-up")
        deleted, left = deleted + sum(done), left + len(done) - sum(done)
    if left:
        text = "%d blobs of %s are left for the next clean-up: %s"
        logger.warning(text, left, names.store, errors[0] if errors else "they have changed meanwhile")
    return deleted, left


def _stored_generations(container: BlobContainer, names: StoreNames) -> Iterator[int]:
    """The generations that have blobs, by one listing for each."""
    start: str | None = None
    while True:
        blobs = container.list(names.generations, start_from=start, uncommitted=True)
        first = next(iter(blobs), None)
        if first is None:
            return
        generation = names.generation_of(first.name)
        if generation is not None:
            yield generation
        start = first.name + _NEXT if generation is None else names.after_generation(generation)
