"""Waits until a store can be read."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from adjunct_store.versions.manifest_store import read_manifest
from azure_account.clock import SYSTEM_CLOCK
from azure_account.errors import ConfigurationError, TransientError, describe

if TYPE_CHECKING:
    from collections.abc import Callable

    from adjunct_store.versions.manifest import Manifest, Version
    from azure_account.clock import Clock
    from azure_account.location import Location


@dataclass(frozen=True)
class FillProgress:
    """How far a store is. generation: the one that is being filled, None if no fill has begun.

    batch, entries, bytes: of its last version; -1 and 0 before the first. ready: whether readers get a version.
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


def wait_until_ready(
    store: Location,
    *,
    timeout: float,
    bootstrapped: bool = True,
    progress: Callable[[FillProgress], object] = lambda _: None,
    poll: float = 1.0,
    clock: Clock = SYSTEM_CLOCK,
) -> Version:
    """The version that readers get now; waits for the first one, at most `timeout` seconds.

    bootstrapped: wait until it is of a fill that has read all that its source had when it began, as those with
    `bootstrap`, those of batch DataFrames and data sets have; else any version is enough. progress: is called whenever
    there is progress. poll: seconds between two looks. `TransientError` after the time limit, with what was seen: a
    storage service that does not answer meanwhile is waited for too, and one that never does for twice the time.
    """
    if timeout < 0 or poll <= 0:
        raise ConfigurationError(f"timeout is {timeout} and poll is {poll} seconds: give 0 or more, and more than 0.")
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
            step = (
                "See that its fill runs, or wait longer; a fill without bootstrap is waited for by bootstrapped=False."
            )
            raise TransientError(describe("wait for", f"store {store}", str(last), step, elapsed=elapsed))
        clock.sleep(min(poll, timeout - elapsed))


def progress_of(manifest: Manifest | None) -> FillProgress:
    """What a manifest says of the generation that is being filled."""
    current = None if manifest is None else manifest.current
    if manifest is None or current is None:
        return FillProgress(None, -1, 0, 0, bootstrapped=False, ready=False)
    ready = manifest.newest is not None
    version = manifest.newest_of(current.number)
    if version is None:
        return FillProgress(current.number, -1, 0, 0, bootstrapped=current.bootstrapped, ready=ready)
    sizes = version.batch, version.entries, version.bytes
    return FillProgress(current.number, *sizes, bootstrapped=current.bootstrapped, ready=ready)


def _ready(manifest: Manifest | None, *, bootstrapped: bool) -> Version | None:
    version = None if manifest is None else manifest.newest
    if manifest is None or version is None:
        return None
    generation = manifest.generation(version.generation)
    whole = generation is not None and (generation.bootstrapped or generation.sealed)
    return version if whole or not bootstrapped else None
