"""The output of the command line for people: tables and sentences. Pure."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Any, TypeAlias

from azure_account.cli.console import printable
from azure_account.cli.json_lines import json_line
from azure_account.cli.texts import NONE, count_text, new_table, plural, shrinking, size_text, time_text

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from rich.table import Table

    from adjunct_store.cli.reading import FoundPin, FoundStore
    from adjunct_store.verifying import VerifiedVersion
    from adjunct_store.versions.manifest import Generation, Manifest, Version

Entry: TypeAlias = "tuple[Mapping[str, Any], Mapping[str, Any]]"
"""The key columns, and the value columns."""
_FAULTS_SHOWN = 100
_PINS_SHOWN = 3
"""Of a version."""


def stores_table(stores: Sequence[FoundStore]) -> Table:
    """The table of `ls` for several stores: what readers get now, how many versions there are, and who holds some."""
    table = new_table(
        "store", "generation>", "version>", "batch>", "entries>", "size>", "published (UTC)", "versions", "pins>"
    )
    for each in stores:
        manifest = each.manifest
        if manifest is None:
            table.add_row(one_line(each.store), *[NONE] * 5, "unreadable", NONE, NONE)
            continue
        newest = manifest.newest
        table.add_row(
            one_line(each.store),
            NONE if newest is None else str(newest.generation),
            NONE if newest is None else str(newest.number),
            NONE if newest is None else str(newest.batch),
            NONE if newest is None else count_text(newest.entries),
            NONE if newest is None else size_text(newest.bytes),
            NONE if newest is None else published(newest),
            _states(manifest),
            count_text(len(each.pins)),
        )
    return shrinking(table, 7)


def store_lines(store: str, manifest: Manifest) -> list[str]:
    """What `ls` says of one store above its versions."""
    generations = [_generation(each) for each in manifest.generations]
    ready = "readers get no version yet" if manifest.newest is None else f"readers get version {manifest.newest.number}"
    return [one_line(f"{store}: {ready}; epoch {manifest.epoch}, keeps {manifest.keep}"), *map(one_line, generations)]


def versions_table(manifest: Manifest, pins: Sequence[FoundPin]) -> Table:
    """The table of `ls` for one store. Of the columns only the readers are shortened."""
    table = new_table("version>", "generation>", "state", "batch>", "entries>", "size>", "published (UTC)", "pinned by")
    for each in manifest.versions:
        holders = [pin for pin in pins if pin.version == each.number]
        table.add_row(
            str(each.number),
            str(each.generation),
            state_text(manifest, each),
            str(each.batch),
            count_text(each.entries),
            size_text(each.bytes),
            published(each),
            one_line(_holders(holders)) or NONE,
        )
    return shrinking(table, 7)


def _holders(pins: Sequence[FoundPin]) -> str:
    some = ", ".join(f"{pin.reader} (batch {pin.batch})" for pin in pins[:_PINS_SHOWN])
    return some if len(pins) <= _PINS_SHOWN else f"{some} and {len(pins) - _PINS_SHOWN} more"


def pins_line(pins: Sequence[FoundPin]) -> list[str]:
    """The oldest pin, as it is the one that may keep a version for long; nothing without pins."""
    if not pins:
        return []
    oldest = min(pins, key=lambda pin: pin.written)
    line = f"{plural(len(pins), 'pin')}; the oldest is of {oldest.reader}, {time_text(oldest.written)} UTC."
    return [one_line(line)]


def state_text(manifest: Manifest, version: Version) -> str:
    """`serving`, `retiring`, or `not visible` in a generation that readers do not get yet."""
    if version.state.value == "serving" and not manifest.serves(version):
        return "not visible"
    return version.state.value


def value_lines(value: Mapping[str, Any]) -> list[str]:
    """A value, a line for each column."""
    width = max(map(len, value), default=0)
    return [one_line(f"{name:{width}}  {_text(each)}") for name, each in value.items()]


def entries_table(entries: Sequence[Entry]) -> Table:
    """Keys and values."""
    key, value = entries[0]
    table = new_table(*map(one_line, [*key, *value]))
    for each_key, each_value in entries:
        table.add_row(*(one_line(_text(each)) for each in [*each_key.values(), *each_value.values()]))
    return table


def verify_lines(store: str, verified: Sequence[VerifiedVersion], *, deep: bool) -> list[str]:
    """What `verify` has found: faults by version, then which are whole."""
    lines = []
    for each in verified:
        name = f"Version {each.version.number} (generation {each.version.generation}, batch {each.version.batch})"
        if each.dropped:
            lines.append(f"{name} has left the store since then.")
        elif each.whole:
            size = f"{plural(each.partitions, 'partition')}, {plural(each.files, 'file')} ({size_text(each.bytes)})"
            entries = plural(each.entries or 0, "entry")
            looked = f"all checksums match, {entries} in the right places" if deep else "all there"
            lines.append(f"{name} is whole: {size}, {looked}.")
        else:
            lines.append(f"{name} is not whole: {plural(len(each.faults), 'fault')}.")
            lines += [one_line(f"  {fault}") for fault in each.faults[:_FAULTS_SHOWN]]
            if len(each.faults) > _FAULTS_SHOWN:
                lines.append(f"  … and {len(each.faults) - _FAULTS_SHOWN:,} more (--json has all)")
    return lines or [one_line(f"Store {store} has no version yet.")]


def cleaned_line(directory: Path, freed: int, left: int) -> str:
    """What `clean-cache` has done; in bytes."""
    in_use = f"{size_text(left)} are in use" if left else "nothing is left"
    return one_line(f"Freed {size_text(freed)} in {directory}; {in_use}.")


def one_line(text: str) -> str:
    """The text on one line, without control characters."""
    return printable(text.replace("\n", "⏎").replace("\t", " "))


def published(version: Version) -> str:
    """When a version was published, in UTC; a text that is not a time is returned as it is."""
    try:
        return time_text(datetime.fromisoformat(version.published))
    except ValueError:
        return one_line(version.published)


def _states(manifest: Manifest) -> str:
    states = [state_text(manifest, each) for each in manifest.versions]
    counted = {state: states.count(state) for state in dict.fromkeys(states)}
    return ", ".join(f"{count} {state}" for state, count in counted.items()) or NONE


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


def _text(value: Any) -> str:
    return value if isinstance(value, str) else json_line(value)
