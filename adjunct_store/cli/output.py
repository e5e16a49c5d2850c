"""The output of the command line: tables, sentences, and JSON documents. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias

from azure_account.cli.json_lines import json_line
from azure_account.cli.texts import (
    TableColumn,
    attributes,
    count_text,
    documents,
    files_text,
    in_json,
    in_table,
    new_table,
    plural,
    size_text,
    time_text,
    verification_lines,
)

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from rich.table import Table

    from adjunct_store.cli.reading import FoundPin, FoundStore
    from adjunct_store.verifying import VerifiedVersion
    from adjunct_store.versions.manifest import Generation, Manifest, Version

Entry: TypeAlias = "tuple[Mapping[str, Any], Mapping[str, Any]]"
"""The key columns, and the value columns."""
_PINS_SHOWN = 3
"""Of a version."""


def state_text(manifest: Manifest, version: Version) -> str:
    """`serving`, `retiring`, or `not visible` in a generation that readers do not get yet."""
    hidden = version.state.value == "serving" and not manifest.serves(version)
    return "not visible" if hidden else version.state.value


def _states(manifest: Manifest) -> str:
    states = [state_text(manifest, each) for each in manifest.versions]
    counted = {state: states.count(state) for state in dict.fromkeys(states)}
    return ", ".join(f"{count} {state}" for state, count in counted.items())


STORES: list[TableColumn[FoundStore]] = [
    in_table("store", lambda each: each.store),
    in_table("generation>", lambda each: each.newest and each.newest.generation),
    in_table("version>", lambda each: each.newest and each.newest.number),
    in_table("batch>", lambda each: each.newest and each.newest.batch),
    in_table("entries>", lambda each: each.newest and each.newest.entries, count_text),
    in_table("size>", lambda each: each.newest and each.newest.bytes, size_text),
    in_table(
        "published (UTC)",
        lambda each: each.newest.published if each.newest else None if each.manifest else "unreadable",
        time_text,
    ),
    in_table("versions", lambda each: each.manifest and _states(each.manifest)),
    in_table("pins>", lambda each: None if each.manifest is None else len(each.pins), count_text),
]
_GENERATION: list[TableColumn[Generation]] = [
    in_json("generation", lambda each: each.number),
    *attributes("source", "partitions", "bootstrapped", "sealed", "visible"),
    in_json("schema", lambda each: dict(each.schema)),
]
_PIN = attributes("reader", "batch", "version", "confirmed", "written")
_VERIFIED: list[TableColumn[VerifiedVersion]] = [
    in_json("version", lambda each: each.version.number),
    in_json("generation", lambda each: each.version.generation),
    *attributes("partitions", "files", "bytes", "entries", "whole", "dropped", "faults"),
]


def versions(manifest: Manifest, pins: Sequence[FoundPin]) -> list[TableColumn[Version]]:
    """What `ls` shows of each version of a store."""

    def holders(version: Version) -> str:
        held_by = [f"{pin.reader} (batch {pin.batch})" for pin in pins if pin.version == version.number]
        more = len(held_by) - _PINS_SHOWN
        return ", ".join(held_by[:_PINS_SHOWN]) + (f" and {more} more" if more > 0 else "")

    return [
        TableColumn("version>", "version", lambda each: each.number),
        TableColumn("generation>", "generation", lambda each: each.generation),
        in_json("state", lambda each: each.state.value),
        in_table("state", lambda each: state_text(manifest, each)),
        in_json("serves", manifest.serves),
        TableColumn("batch>", "batch", lambda each: each.batch),
        TableColumn("entries>", "entries", lambda each: each.entries, count_text),
        TableColumn("size>", "bytes", lambda each: each.bytes, size_text),
        TableColumn("published (UTC)", "published", lambda each: each.published, time_text),
        in_table("pinned by", holders),
    ]


def stores_json(container: str, stores: Sequence[FoundStore]) -> dict[str, object]:
    """The document of `ls`. A store whose manifest cannot be read has an `error`."""
    return {"container": container, "stores": [_store_json(each) for each in stores]}


def _store_json(found: FoundStore) -> dict[str, object]:
    manifest = found.manifest
    if manifest is None:
        return {"store": found.store, "error": found.cause}
    errors = ({"error": pin.cause} if pin.cause else {} for pin in found.pins)
    return {
        "store": found.store,
        "epoch": manifest.epoch,
        "keep": manifest.keep,
        "newest": found.newest and found.newest.number,
        "generations": documents(_GENERATION, manifest.generations),
        "versions": documents(versions(manifest, found.pins), manifest.versions),
        "pins": [{**pin, **error} for pin, error in zip(documents(_PIN, found.pins), errors, strict=True)],
    }


def store_parts(store: str, manifest: Manifest, pins: Sequence[FoundPin]) -> list[str | Table]:
    """What `ls` says of one store. Of the pins the oldest is the one that may keep a version for long."""
    ready = "readers get no version yet" if manifest.newest is None else f"readers get version {manifest.newest.number}"
    head = f"{store}: {ready}; epoch {manifest.epoch}, keeps {manifest.keep}"
    parts: list[str | Table] = [head, *map(_generation, manifest.generations)]
    if manifest.versions:
        parts.append(new_table(versions(manifest, pins), manifest.versions, shrinks=7))
    if pins:
        oldest = min(pins, key=lambda pin: pin.written)
        line = f"{plural(len(pins), 'pin')}; the oldest is of {oldest.reader}, {time_text(oldest.written)} UTC."
        parts.append(line)
    return parts


def _generation(generation: Generation) -> str:
    flags = [
        "sealed" if generation.sealed else "",
        "bootstrapped" if generation.bootstrapped else "not bootstrapped",
        "" if generation.visible else "not visible to readers",
    ]
    keys = ", ".join(f"{each['name']} {each['type']}" for each in generation.schema["keys"])
    said = ", ".join(filter(None, flags))
    partitions = plural(generation.partitions, "partition")
    return f"generation {generation.number}: source {generation.source}; {said}; {partitions}; keys {keys}"


def value_lines(value: Mapping[str, Any]) -> list[str]:
    """A value, a line for each column."""
    width = max(map(len, value), default=0)
    return [f"{name:{width}}  {_text(each)}" for name, each in value.items()]


def entries_table(entries: Sequence[Entry]) -> Table:
    """Keys and values."""
    rows = [[*key.items(), *value.items()] for key, value in entries]
    columns = [in_table(name, lambda row, at=at: row[at][1], _text) for at, (name, _) in enumerate(rows[0])]  # type: ignore[misc]
    return new_table(columns, rows)


def verify_lines(store: str, verified: Sequence[VerifiedVersion], *, deep: bool) -> list[str]:
    """What `verify` has found: faults by version, then which are whole."""
    lines = []
    for each in verified:
        name = f"Version {each.version.number} (generation {each.version.generation}, batch {each.version.batch})"
        entries = plural(each.entries or 0, "entry")
        looked = f"all checksums match, {entries} in the right places" if deep else "all there"
        whole = f"{plural(each.partitions, 'partition')}, {files_text(each.files, each.bytes)}, {looked}"
        dropped = "has left the store since then" if each.dropped else ""
        lines += verification_lines(name, each.faults, whole, dropped=dropped)
    return lines or [f"Store {store} has no version yet."]


def verify_json(store: str, verified: Sequence[VerifiedVersion], *, deep: bool) -> dict[str, object]:
    """The document of `verify`, newest version first."""
    return {"store": store, "deep": deep, "versions": documents(_VERIFIED, verified)}


def _text(value: Any) -> str:
    return value if isinstance(value, str) else json_line(value)
