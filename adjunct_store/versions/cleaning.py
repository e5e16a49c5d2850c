"""What a clean-up finds and deletes: versions that no pin uses, and generations that the manifest does not name.

    mark surplus versions as retiring ─► list the pins ─► drop the versions that no pin has

A pin that was confirmed before the mark is in the listing; one that was not cannot be confirmed after it (`pins`). Ages
of pins are those of the storage service: the host's clock only chooses the pins whose age is asked for.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING

from adjunct_store.versions.pin import counts, from_json
from azure_account.values import Condition, Done, Missing
from foundation.errors import AzureBlobError, ConfigurationError, CorruptError, NotFoundError
from foundation.parallel import act_on_each, concurrent_map

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Sequence

    from adjunct_store.versions.manifest import Manifest
    from adjunct_store.versions.names import StoreNames
    from azure_account.container import BlobContainer
    from azure_account.values import BlobProperties
    from foundation.clock import Clock

logger = logging.getLogger("adjunct_store")

_GONE = 0
"""No version has this number."""
_CLOCKS_DIFFER = 900.0
"""Seconds by which the clock of this host may be behind that of the service."""
_NEXT = "!"
"""The first character that may follow in a name of a generation's blob."""


@dataclass(frozen=True)
class CleanupResult:
    """What a clean-up did: versions and generations that have left the manifest, and the number of deleted blobs."""

    versions: tuple[int, ...] = ()
    generations: tuple[int, ...] = ()
    deleted_blobs: int = 0


@dataclass
class KnownPins:
    """The pins of a store, as a fill knows them. Each is read once; those that were read before cost no request.

    clock: of this host. It only says which pins may have expired: of these the storage service is asked.
    versions: of pins that were read, by ETag.
    """

    container: BlobContainer
    names: StoreNames
    threads: int
    clock: Clock
    versions: dict[str, int] = field(default_factory=dict)

    def unused_versions(self, manifest: Manifest, retiring: Collection[int]) -> set[int]:
        """The retiring versions that no pin uses, confirmed or not.

        manifest: is stored, with these versions retiring, before the call: pins that are put after the listing cannot
        be confirmed. Pins that are over do not count, and are deleted unless their version serves. A pin that cannot be
        read keeps all versions.
        """
        pins = list(self.container.list(self.names.all_pins))
        self._read(pins)
        followed = self._followed(pins)
        used = [pin for pin in pins if not self._serves(pin, manifest)]
        over = [pin for pin in used if not self._is_young(pin, manifest, pin.name in followed)]
        delete = partial(self._deleted, manifest=manifest, followed=followed)
        deleted = concurrent_map(delete, over, self.threads, after_error="wait")
        gone = {pin.name for pin, done in zip(over, deleted, strict=True) if done}
        left = {self.versions.get(pin.etag) for pin in used if pin.name not in gone}
        return set() if None in left else {version for version in retiring if version not in left}

    def _read(self, pins: Sequence[BlobProperties]) -> None:
        new = [pin for pin in pins if pin.etag not in self.versions]
        names = [pin.name for pin in new]
        versions = concurrent_map(partial(_version_of, self.container), names, self.threads, after_error="wait")
        found = {pin.etag: version for pin, version in zip(new, versions, strict=True) if version is not None}
        there = {pin.etag for pin in pins}
        self.versions = {etag: version for etag, version in self.versions.items() if etag in there} | found

    def _serves(self, pin: BlobProperties, manifest: Manifest) -> bool:
        version = manifest.version(self.versions.get(pin.etag, _GONE))
        return version is not None and manifest.serves(version)

    def _followed(self, pins: Sequence[BlobProperties]) -> set[str]:
        """Pins whose reader has pinned the batch after the next one. A reader deletes them itself, unless it died."""
        batches = {pin.name: self.names.reader_and_batch(pin.name) for pin in pins}
        last = dict(filter(None, batches.values()))  # in the order of names, so of batches
        return {name for name, found in batches.items() if found is not None and found[1] < last[found[0]] - 1}

    def _is_young(self, pin: BlobProperties, manifest: Manifest, followed: bool) -> bool:
        """Whether a pin counts without a question: what looks older may be so only by the clock of this host."""
        age = self.clock.now() - pin.last_modified.timestamp() + _CLOCKS_DIFFER
        return counts(age, manifest.pins_expire, followed)

    def _deleted(self, pin: BlobProperties, manifest: Manifest, followed: set[str]) -> bool:
        """Delete a pin that does not count any more. False if it counts, or is written again meanwhile."""
        if counts(self.container.age(pin.name), manifest.pins_expire, pin.name in followed):
            return False
        outcome = self.container.delete(pin.name, condition=Condition(if_match=pin.etag))
        return isinstance(outcome, Done | Missing)


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

    def delete(blob: str) -> bool:
        return isinstance(container.delete(blob), Done | Missing)

    errors: list[AzureBlobError] = []
    deleted = left = 0
    for generation in _stored_generations(container, names):
        if generation in registered or generation >= manifest.next_generation:
            continue
        blobs = [blob.name for blob in container.list(names.generation_prefix(generation), uncommitted=True)]
        acted = act_on_each(delete, blobs, threads)
        deleted, left, errors = deleted + len(acted.done), left + len(acted.failed), errors or acted.errors
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
