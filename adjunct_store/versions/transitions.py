"""How the manifest changes: each function gives the next manifest, or the same one if nothing changes. Pure.

    register ─► publish … publish ─► (bootstrapped, sealed) ─► the versions of older generations retire
             └ versions beyond `keep` retire ─► no pin uses them ─► drop ─► generations without versions too

A generation that readers may not see yet has at most one version: nobody can have pinned the ones before. It is dropped
when another one is registered, and with it its version.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from adjunct_store.versions.manifest import Generation, Manifest, Version, VersionState, VisibleFrom
from foundation.errors import ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from adjunct_store.versions.recovery import StoreDefinition


@dataclass(frozen=True)
class Publication:
    """What a fill publishes.

    batch: its number.
    checkpoints: of the batch, by partition; the others keep those of the version before.
    entries, bytes, tombstones: of the store with this batch.
    bootstrapped, sealed: whether the generation is.
    replaces: the other partitions are empty from now on.
    published: when, for people only.
    """

    batch: int
    checkpoints: Mapping[int, str]
    entries: int
    bytes: int
    bootstrapped: bool = False
    sealed: bool = False
    replaces: bool = False
    published: str = ""
    tombstones: int = 0


_FILLS_OF_A_TENURE = 1_000_000_000
"""A fill each second for thirty years: a count that overflowed would be taken for a later tenure."""


def tenure(manifest: Manifest) -> int:
    """The highest epoch that a fill was given, such as one of `coordination`; 0 if none was given any."""
    return manifest.epoch // _FILLS_OF_A_TENURE


def taken_over(
    manifest: Manifest, writer: str, since_publication: float, query: str = "", *, epoch: int | None = None
) -> Manifest:
    """Another fill has the store, with the next epoch. query: which fills the current generation; "" if none does.

    epoch: the one that the fill was given. The store's begins with it, and counts the fills: 17 becomes 17000000000.
    """
    least = 0 if epoch is None else epoch * _FILLS_OF_A_TENURE
    changed = replace(
        manifest, epoch=max(manifest.epoch + 1, least), writer=writer, since_publication=since_publication
    )
    current = manifest.current
    return _with_generation(changed, replace(current, query=query)) if current is not None and query else changed


def continued(manifest: Manifest, source: str, *, adds: bool = False) -> Manifest:
    """Generations that a fill from this source drops are gone; then `current` is the one that it may continue.

    Dropped are generations of which readers see nothing: a bounded data set of this source that was not sealed, since
    its source has to be read as a whole; one of another source, if readers see one of this source. adds: also others of
    this source, as the fill adds to what readers see, and may have only some of the rows.
    """
    current = manifest.current
    if current is None or (current.visible and manifest.newest_of(current.number) is not None):
        return manifest
    newest = manifest.newest
    serving = None if newest is None else manifest.generation(newest.generation)
    if current.source == source:
        dropped = adds or current.serves is VisibleFrom.SEALED
    else:
        dropped = serving is not None and serving.source == source
    return continued(_without(manifest, {current.number}), source, adds=adds) if dropped else manifest


def register(manifest: Manifest, wanted: StoreDefinition, serves: VisibleFrom, *, above: int = 0) -> Manifest:
    """A new generation beside the one that readers see. Those of which they do not see a version are abandoned.

    above: its number is higher.
    """
    seen = {each.generation for each in manifest.versions}
    unseen = {each.number for each in manifest.generations if not each.visible or each.number not in seen}
    kept = _without(manifest, unseen)
    number = max(manifest.next_generation, above + 1)
    generation = Generation(number, wanted.schema, wanted.partitions, wanted.source, serves)
    return replace(kept, next_generation=number + 1, generations=(*kept.generations, generation))


def publish(manifest: Manifest, generation: Generation, new: Publication) -> tuple[Manifest, Version]:
    """The next version of the current generation, and what retires because of it.

    A batch that is not above the last one was published before: its version is the newest one, and only `bootstrapped`
    and `sealed` are noted. `ConfigurationError` if the generation is sealed and the batch is a new one, or for
    checkpoints of partitions that it does not have.
    """
    base = manifest.newest_of(generation.number)
    flagged = replace(
        generation,
        bootstrapped=generation.bootstrapped or new.bootstrapped,
        sealed=generation.sealed or new.sealed,
    )
    if base is not None and new.batch <= base.batch:
        return retire(_with_generation(manifest, flagged)), base
    version = _version(manifest, generation, base, new)
    unseen = (
        () if generation.visible else tuple(each for each in manifest.versions if each.generation == flagged.number)
    )
    versions = (version, *(each for each in manifest.versions if each not in unseen))
    published = replace(
        _with_generation(manifest, flagged),
        next_version=version.number + 1,
        versions=versions,
        since_publication=0.0,
    )
    return retire(published), version


def retire(manifest: Manifest) -> Manifest:
    """Versions that new pins may not use any more are retiring."""
    newest = manifest.newest
    if newest is None:
        return manifest
    serving = [each for each in manifest.versions if manifest.serves(each) and each.generation == newest.generation]
    kept = {each.number for each in serving[: manifest.keep]}
    versions = tuple(
        replace(each, state=VersionState.RETIRING) if manifest.serves(each) and each.number not in kept else each
        for each in manifest.versions
    )
    return replace(manifest, versions=versions)


def drop(manifest: Manifest, unused: Collection[int]) -> Manifest:
    """Retiring versions that no pin uses are gone, and generations that have no version and are not current."""
    gone = {each.number for each in manifest.versions if each.state is VersionState.RETIRING and each.number in unused}
    versions = tuple(each for each in manifest.versions if each.number not in gone)
    named = {each.generation for each in versions}
    if manifest.current is not None:
        named.add(manifest.current.number)
    generations = tuple(each for each in manifest.generations if each.number in named)
    return replace(manifest, versions=versions, generations=generations)


def _version(manifest: Manifest, generation: Generation, base: Version | None, new: Publication) -> Version:
    if generation.sealed:
        cause = f"generation {generation.number} is sealed, and batch {new.batch} is a new one"
        raise ConfigurationError(f"{cause}. Build another generation beside it, or rebuild the store.")
    wrong = [each for each in new.checkpoints if not 0 <= each < generation.partitions]
    if wrong or "" in new.checkpoints.values():
        cause = (
            f"partition {min(wrong)} is not one of the {generation.partitions}" if wrong else "a checkpoint has no id"
        )
        raise ConfigurationError(f"Batch {new.batch} cannot be published: {cause}. Give an id for each partition.")
    places = range(generation.partitions)
    before = dict.fromkeys(places, ("", -1))
    if base is not None and not new.replaces:
        before = dict(enumerate(zip(base.checkpoints, base.batches, strict=True)))
    now = before | {place: (checkpoint, new.batch) for place, checkpoint in new.checkpoints.items()}
    return Version(
        manifest.next_version,
        generation.number,
        tuple(now[place][0] for place in places),
        tuple(now[place][1] for place in places),
        new.batch,
        new.entries,
        new.bytes,
        published=new.published,
        tombstones=new.tombstones,
    )


def _with_generation(manifest: Manifest, changed: Generation) -> Manifest:
    generations = tuple(changed if each.number == changed.number else each for each in manifest.generations)
    return replace(manifest, generations=generations)


def _without(manifest: Manifest, generations: Collection[int]) -> Manifest:
    return replace(
        manifest,
        generations=tuple(each for each in manifest.generations if each.number not in generations),
        versions=tuple(each for each in manifest.versions if each.generation not in generations),
    )
