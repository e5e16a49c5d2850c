"""What a fill finds when it opens a store, and what it is about to write: which generation it continues or registers.

    terms + manifest ─► refused: another store, and no `rebuild`          nothing is written
                     └► an opening ─► the caller checks it ─► one conditional write: the fill owns the store

Nobody is fenced before that write, so an error of the check leaves the store with the fill that owns it.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from adjunct_store.versions import transitions
from adjunct_store.versions.manifest import PINS_EXPIRE_SECONDS, Manifest, VisibleFrom, from_json, to_json
from adjunct_store.versions.names import StoreNames
from adjunct_store.versions.recovery import StoreDefinition, difference, may_continue
from azure_account.documents.document import DocumentBlob, Stored
from azure_account.documents.owner import OwnedDocumentBlob
from foundation.errors import ConfigurationError, ConflictError, FencedError

if TYPE_CHECKING:
    from collections.abc import Callable

    from adjunct_store.versions.manifest import Generation, Version
    from azure_account.container import BlobContainer
    from foundation.clock import Clock


BY_QUERY = " by query "
"""Between the name of a source and the streaming query that numbers its batches."""


@dataclass(frozen=True)
class FillRequirements:
    """What a fill asks of the store that it opens.

    source: of the store. A store of another source, or with other columns or partitions, is replaced only with
    `rebuild`.
    partitions: at least 1.
    bootstrap: readers of a new generation wait until `publish` says that it is bootstrapped.
    bounded: they wait until it is sealed; the next data set may have other columns and partitions.
    persistent: else each opening builds the store again.
    keep: how many versions new pins may use.
    max_age: seconds without a publication after which the store is built again.
    rebuild: it is built again, and may replace another store.
    adds: the rows are changes of what readers see.
    above: the number of a new generation is higher.
    epoch: of the tenure in which the fill is started, as of `coordination`; None if nobody gives any.
    pins_expire: seconds for which the pin of a batch is found; no task may use it for longer than half of that.
    threads: how many blobs a clean-up deletes at the same time.
    """

    source: str
    partitions: int
    bootstrap: bool = False
    bounded: bool = False
    persistent: bool = True
    keep: int = 3
    max_age: float | None = None
    rebuild: bool = False
    adds: bool = False
    above: int = 0
    epoch: int | None = None
    pins_expire: float = PINS_EXPIRE_SECONDS
    threads: int = 16

    def __post_init__(self) -> None:
        if self.partitions < 1:
            raise ConfigurationError(f"partitions is {self.partitions}: a store has at least 1.")
        if self.keep < 1 or self.pins_expire <= 0:
            raise ConfigurationError(f"keep is {self.keep}, pins_expire {self.pins_expire}: both must be above 0.")
        if self.epoch is not None and self.epoch < 0:
            raise ConfigurationError(f"Argument epoch: {self.epoch} is not possible. Give 0 or more.")


def manifest_documents(container: BlobContainer, names: StoreNames) -> DocumentBlob[Manifest]:
    """Reads and writes the manifest of a store."""
    return DocumentBlob(container, names.manifest, "manifest", to_json, from_json)


@dataclass(frozen=True)
class FillStorage:
    """Where a fill finds its store, and how it reaches it."""

    container: BlobContainer
    names: StoreNames
    threads: int
    clock: Clock
    new_id: Callable[[], str]

    @property
    def manifests(self) -> OwnedDocumentBlob[Manifest]:
        """Reads and changes the manifest."""
        documents = manifest_documents(self.container, self.names)
        return OwnedDocumentBlob(documents, f"store {self.names.store}", "fill", self.new_id)

    def manifest(self) -> Stored[Manifest] | None:
        """The manifest, None for a new store. A deleted one is undeleted; `ConflictError` if that cannot be done.

        `ConfigurationError` for a folder of something else, and for one in the folder of another store.
        """
        return self.manifests.read() or self._undeleted()

    def since_publication(self, manifest: Manifest) -> float:
        """Seconds since a version was published, if this is the manifest that is stored."""
        return manifest.since_publication + (self.container.age(self.names.manifest) or 0.0)

    def _undeleted(self) -> Stored[Manifest] | None:
        """A folder that has blobs and no manifest was a store: a new one would use its numbers again."""
        names = self.names
        first = next(iter(self.container.list(names.folder)), None)
        if first is None:
            self._check_outside()
            return None
        found = self.manifests.undelete()
        if found is None and not names.is_own(first.name):
            cause = f"its folder has other blobs, such as {first.name}"
            raise ConfigurationError("open", f"store {names.store}", cause, "Give it a folder of its own.")
        if found is None:
            cause = f"it has blobs, but {names.manifest} was deleted"
            step = "Bring that blob back, or delete the folder, or choose another name for the store."
            raise ConflictError("open", f"store {names.store}", cause, step)
        return found

    def _check_outside(self) -> None:
        """`ConfigurationError` if a new store would be in the folder of another one."""
        names = self.names
        levels = names.store.split("/")
        for outer in (StoreNames("/".join(levels[:count])) for count in range(1, len(levels))):
            if self.container.properties(outer.manifest) is not None:
                cause = f"it would be in the folder of store {outer.store}"
                step = "Give it a folder of its own."
                raise ConfigurationError("make", f"store {names.store}", cause, step)


@dataclass(frozen=True)
class TakeoverPlan:
    """A store as a fill finds it, before it takes the store over.

    next: the manifest that is written, apart from epoch and writer.
    age: seconds since a version was published.
    continues: whether the fill continues a generation that is there.
    """

    next: Manifest
    age: float
    continues: bool

    @property
    def generation(self) -> Generation:
        """The generation that would be filled."""
        current = self.next.current
        assert current is not None  # noqa: S101 - it is registered or continued
        return current

    @property
    def base(self) -> Version | None:
        """The last version of that generation; None before the first."""
        return self.next.newest_of(self.generation.number)


def find_opening(
    storage: FillStorage, before: Stored[Manifest] | None, wanted: StoreDefinition, terms: FillRequirements
) -> TakeoverPlan:
    """What a fill would do with the store. Writes nothing.

    before: the manifest; None for a new store. `ConfigurationError` if there is another store, unless the fill is told
    to rebuild it; `FencedError` if a fill of a later tenure had the store.
    """
    manifest, age = Manifest(), 0.0
    if before is not None:
        _check_tenure(storage, before.document, terms)
        manifest = transitions.continued(before.document, wanted.source, adds=terms.adds)
        age = storage.since_publication(before.document)
    current = None if terms.rebuild else manifest.current
    continues = False
    if current is not None:
        _check_same(storage, current, wanted, terms)
        continues = terms.persistent and may_continue(current, wanted, age=age, max_age=terms.max_age)
    if not continues:
        manifest = transitions.register(manifest, wanted, _serves(manifest, wanted, terms), above=terms.above)
    return TakeoverPlan(replace(manifest, keep=terms.keep, pins_expire=terms.pins_expire), age, continues)


def _check_tenure(storage: FillStorage, manifest: Manifest, terms: FillRequirements) -> None:
    tenure = transitions.tenure(manifest)
    if terms.epoch is not None and terms.epoch < tenure:
        cause = f"a fill of epoch {tenure} has had it, and this one is of epoch {terms.epoch}"
        step = "Another process has this task now; do not start this fill again."
        raise FencedError("open", f"store {storage.names.store}", cause, step)


def _check_same(storage: FillStorage, current: Generation, wanted: StoreDefinition, terms: FillRequirements) -> None:
    """`ConfigurationError` if this fill may not continue or replace the generation."""
    cause = difference(current, wanted)
    if not cause and terms.adds and current.query:
        cause = f"streaming query {current.query} fills it, and numbers its batches"
    if cause:
        advice = _advice(current, wanted, terms)
        raise ConfigurationError("open", f"store {storage.names.store}", cause, advice)


def _advice(current: Generation, wanted: StoreDefinition, terms: FillRequirements) -> str:
    """What to do if there is another store. Its source helps who fills it in the same way, as no other query."""
    replaces = "To replace what is there, give rebuild=True, which needs all rows of the source"
    other_query = BY_QUERY in current.source + wanted.source
    if not wanted.bounded and (other_query or terms.adds is bool(current.query)):
        return f"Check the path of the store: only what has filled it goes on with it. {replaces}."
    if current.source != wanted.source:
        return f"Check the path of the store. If both are one source, give source={current.source!r}. {replaces}."
    return f"Check the path of the store, and the columns. {replaces}."


def _serves(manifest: Manifest, wanted: StoreDefinition, terms: FillRequirements) -> VisibleFrom:
    """From when on readers see a new generation. Readers who have a version keep it until then."""
    if wanted.bounded:
        return VisibleFrom.SEALED
    waits = terms.bootstrap or terms.rebuild or manifest.newest is not None
    return VisibleFrom.BOOTSTRAPPED if waits else VisibleFrom.FIRST_VERSION
