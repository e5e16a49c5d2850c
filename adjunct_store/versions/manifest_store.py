"""The one fill of a store: it changes the manifest by conditional writes, and stops when another one has opened it.

    open_fill      raise the epoch in the manifest; register a generation, unless the one that is there is continued
    publish        one write of the manifest: the next version, and what retires; then clean up
    build_beside   register a generation for the next bounded data set, which readers see when it is sealed
    build_again    register a generation of the same source, which readers see when it is bootstrapped

Each change is a function of the manifest (`transitions`). A write that finds the manifest changed reads it again: with
another epoch or writer the fill is fenced; else an earlier write of its own has taken effect late, and the change is
made to what is there now.
"""

from __future__ import annotations

import json
import logging
import uuid
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from adjunct_store.versions import transitions
from adjunct_store.versions.cleaning import CleanedUp, KnownPins, delete_generations
from adjunct_store.versions.manifest import Manifest, Serves, State, from_json, to_json
from adjunct_store.versions.names import StoreNames
from adjunct_store.versions.opening import FillStorage, Terms, find_opening
from adjunct_store.versions.recovery import Action, Recovery, Wanted
from adjunct_store.versions.transitions import Publication
from azure_account.clock import SYSTEM_CLOCK, utc
from azure_account.documents.document import DocumentStore, Stored
from azure_account.errors import (
    AzureBlobError,
    ConfigurationError,
    ConflictError,
    FencedError,
    TransientError,
    describe,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from typing_extensions import Unpack

    from adjunct_store.versions.manifest import Generation, Version
    from adjunct_store.versions.opening import FillTerms, Opening
    from azure_account.account import BlobContainer
    from azure_account.clock import Clock

logger = logging.getLogger(__name__)

_ATTEMPTS = 10
"""How often a change is made to a manifest that was changed meanwhile."""


def read_manifest(container: BlobContainer, store: str) -> Manifest | None:
    """The manifest of a store; None if there is none. `CorruptError` if it is damaged.

    `NotFoundError` if there is no such container.
    """
    names = StoreNames(store)
    found = DocumentStore(container, names.manifest, "manifest", to_json, from_json).read()
    if found is None:
        next(iter(container.list(names.manifest)), None)  # raises if the container is not there
        return None
    return found.document


def open_fill(  # noqa: PLR0913 - what is filled with what, and whom to ask
    container: BlobContainer,
    store: str,
    schema: Mapping[str, Any],
    *,
    partitions: int,
    clock: Clock = SYSTEM_CLOCK,
    new_id: Callable[[], str] = lambda: uuid.uuid4().hex,
    before_take_over: Callable[[Opening], str] = lambda _: "",
    **terms: Unpack[FillTerms],
) -> Fill:
    """Take a store over from other fills, and continue its generation or register another one.

    schema: as JSON. terms: see `Terms`; a generation is only continued with the same schema, number of partitions and
    source. before_take_over: is called with what was found before anything is written, and again if the manifest has
    changed since; what it raises leaves the store as it is. It returns the id of the query that fills the store, or "".

    Where readers have a version, another generation is only seen when it is bootstrapped. `ConfigurationError` if there
    is another store, without `rebuild`. `ConflictError` if there is a store whose manifest was deleted and cannot be
    undeleted.
    """
    if partitions < 1:
        raise ConfigurationError(f"partitions is {partitions}: a store has at least 1.")
    given = Terms(**terms)
    wanted = Wanted(_plain(schema), partitions, given.source, given.bounded)
    storage = FillStorage(container, StoreNames(store), given.threads, clock, new_id)
    for _ in range(_ATTEMPTS):
        opening = find_opening(storage, wanted, given)
        try:
            query = before_take_over(opening)
        except ConfigurationError:
            if storage.manifests.read() == opening.before:
                raise
            continue  # what was wrong may not be so any more
        stored = opening.take_over(storage, query)
        if stored is not None:
            return Fill(storage, stored, opening.plan, opening.reason)
    raise _too_many_changes(storage)


def _plain(schema: Mapping[str, Any]) -> dict[str, Any]:
    """The schema as JSON gives it back, so that it can be compared."""
    plain: dict[str, Any] = json.loads(json.dumps(dict(schema)))
    return plain


def _too_many_changes(storage: FillStorage) -> TransientError:
    """The error of a fill that cannot write because the manifest changes."""
    cause = f"its manifest was changed {_ATTEMPTS} times meanwhile"
    return TransientError(describe("write", f"store {storage.names.store}", cause, "Try again later."))


class Fill:
    """The one fill of a store; `open_fill` makes it. Not thread-safe. `FencedError` once another one has opened it."""

    def __init__(self, storage: FillStorage, stored: Stored[Manifest], plan: Recovery, reason: str) -> None:
        self._storage, self._stored = storage, stored
        self._doubtful: list[Manifest] = []
        """What may be stored since a write whose outcome is unknown."""
        self._pins = KnownPins(storage.container, storage.names, storage.threads, storage.clock)
        self._sweep_due = True
        current = stored.document.current
        assert current is not None  # noqa: S101 - it was registered or continued
        self._generation = current
        self.recovery = plan
        """What the store was found to need."""
        self.reason = reason
        """Why, in words."""

    @property
    def epoch(self) -> int:
        """Of this fill: above those of all fills before it. Tasks open the states of partitions with it."""
        return self._stored.document.epoch

    @property
    def generation(self) -> Generation:
        """The generation that is filled, with what has become of it."""
        return self._stored.document.generation(self._generation.number) or self._generation

    @property
    def base(self) -> Version | None:
        """The last version of the generation, from which the next batch begins; None before the first."""
        return self._stored.document.newest_of(self._generation.number)

    def in_use(self, partition: int) -> frozenset[str]:
        """The ids of a partition's checkpoints that versions of the generation have: what `back_up` must keep."""
        manifests = (self._stored.document, *self._doubtful)
        versions = {each for manifest in manifests for each in manifest.versions}
        own = (each.checkpoints[partition] for each in versions if each.generation == self._generation.number)
        return frozenset(filter(None, own))

    def publish(  # noqa: PLR0913 - what is published, and what is known of it
        self,
        batch: int,
        checkpoints: Mapping[int, str],
        entries: int,
        bytes_: int,
        *,
        bootstrapped: bool = False,
        sealed: bool = False,
        replaces: bool = False,
    ) -> Version:
        """Publish the next version: by partition the checkpoint of this batch; the others keep that of `base`.

        replaces: the others are empty.

        A batch up to that of `base` was published before: its newest version is returned, and at most `bootstrapped`
        and `sealed` are noted. Cleans up after that; errors of this are only logged. `TransientError` if it stays
        unknown whether the version is published: publish the same batch again. `ConfigurationError` if the generation
        is sealed, or was replaced by `build_beside` or `build_again`.
        """
        at = utc(self._storage.clock).isoformat(timespec="seconds")
        new = Publication(batch, dict(checkpoints), entries, bytes_, bootstrapped, sealed, at, replaces)
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
        wanted = Wanted(_plain(schema), partitions, source, bounded=True)
        return self._beside(wanted, Serves.SEALED, "a data set is built beside the one before")

    def build_again(self, *, above: int = 0) -> Fill:
        """A fill of a new generation of the same store, from its source. Readers see it when it is bootstrapped.

        This fill publishes nothing more. above: the number of the generation is higher. `TransientError` if it stays
        unknown whether the generation is registered: call it again.
        """
        now = self._generation
        wanted = Wanted(now.schema, now.partitions, now.source)
        return self._beside(wanted, Serves.BOOTSTRAPPED, "it is built again from its source", above=above)

    def _beside(self, wanted: Wanted, serves: Serves, reason: str, *, above: int = 0) -> Fill:
        self._change(lambda manifest: transitions.register(manifest, wanted, serves, above=above))
        return Fill(self._storage, self._stored, Recovery(Action.RECREATE, force_bootstrap=True), reason)

    def clean_up(self) -> CleanedUp:
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
            return CleanedUp()

    def _clean(self, sweep: bool) -> CleanedUp:
        """Drop retiring versions that no pin uses, then delete generations. The pins are listed after the retiring."""
        before = self._stored.document
        retiring = {each.number for each in before.versions if each.state is State.RETIRING}
        if retiring:
            unused = self._pins.unused_versions(before, retiring)
            if unused:
                self._change(lambda manifest: transitions.drop(manifest, unused))
        after = self._stored.document
        versions = {each.number for each in before.versions} - {each.number for each in after.versions}
        generations = {each.number for each in before.generations} - {each.number for each in after.generations}
        deleted = 0
        if sweep or generations:
            self._sweep_due = True
            deleted, left = delete_generations(
                self._storage.container, self._storage.names, after, self._storage.threads
            )
            self._sweep_due = left > 0
        return CleanedUp(tuple(sorted(versions)), tuple(sorted(generations)), deleted)

    def _current(self, manifest: Manifest) -> Generation:
        """The generation of this fill. `ConfigurationError` if it is not the one that is filled any more."""
        current = manifest.current
        if current is None or current.number != self._generation.number:
            number = self._generation.number
            cause = f"generation {number} was replaced by another one of this fill"
            step = "Publish with what `build_beside` or `build_again` has returned. If that has failed, call it again."
            raise ConfigurationError(describe("publish", f"store {self._storage.names.store}", cause, step))
        return current

    def _change(self, transition: Callable[[Manifest], Manifest]) -> None:
        """Change the manifest. Nothing is written if nothing changes, but the epoch is checked."""
        for _ in range(_ATTEMPTS):
            before = self._stored
            changed = transition(before.document)
            if changed == before.document:
                self._go_on_from(self._read())
                if self._stored == before:
                    return
                continue
            if changed.next_version == before.document.next_version:
                changed = replace(changed, since_publication=self._storage.since_publication(before.document))
            if self._write(changed, before):
                return
            self._go_on_from(self._read())
        raise _too_many_changes(self._storage)

    def _write(self, changed: Manifest, before: Stored[Manifest]) -> bool:
        """Write the manifest. False if it was changed meanwhile."""
        try:
            stored = self._storage.write(changed, before)
        except AzureBlobError:
            self._doubtful.append(changed)
            raise
        if stored is not None:
            self._go_on_from(stored)
        return stored is not None

    def _go_on_from(self, stored: Stored[Manifest]) -> None:
        """Take this manifest for the last one. If it is another one, no write before it can take effect any more."""
        if stored.etag != self._stored.etag:
            self._doubtful.clear()
        self._stored = stored

    def _read(self) -> Stored[Manifest]:
        """The manifest. `FencedError` if another fill has the store."""
        names, own = self._storage.names, self._stored.document
        stored = self._storage.manifests.read()
        if stored is None:
            step = "Bring it back, then open the store again."
            raise ConflictError(describe("write", f"store {names.store}", "its manifest was deleted meanwhile", step))
        found = stored.document
        if (found.epoch, found.writer) != (own.epoch, own.writer):
            other = "another fill of " if found.epoch <= own.epoch else ""
            cause = f"{other}epoch {found.epoch} has taken it over from epoch {own.epoch}"
            step = "Stop this fill; what is published belongs to the other one."
            raise FencedError(describe("write", f"store {names.store}", cause, step))
        return stored
