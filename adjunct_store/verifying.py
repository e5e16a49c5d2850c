"""Verify a store: whether its versions can be read, and whether what is in them is where it belongs. Changes nothing.

manifest ─► versions ─► each partition's checkpoint: are its blobs there?
                          └ deep ─► download, compare checksums ─► fetch, scan: keys, values, counts
"""

from __future__ import annotations

import tempfile
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

from adjunct_store.encoding.schema import StoreSchema
from adjunct_store.forms.contents import contents
from adjunct_store.host.cache import HostCache
from adjunct_store.versions.manifest_store import read_manifest
from adjunct_store.versions.names import StoreNames
from azure_account.location import Location
from foundation.errors import ConfigurationError, CorruptError, NotFoundError
from foundation.parallel import concurrent_map
from foundation.report import ProgressCallbacks
from state_backup import VerificationResult as VerifiedCheckpoint
from state_backup import verify as verify_state

if TYPE_CHECKING:
    from collections.abc import Sequence

    from adjunct_store.versions.manifest import Manifest, Version
    from azure_account.container import BlobContainer

_STATES_AT_ONCE = 4
_Place: TypeAlias = "tuple[int, int]"
"""A generation, and a partition of it."""
_Looked: TypeAlias = "dict[str, VerifiedCheckpoint] | str"
"""The checkpoints of a partition's state, by id; or why the state cannot be read."""


@dataclass(frozen=True)
class VerifiedVersion:
    """A version, and all that is wrong with it.

    partitions, files, bytes: that were written. entries: that were counted, None unless it was deep. dropped: the
    version has left the manifest since then, so its faults do not count.
    """

    version: Version
    partitions: int
    files: int
    bytes: int
    entries: int | None
    faults: tuple[str, ...]
    dropped: bool = False

    @property
    def whole(self) -> bool:
        """Whether it can be read, as far as was looked."""
        return not self.faults and not self.dropped


def verify(
    where: Location,
    *,
    deep: bool = False,
    scratch: Path | None = None,
    threads: int = 16,
    report: ProgressCallbacks = ProgressCallbacks(),
) -> tuple[VerifiedVersion, ...]:
    """Verify all versions, newest first. Finds all faults, and changes nothing.

    where: the store.
    deep: download all files and compare their checksums, then read all entries: each key must be in the partition of
    its hash, each value must decode, and the numbers of entries must be those of partition and version. Without it only
    the names and sizes of the blobs are compared.
    scratch: with `deep` a folder with room for the store; by default the temporary folder.
    threads: of the downloads.
    report: gets the files to download, and each piece that was.

    `NotFoundError` if the store does not exist, `CorruptError` if its manifest is damaged.
    """
    container, path = where.open(), where.path
    names = StoreNames(path)
    manifest = _read(container, path)
    places = sorted({(each.generation, partition) for each in manifest.versions for partition, _ in _written(each)})
    look = partial(_look, container, names, deep=deep, report=report)
    looked = dict(zip(places, concurrent_map(look, places, _STATES_AT_ONCE, after_error="wait"), strict=True))
    verified = [_version(each, looked) for each in manifest.versions]
    if deep:
        with tempfile.TemporaryDirectory(prefix="adjunct-store-", dir=scratch) as folder:
            cache = HostCache(container, path, Path(folder), threads=threads)
            reading = _DeepVerifier(cache, manifest)
            verified = [reading.version(each) for each in reversed(verified)][::-1]
    if any(each.faults for each in verified):
        kept = {each.number for each in _read(container, path).versions}
        verified = [each if each.version.number in kept else replace(each, dropped=True) for each in verified]
    return tuple(verified)


def _read(container: BlobContainer, store: str) -> Manifest:
    manifest = read_manifest(container, store)
    if manifest is None:
        cause = "it has no manifest"
        raise NotFoundError("verify", f"store {store}", cause, "Check the name; `ls` shows the stores.")
    return manifest


def _written(version: Version) -> Sequence[tuple[int, str]]:
    """The partitions that have a checkpoint, with it."""
    return [(partition, checkpoint) for partition, checkpoint in enumerate(version.checkpoints) if checkpoint]


def _look(
    container: BlobContainer, names: StoreNames, place: _Place, *, deep: bool, report: ProgressCallbacks
) -> _Looked:
    state = Location.in_container(container, names.state(*place))
    try:
        found = verify_state(state, deep=deep, report=report)
    except (NotFoundError, CorruptError, ConfigurationError) as error:
        return str(error)
    return {str(each.checkpoint.id): each for each in found}


def _version(version: Version, looked: dict[_Place, _Looked]) -> VerifiedVersion:
    files = bytes_ = 0
    faults = []
    for partition, checkpoint in _written(version):
        found = looked[version.generation, partition]
        if isinstance(found, str):
            faults.append(f"partition {partition}: {found}")
            continue
        one = found.get(checkpoint)
        if one is None:
            faults.append(f"partition {partition}: checkpoint {checkpoint} is gone")
            continue
        files, bytes_ = files + one.files, bytes_ + one.bytes
        faults += [f"partition {partition}: {each.path or 'index'}: {each.blob}: {each.cause}" for each in one.faults]
    return VerifiedVersion(version, len(_written(version)), files, bytes_, None, tuple(faults))


@dataclass
class _DeepVerifier:
    """Reads all entries of versions; a checkpoint that several versions have once."""

    cache: HostCache
    manifest: Manifest
    _read: dict[tuple[int, int, str], tuple[int, tuple[str, ...]]] = field(default_factory=dict)

    def version(self, verified: VerifiedVersion) -> VerifiedVersion:
        """With the faults of what is in it; unless files of it are lost or damaged."""
        version = verified.version
        if verified.faults:
            return verified
        faults: list[str] = []
        entries = 0
        for partition, checkpoint in _written(version):
            count, found = self._partition(version, partition, checkpoint)
            entries += count
            faults += found
        if entries != version.entries and not faults:
            faults.append(f"it has {entries:,} entries, and its manifest says {version.entries:,}")
        return replace(verified, entries=entries, faults=tuple(faults))

    def _partition(self, version: Version, partition: int, checkpoint: str) -> tuple[int, tuple[str, ...]]:
        key = version.generation, partition, checkpoint
        if key not in self._read:
            self._read[key] = self._scanned(version, partition, checkpoint)
        return self._read[key]

    def _scanned(self, version: Version, partition: int, checkpoint: str) -> tuple[int, tuple[str, ...]]:
        generation = self.manifest.generation(version.generation)
        assert generation is not None  # noqa: S101 - a manifest names the generations of its versions
        schema = StoreSchema.from_json(generation.schema)
        try:
            with self.cache.open(version.generation, partition, checkpoint) as lease:
                found = contents(lease.directory, schema, partition)
        except (NotFoundError, CorruptError) as error:
            return 0, (f"partition {partition}: {error}",)
        faults = list(found.faults)
        position = found.position
        if position is None:
            faults.append("it has no position")
        else:
            counted, said = (found.entries, found.tombstones), (position.entries, position.tombstones)
            if counted != said:
                faults.append(f"entries and deleted keys are {counted}, its position says {said}")
            if position.batch > version.batch:
                faults.append(f"it is at batch {position.batch}, its version at batch {version.batch}")
        return found.entries, tuple(f"partition {partition}: {each}" for each in faults)
