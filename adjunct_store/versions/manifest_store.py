"""The one fill of a store: it changes the manifest by conditional writes, and stops when another one has opened it.

    open_fill      raise the epoch in the manifest; register a generation, unless the one that is there is continued
    publish        one write of the manifest: the next version, and what retires; then clean up
    build_beside   register a generation for the next bounded data set, which readers see when it is sealed
    build_again    register a generation of the same source, which readers see when it is bootstrapped

Each change is a function of the manifest (`transitions`), which the fill owns (`azure_account.documents.owner`). If the
manifest was changed since, and epoch and writer are the same, an earlier write of this fill has taken effect late: the
change is made to the manifest that is there now.
"""

from __future__ import annotations

import json
import logging
import uuid
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from adjunct_store.versions import transitions
from adjunct_store.versions.cleaning import CleanupResult, KnownPins, delete_generations
from adjunct_store.versions.manifest import Manifest, VersionState, VisibleFrom
from adjunct_store.versions.names import StoreNames
from adjunct_store.versions.opening import FillStorage, find_opening, manifest_documents
from adjunct_store.versions.recovery import StoreDefinition
from foundation.clock import SYSTEM_CLOCK, utc
from foundation.errors import AzureBlobError, ConfigurationError, FencedError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from adjunct_store.versions.manifest import Generation, Version
    from adjunct_store.versions.opening import FillRequirements, TakeoverPlan
    from adjunct_store.versions.transitions import Publication
    from azure_account.container import BlobContainer
    from azure_account.documents.document import Stored
    from azure_account.documents.owner import DocumentOwner
    from azure_account.location import Location
    from foundation.clock import Clock

logger = logging.getLogger("adjunct_store")


def read_manifest(container: BlobContainer, store: str) -> Manifest | None:
    """The manifest of a store; None if there is none. `CorruptError` if it is damaged.

    `NotFoundError` if there is no such container.
    """
    names = StoreNames(store)
    found = manifest_documents(container, names).read()
    if found is None:
        next(iter(container.list(names.manifest)), None)  # raises if the container is not there
        return None
    return found.document


def open_fill(
    where: Location,
    schema: Mapping[str, Any],
    terms: FillRequirements,
    *,
    before_take_over: Callable[[TakeoverPlan], str] = lambda _: "",
    clock: Clock = SYSTEM_CLOCK,
    new_id: Callable[[], str] = lambda: uuid.uuid4().hex,
) -> Fill:
    """Take a store over from other fills, and continue its generation or register another one.

    where: the store. Its container is created if it is absent.
    schema: as JSON. A generation is only continued with the same schema, number of partitions and source.
    terms: what the fill asks of the store.
    before_take_over: is called with what was found before anything is written, and again if the manifest has changed
    since; what it raises leaves the store as it is. It returns the id of the query that fills the store, or "".

    Where readers have a version, another generation is only seen when it is bootstrapped. `ConfigurationError` if there
    is another store, without `rebuild`. `FencedError` if a fill of a higher epoch than that of `terms` had the store.
    `ConflictError` if there is a store whose manifest was deleted and cannot be undeleted.
    """
    wanted = StoreDefinition(_plain(schema), terms.partitions, terms.source, terms.bounded)
    storage = FillStorage(where.prepare(), StoreNames(where.path), terms.threads, clock, new_id)
    continues = False

    def own(before: Stored[Manifest] | None) -> Manifest | None:
        nonlocal continues
        opening = find_opening(storage, before, wanted, terms)
        continues = opening.continues
        try:
            query = before_take_over(opening)
        except ConfigurationError:
            if storage.manifests.read() == before:
                raise
            return None  # the cause of the error may be gone
        return transitions.taken_over(opening.next, new_id(), opening.age, query, epoch=terms.epoch)

    manifest = storage.manifests.open(own, storage.manifest)
    filled = Fill(storage, manifest, continues=continues)
    text = "store %s: a fill of epoch %d begins, generation %d is %s"
    kind = "continued" if continues else "new"
    logger.info(text, where.path, filled.epoch, filled.generation.number, kind)
    return filled


def _plain(schema: Mapping[str, Any]) -> dict[str, Any]:
    """The schema as JSON gives it back, so that it can be compared."""
    plain: dict[str, Any] = json.loads(json.dumps(dict(schema)))
    return plain


class Fill:
    """The one fill of a store; `open_fill` makes it. Not thread-safe. `FencedError` once another one has opened it."""

    def __init__(self, storage: FillStorage, manifest: DocumentOwner[Manifest], *, continues: bool) -> None:
        self._storage, self._manifest = storage, manifest
        self._pins = KnownPins(storage.container, storage.names, storage.threads, storage.clock)
        self._sweep_due = True
        current = manifest.document.current
        assert current is not None  # noqa: S101 - it was registered or continued
        self._generation = current
        self.continues = continues
        """Whether the generation was there before this fill."""

    @property
    def epoch(self) -> int:
        """The epoch of the fill: above those of all fills before it. Tasks open the states of partitions with it."""
        return self._manifest.document.epoch

    @property
    def generation(self) -> Generation:
        """The generation that is filled, with what has become of it."""
        return self._manifest.document.generation(self._generation.number) or self._generation

    @property
    def base(self) -> Version | None:
        """The last version of the generation, from which the next batch begins; None before the first."""
        return self._manifest.document.newest_of(self._generation.number)

    def in_use(self, partition: int) -> frozenset[str]:
        """The ids of a partition's checkpoints that versions of the generation have: what `back_up` must keep."""
        versions = {each for manifest in self._manifest.possible for each in manifest.versions}
        own = (each.checkpoints[partition] for each in versions if each.generation == self._generation.number)
        return frozenset(filter(None, own))

    def publish(self, publication: Publication) -> Version:
        """Publish the next version.

        A batch up to that of `base` was published before: its newest version is returned, and at most `bootstrapped`
        and `sealed` are noted. Cleans up after that; errors of this are only logged. `TransientError` if it stays
        unknown whether the version is published: publish the same batch again. `ConfigurationError` if the generation
        is sealed, or was replaced by `build_beside` or `build_again`.
        """
        new = replace(publication, published=utc(self._storage.clock).isoformat(timespec="seconds"))
        versions: list[Version] = []

        def transition(manifest: Manifest) -> Manifest:
            changed, version = transitions.publish(manifest, self._current(manifest), new)
            versions.append(version)
            return changed

        self._change(transition)
        try:
            self._clean(self._sweep_due)
        except AzureBlobError as error:
            logger.warning("the clean-up of %s goes on with the next version: %s", self._storage.names.store, error)
        return versions[-1]

    def build_beside(self, schema: Mapping[str, Any], source: str, *, partitions: int | None = None) -> Fill:
        """A fill of a new generation, for the next bounded data set. Readers see it when it is published as sealed.

        This fill publishes nothing more. A generation that is not sealed is abandoned by the next `build_beside`.
        `TransientError` if it stays unknown whether the generation is registered: call it again.
        """
        partitions = self._generation.partitions if partitions is None else partitions
        wanted = StoreDefinition(_plain(schema), partitions, source, bounded=True)
        return self._beside(wanted, VisibleFrom.SEALED)

    def build_again(self, *, above: int = 0) -> Fill:
        """A fill of a new generation of the same store, from its source. Readers see it when it is bootstrapped.

        This fill publishes nothing more. above: the number of the generation is higher. `TransientError` if it stays
        unknown whether the generation is registered: call it again.
        """
        now = self._generation
        wanted = StoreDefinition(now.schema, now.partitions, now.source)
        return self._beside(wanted, VisibleFrom.BOOTSTRAPPED, above=above)

    def _beside(self, wanted: StoreDefinition, serves: VisibleFrom, *, above: int = 0) -> Fill:
        self._change(lambda manifest: transitions.register(manifest, wanted, serves, above=above))
        return Fill(self._storage, self._manifest, continues=False)

    def clean_up(self) -> CleanupResult:
        """Retire and drop versions that nobody needs, then delete generations that the manifest does not name.

        Errors are logged, and the next clean-up goes on, except `FencedError`.
        """
        try:
            self._change(transitions.retire)
            return self._clean(sweep=True)
        except FencedError:
            raise
        except AzureBlobError as error:
            logger.warning("the clean-up of %s goes on with the next one: %s", self._storage.names.store, error)
            return CleanupResult()

    def _clean(self, sweep: bool) -> CleanupResult:
        """Drop retiring versions that no pin uses, then delete generations. The pins are listed after the retiring."""
        before = self._manifest.document
        retiring = {each.number for each in before.versions if each.state is VersionState.RETIRING}
        if retiring:
            unused = self._pins.unused_versions(before, retiring)
            if unused:
                self._change(lambda manifest: transitions.drop(manifest, unused))
        after = self._manifest.document
        versions = {each.number for each in before.versions} - {each.number for each in after.versions}
        generations = {each.number for each in before.generations} - {each.number for each in after.generations}
        deleted = 0
        if sweep or generations:
            self._sweep_due = True
            deleted, left = delete_generations(
                self._storage.container, self._storage.names, after, self._storage.threads
            )
            self._sweep_due = left > 0
        return CleanupResult(tuple(sorted(versions)), tuple(sorted(generations)), deleted)

    def _current(self, manifest: Manifest) -> Generation:
        """The generation of this fill. `ConfigurationError` if it is not the one that is filled any more."""
        current = manifest.current
        if current is None or current.number != self._generation.number:
            number = self._generation.number
            cause = f"generation {number} was replaced by another one of this fill"
            step = "Publish with what `build_beside` or `build_again` has returned. If that has failed, call it again."
            raise ConfigurationError("publish", f"store {self._storage.names.store}", cause, step)
        return current

    def _change(self, transition: Callable[[Manifest], Manifest]) -> None:
        """Change the manifest. Nothing is written if nothing changes, but the epoch is checked."""

        def changed(manifest: Manifest) -> Manifest:
            new = transition(manifest)
            if new == manifest or new.next_version != manifest.next_version:
                return new
            return replace(new, since_publication=self._storage.since_publication(manifest))

        self._manifest.change(changed)
