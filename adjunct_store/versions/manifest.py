"""The manifest of a store: its generations and versions, and who fills it. Pure.

    {"format-version":1, "epoch":3, "writer":"4b…", "write-id":"9f…", "next-generation":2, "next-version":8,
     "keep":3, "pins-expire":604800.0, "since-publication":0.0,
     "generations":[{"number":1, "schema":{…}, "partitions":16, "source":"…", "serves":"first version",
                     "bootstrapped":true, "sealed":false, "query":"7c…"}],
     "versions":[{"number":7, "generation":1, "checkpoints":["1700000000000-123456", "", …], "batches":[41, -1, …],
                  "batch":41, "entries":1000, "bytes":65536, "tombstones":20, "state":"serving",
                  "published":"2026-01-01T00:00:00+00:00"}, …],
     "digest":"…"}

It is changed by conditional writes only, by the functions of `transitions`. Numbers are never used again.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, Any

from azure_account.documents.form import DocumentFormat, sealed
from state_backup.index.checkpoint_id import CheckpointId

if TYPE_CHECKING:
    from collections.abc import Mapping

_FORM = DocumentFormat("Manifest", 1, "Restore the blob, from a soft-deleted or earlier version if there is one.")
PINS_EXPIRE_SECONDS = 7 * 86400.0


class VisibleFrom(Enum):
    """From when on readers get the versions of a generation."""

    FIRST_VERSION = "first version"
    BOOTSTRAPPED = "bootstrapped"
    SEALED = "sealed"


class VersionState(Enum):
    """`SERVING`: new pins may use the version. `RETIRING`: only pins that there are. Then it leaves the manifest."""

    SERVING = "serving"
    RETIRING = "retiring"


@dataclass(frozen=True)
class Generation:
    """One building of the store from its source. schema: as JSON, compared by equality. source: likewise.

    bootstrapped: it has all that the source had when it was begun. sealed: it is whole, nothing follows. query: the id
    of the streaming query that fills it; "" without one.
    """

    number: int
    schema: Mapping[str, Any]
    partitions: int
    source: str
    serves: VisibleFrom = VisibleFrom.FIRST_VERSION
    bootstrapped: bool = False
    sealed: bool = False
    query: str = ""

    @property
    def visible(self) -> bool:
        """Whether readers get its versions."""
        match self.serves:
            case VisibleFrom.FIRST_VERSION:
                return True
            case VisibleFrom.BOOTSTRAPPED:
                return self.bootstrapped
            case VisibleFrom.SEALED:
                return self.sealed


@dataclass(frozen=True)
class Version:
    """What a reader sees: by partition, the id of a checkpoint of `state_backup`; "" if nothing was ever written to it.

    batches: by partition, the batch that wrote its checkpoint; -1 without one. batch: of the fill, up to which it has
    everything. entries, bytes, tombstones: of all partitions. published: for people only.
    """

    number: int
    generation: int
    checkpoints: tuple[str, ...]
    batches: tuple[int, ...]
    batch: int
    entries: int
    bytes: int
    state: VersionState = VersionState.SERVING
    published: str = ""
    tombstones: int = 0


@dataclass(frozen=True)
class Manifest:
    """A store. generations: rising by number. versions: the newest first.

    epoch, writer: of the fill that has the store; each opening has an id of its own. write_id: of the last write.
    keep: how many versions new pins may use. pins_expire: seconds for which a pin can be found.
    since_publication: seconds between the last publication and the last write, by the service's clock.
    """

    epoch: int = 0
    writer: str = ""
    write_id: str = ""
    next_generation: int = 1
    next_version: int = 1
    generations: tuple[Generation, ...] = ()
    versions: tuple[Version, ...] = ()
    keep: int = 3
    pins_expire: float = PINS_EXPIRE_SECONDS
    since_publication: float = 0.0

    @property
    def current(self) -> Generation | None:
        """The generation that is filled: the one that was registered last."""
        return self.generations[-1] if self.generations else None

    @property
    def newest(self) -> Version | None:
        """The version that a new pin gets; None before there is one that readers may see."""
        return next((each for each in self.versions if self.serves(each)), None)

    def generation(self, number: int) -> Generation | None:
        """A generation by its number; None if it is gone."""
        return next((each for each in self.generations if each.number == number), None)

    def version(self, number: int) -> Version | None:
        """A version by its number; None if it is gone."""
        return next((each for each in self.versions if each.number == number), None)

    def newest_of(self, generation: int) -> Version | None:
        """The last version of a generation, visible or not; None before the first."""
        return next((each for each in self.versions if each.generation == generation), None)

    def serves(self, version: Version) -> bool:
        """Whether a new pin may use the version."""
        generation = self.generation(version.generation)
        return version.state is VersionState.SERVING and generation is not None and generation.visible


def to_json(manifest: Manifest) -> bytes:
    """As it is stored."""
    fields = {
        "format-version": _FORM.format_version,
        "epoch": manifest.epoch,
        "writer": manifest.writer,
        "write-id": manifest.write_id,
        "next-generation": manifest.next_generation,
        "next-version": manifest.next_version,
        "keep": manifest.keep,
        "pins-expire": manifest.pins_expire,
        "since-publication": manifest.since_publication,
        "generations": [_generation_fields(each) for each in manifest.generations],
        "versions": [_version_fields(each) for each in manifest.versions],
    }
    return sealed(fields)


def from_json(data: bytes, blob: str) -> Manifest:
    """The inverse. `ConfigurationError` for one of a newer release, `CorruptError` for a damaged one."""
    manifest = _FORM.read(data, blob, _manifest)
    contradiction = _contradiction(manifest)
    if contradiction is not None:
        raise _FORM.damaged(blob, contradiction)
    return manifest


def _contradiction(manifest: Manifest) -> str | None:
    """What is wrong with the numbers: what is not named gets deleted."""
    generations = [each.number for each in manifest.generations]
    versions = [each.number for each in manifest.versions]
    if sorted(set(generations)) != generations or (generations and generations[-1] >= manifest.next_generation):
        return f"its generations are {generations}, and the next one is {manifest.next_generation}"
    if sorted(set(versions), reverse=True) != versions or (versions and versions[0] >= manifest.next_version):
        return f"its versions are {versions}, and the next one is {manifest.next_version}"
    for version in manifest.versions:
        generation = manifest.generation(version.generation)
        sizes = {len(version.checkpoints), len(version.batches)}
        if generation is None or sizes != {generation.partitions}:
            return f"version {version.number} does not fit its generation {version.generation}"
    return None


def _manifest(fields: Mapping[str, Any]) -> Manifest:
    return Manifest(
        epoch=int(fields["epoch"]),
        writer=str(fields["writer"]),
        write_id=str(fields["write-id"]),
        next_generation=int(fields["next-generation"]),
        next_version=int(fields["next-version"]),
        generations=tuple(_generation(each) for each in fields["generations"]),
        versions=tuple(_version(each) for each in fields["versions"]),
        keep=int(fields["keep"]),
        pins_expire=float(fields["pins-expire"]),
        since_publication=float(fields["since-publication"]),
    )


def _generation(fields: Mapping[str, Any]) -> Generation:
    return Generation(
        int(fields["number"]),
        dict(fields["schema"]),
        int(fields["partitions"]),
        str(fields["source"]),
        VisibleFrom(fields["serves"]),
        bool(fields["bootstrapped"]),
        bool(fields["sealed"]),
        str(fields["query"]),
    )


def _generation_fields(generation: Generation) -> dict[str, Any]:
    return {
        "number": generation.number,
        "schema": dict(generation.schema),
        "partitions": generation.partitions,
        "source": generation.source,
        "serves": generation.serves.value,
        "bootstrapped": generation.bootstrapped,
        "sealed": generation.sealed,
        "query": generation.query,
    }


def _version(fields: Mapping[str, Any]) -> Version:
    checkpoints = tuple(map(str, fields["checkpoints"]))
    for checkpoint in filter(None, checkpoints):
        CheckpointId.parse(checkpoint)
    return Version(
        int(fields["number"]),
        int(fields["generation"]),
        checkpoints,
        tuple(map(int, fields["batches"])),
        int(fields["batch"]),
        int(fields["entries"]),
        int(fields["bytes"]),
        VersionState(fields["state"]),
        str(fields["published"]),
        int(fields["tombstones"]),
    )


def _version_fields(version: Version) -> dict[str, Any]:
    return {
        "number": version.number,
        "generation": version.generation,
        "checkpoints": list(version.checkpoints),
        "batches": list(version.batches),
        "batch": version.batch,
        "entries": version.entries,
        "bytes": version.bytes,
        "tombstones": version.tombstones,
        "state": version.state.value,
        "published": version.published,
    }
