"""The output of the command line for programs: JSON documents. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from adjunct_store.cli.reading import FoundPin, FoundStore
    from adjunct_store.verifying import VerifiedVersion
    from adjunct_store.versions.manifest import Generation, Manifest, Version


def stores_json(container: str, stores: Sequence[FoundStore]) -> dict[str, object]:
    """The document of `ls`. A store whose manifest cannot be read has an `error`."""
    return {"container": container, "stores": [_store(each) for each in stores]}


def get_json(
    store: str, version: Version, key: Mapping[str, Any], value: Mapping[str, Any] | None
) -> dict[str, object]:
    """The document of `get` for one key. `value` is null if there is none."""
    return {"store": store, "version": version.number, "key": dict(key), "value": value}


def scan_json(
    store: str, version: Version, entries: Sequence[tuple[Mapping[str, Any], Mapping[str, Any]]], *, more: bool
) -> dict[str, object]:
    """The document of `get --prefix`. more: whether the limit has left entries out."""
    found = [{"key": key, "value": value} for key, value in entries]
    return {"store": store, "version": version.number, "entries": found, "more": more}


def verify_json(store: str, verified: Sequence[VerifiedVersion], *, deep: bool) -> dict[str, object]:
    """The document of `verify`, newest version first."""
    return {
        "store": store,
        "deep": deep,
        "versions": [
            {
                "version": each.version.number,
                "generation": each.version.generation,
                "partitions": each.partitions,
                "files": each.files,
                "bytes": each.bytes,
                "entries": each.entries,
                "whole": each.whole,
                "dropped": each.dropped,
                "faults": list(each.faults),
            }
            for each in verified
        ],
    }


def cleaned_json(directory: Path, freed: int, left: int) -> dict[str, object]:
    """The document of `clean-cache`; in bytes."""
    return {"cacheDir": str(directory), "freedBytes": freed, "leftBytes": left}


def _store(found: FoundStore) -> dict[str, object]:
    manifest = found.manifest
    if manifest is None:
        return {"store": found.store, "error": found.cause}
    newest = manifest.newest
    return {
        "store": found.store,
        "epoch": manifest.epoch,
        "keep": manifest.keep,
        "newest": None if newest is None else newest.number,
        "generations": [_generation(each) for each in manifest.generations],
        "versions": [_version(manifest, each) for each in manifest.versions],
        "pins": [_pin(each) for each in found.pins],
    }


def _generation(generation: Generation) -> dict[str, object]:
    return {
        "generation": generation.number,
        "source": generation.source,
        "partitions": generation.partitions,
        "bootstrapped": generation.bootstrapped,
        "sealed": generation.sealed,
        "visible": generation.visible,
        "schema": dict(generation.schema),
    }


def _version(manifest: Manifest, version: Version) -> dict[str, object]:
    return {
        "version": version.number,
        "generation": version.generation,
        "state": version.state.value,
        "serves": manifest.serves(version),
        "batch": version.batch,
        "entries": version.entries,
        "bytes": version.bytes,
        "published": version.published,
    }


def _pin(pin: FoundPin) -> dict[str, object]:
    return {
        "reader": pin.reader,
        "batch": pin.batch,
        "version": pin.version,
        "confirmed": pin.confirmed,
        "written": pin.written.isoformat(),
        **({"error": pin.cause} if pin.cause else {}),
    }
