"""Waits until a store can be read."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from adjunct_store.versions.manifest import Version
from adjunct_store.versions.manifest_store import read_manifest
from azure_account.location import Location
from foundation.arguments import Seconds, Wait, checked
from foundation.clock import SYSTEM_CLOCK, Clock
from foundation.errors import TransientError

if TYPE_CHECKING:
    from adjunct_store.versions.manifest import Manifest


@dataclass(frozen=True)
class StoreProgress:
    """How far a store is filled.

    generation: the generation that is being filled; None if no fill has begun.
    batch: of its last version; -1 before the first.
    entries: of its last version; 0 before the first.
    bytes: of its last version; 0 before the first.
    bootstrapped: whether all that the source had at the start is published.
    ready: whether readers get a version.
    """

    generation: int | None
    batch: int
    entries: int
    bytes: int
    bootstrapped: bool
    ready: bool

    def __str__(self) -> str:
        if self.generation is None:
            return "no fill has begun"
        state = "bootstrapped" if self.bootstrapped else "not bootstrapped"
        batches = "no batch" if self.batch < 0 else f"batches up to {self.batch}"
        return f"generation {self.generation}, {batches}, {self.entries} entries, {self.bytes} bytes, {state}"


@checked
def wait_until_ready(
    store: Location,
    *,
    timeout: Wait,
    bootstrapped: bool = True,
    progress: Callable[[StoreProgress], object] = lambda _: None,
    poll: Seconds = 1.0,
    clock: Clock = SYSTEM_CLOCK,
) -> Version:
    """Wait until readers get a version, and return it.

    store: where the store is, or will be.
    timeout: seconds, from 0.
    bootstrapped: wait for a version with all that the source had when the fill began. A `fill`, a data set and a
    `fill_stream` with `bootstrap` publish one. False waits for any version.
    progress: is called whenever the store has progressed.
    poll: seconds between two requests, above 0.
    clock: measures the time.

    `TransientError` after `timeout`, with the last progress. The wait continues while the storage service does not
    answer; if it never answers, the error comes after up to twice the time.
    """
    begun, last = clock.monotonic(), None
    container = store.within(max(timeout, poll)).open()
    while True:
        outage: TransientError | None = None
        try:
            manifest = read_manifest(container, store.path)
        except TransientError as error:
            outage = error
        else:
            seen = progress_of(manifest)
            if seen != last:
                progress(seen)
                last = seen
            found = _ready(manifest, bootstrapped=bootstrapped)
            if found is not None:
                return found
        elapsed = clock.monotonic() - begun
        if elapsed >= timeout:
            if outage is not None:
                raise outage
            step = "Check that its fill runs, or wait longer. For a fill without bootstrap give bootstrapped=False."
            raise TransientError("wait for", f"store {store}", str(last), step, elapsed=elapsed)
        clock.sleep(min(poll, timeout - elapsed))


def progress_of(manifest: Manifest | None) -> StoreProgress:
    """What a manifest says of the generation that is being filled."""
    current = None if manifest is None else manifest.current
    if manifest is None or current is None:
        return StoreProgress(None, -1, 0, 0, bootstrapped=False, ready=False)
    ready = manifest.newest is not None
    version = manifest.newest_of(current.number)
    if version is None:
        return StoreProgress(current.number, -1, 0, 0, bootstrapped=current.bootstrapped, ready=ready)
    sizes = version.batch, version.entries, version.bytes
    return StoreProgress(current.number, *sizes, bootstrapped=current.bootstrapped, ready=ready)


def _ready(manifest: Manifest | None, *, bootstrapped: bool) -> Version | None:
    version = None if manifest is None else manifest.newest
    if manifest is None or version is None:
        return None
    generation = manifest.generation(version.generation)
    whole = generation is not None and (generation.bootstrapped or generation.sealed)
    return version if whole or not bootstrapped else None
