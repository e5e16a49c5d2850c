"""What a fill finds when it opens a store, and what it is about to write: which generation it continues or registers.

    terms + manifest ─► refused: another store, and no `rebuild`          nothing is written
                     └► an opening ─► the caller looks at it ─► one conditional write: the fill has the store

Between the two nobody is fenced yet, so whatever the caller finds wrong leaves the fill alone that has the store.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, TypedDict

from adjunct_store.versions import transitions
from adjunct_store.versions.manifest import PINS_EXPIRE_SECONDS, Manifest, Serves, from_json, to_json
from adjunct_store.versions.names import StoreNames
from adjunct_store.versions.recovery import Action, Found, Recovery, Wanted, recovery, validity
from azure_account.documents.document import DocumentStore, Stored
from azure_account.errors import ConfigurationError, ConflictError, describe
from azure_account.undelete import undelete

if TYPE_CHECKING:
    from collections.abc import Callable

    from typing_extensions import Required

    from adjunct_store.versions.manifest import Generation, Version
    from azure_account.account import BlobContainer
    from azure_account.clock import Clock


class FillTerms(TypedDict, total=False):
    """The keyword arguments of which `Terms` are made; see there."""

    source: Required[str]
    bootstrap: bool
    bounded: bool
    persistent: bool
    keep: int
    max_age: float | None
    rebuild: bool
    adds: bool
    above: int
    pins_expire: float
    threads: int


@dataclass(frozen=True)
class Terms:
    """What a fill asks of the store that it opens.

    source: of the store. A store of another source, or with other columns or partitions, is replaced only with
    `rebuild`.
    bootstrap: readers of a new generation wait until `publish` says that it is bootstrapped.
    bounded: they wait until it is sealed; the next data set may have other columns and partitions.
    persistent: else each opening builds the store again.
    keep: how many versions new pins may use.
    max_age: seconds without a publication after which the store is built again.
    rebuild: it is built again, and may replace another store.
    adds: the rows are changes of what readers see.
    above: the number of a new generation is higher.
    pins_expire: seconds for which the pin of a batch is found; no task may use it for longer than half of that.
    threads: how many blobs a clean-up deletes at the same time.
    """

    source: str
    bootstrap: bool = False
    bounded: bool = False
    persistent: bool = True
    keep: int = 3
    max_age: float | None = None
    rebuild: bool = False
    adds: bool = False
    above: int = 0
    pins_expire: float = PINS_EXPIRE_SECONDS
    threads: int = 16

    def __post_init__(self) -> None:
        if self.keep < 1 or self.pins_expire <= 0:
            text = f"keep is {self.keep}, pins_expire {self.pins_expire}: both must be above 0."
            raise ConfigurationError(text)


@dataclass(frozen=True)
class FillStorage:
    """Where a fill finds its store, and how it reaches it."""

    container: BlobContainer
    names: StoreNames
    threads: int
    clock: Clock
    new_id: Callable[[], str]

    @property
    def manifests(self) -> DocumentStore[Manifest]:
        """Reads and writes the manifest."""
        return DocumentStore(self.container, self.names.manifest, "manifest", to_json, from_json)

    def write(self, changed: Manifest, before: Stored[Manifest] | None) -> Stored[Manifest] | None:
        """Replace the manifest that was read before, with a write id. None if it was changed in between."""
        return self.manifests.write(replace(changed, write_id=self.new_id()), None if before is None else before.etag)

    def since_publication(self, manifest: Manifest) -> float:
        """Seconds since a version was published, if this is the manifest that is stored."""
        return manifest.since_publication + (self.container.age(self.names.manifest) or 0.0)


@dataclass(frozen=True)
class Opening:
    """A store as a fill finds it, before it takes the store over.

    before: the manifest that was read. next: what it becomes, but for who fills it. age: seconds since a version was
    published. plan, reason: what the store needs, and why.
    """

    before: Stored[Manifest] | None
    next: Manifest
    age: float
    plan: Recovery
    reason: str

    @property
    def continues(self) -> bool:
        """Whether the fill goes on with a generation that is there."""
        return self.plan.action is Action.CONTINUE

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

    def take_over(self, storage: FillStorage, query: str) -> Stored[Manifest] | None:
        """Take the store over from other fills, by one write. None if the manifest was changed since it was read.

        query: the id of the streaming query that fills the store; "" without one.
        """
        return storage.write(transitions.taken_over(self.next, storage.new_id(), self.age, query), self.before)


def find_opening(storage: FillStorage, wanted: Wanted, terms: Terms) -> Opening:
    """What a fill would do with the store as it is now. Writes nothing, unless a deleted manifest is undeleted.

    `ConfigurationError` if there is another store, unless the fill is told to rebuild it. `ConflictError` if there is a
    store whose manifest was deleted and cannot be undeleted.
    """
    before = storage.manifests.read() or _undeleted(storage)
    manifest, age = Manifest(), 0.0
    if before is not None:
        manifest = transitions.continued(before.document, wanted.source, adds=terms.adds)
        age = storage.since_publication(before.document)
    found, reason = validity(manifest.current, wanted, age=age, max_age=terms.max_age, rebuild=terms.rebuild)
    if found is Found.VALID and terms.adds and manifest.current is not None and manifest.current.query:
        found, reason = Found.OTHER, f"streaming query {manifest.current.query} fills it, and numbers its batches"
    if found is Found.OTHER:
        step = _advice(manifest.current, wanted)
        raise ConfigurationError(describe("open", f"store {storage.names.store}", reason, step))
    waiting = terms.bootstrap or terms.bounded or terms.rebuild or manifest.newest is not None
    plan = recovery(terms.persistent, found, waiting)
    if plan.action is not Action.CONTINUE:
        manifest = transitions.register(manifest, wanted, _serves(plan, wanted), above=terms.above)
    changed = replace(manifest, keep=terms.keep, pins_expire=terms.pins_expire)
    return Opening(before, changed, age, plan, reason if terms.persistent else f"{reason}; it is not persistent")


def _advice(current: Generation | None, wanted: Wanted) -> str:
    """The next step of who finds another store."""
    replaces = "To replace what is there, give rebuild=True, which needs all rows of the source"
    if current is not None and current.source != wanted.source:
        return f"Check the path of the store. If both are one source, give source={current.source!r}. {replaces}."
    return f"Check the path of the store, and the columns. {replaces}."


def _serves(plan: Recovery, wanted: Wanted) -> Serves:
    if wanted.bounded:
        return Serves.SEALED
    return Serves.BOOTSTRAPPED if plan.force_bootstrap else Serves.FIRST_VERSION


def _undeleted(storage: FillStorage) -> Stored[Manifest] | None:
    """None for a new store. A folder that has blobs and no manifest was a store: numbers would be used again."""
    names = storage.names
    first = next(iter(storage.container.list(names.folder)), None)
    if first is None:
        _check_outside(storage)
        return None
    undelete(storage.container, [names.manifest])
    found = storage.manifests.read()
    if found is None and not names.is_own(first.name):
        cause = f"its folder has other blobs, such as {first.name}"
        raise ConfigurationError(describe("open", f"store {names.store}", cause, "Give it a folder of its own."))
    if found is None:
        cause = f"it has blobs, but {names.manifest} was deleted"
        step = "Bring that blob back, or delete the folder, or choose another name for the store."
        raise ConflictError(describe("open", f"store {names.store}", cause, step))
    return found


def _check_outside(storage: FillStorage) -> None:
    """`ConfigurationError` if a new store would be in the folder of another one."""
    names = storage.names
    levels = names.store.split("/")
    for outer in (StoreNames("/".join(levels[:count])) for count in range(1, len(levels))):
        if storage.container.properties(outer.manifest) is not None:
            cause = f"it would be in the folder of store {outer.store}"
            raise ConfigurationError(describe("make", f"store {names.store}", cause, "Give it a folder of its own."))
