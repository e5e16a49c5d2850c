"""Adjunct stores: what the tasks of a fill and of a read do, and the command line."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from adjunct_store.cli.app import app
from adjunct_store.encoding.schema import StoreSchema
from adjunct_store.versions.manifest_store import open_fill
from adjunct_store.versions.opening import FillRequirements
from tests.adjunct_store import tasks
from tests.features.place import Feature, raise_error

if TYPE_CHECKING:
    from tests.features.place import Place

STORE = "stores/planes"
SCHEMA = StoreSchema(pa.schema([("id", pa.int64())]), pa.schema([("seats", pa.int32())]), partitions=2, ordered=False)
ROWS = {key: {"seats": 100 + key} for key in range(10)}


def fill(place: Place, batches: int = 1) -> int:
    """Open a fill, which takes the store over, and publish versions; returns the entries of the last."""
    location = place.at(STORE)
    opened = open_fill(location, SCHEMA.to_json(), FillRequirements(partitions=2, source="planes", threads=1))
    writer = tasks.BatchWriter(location, opened, SCHEMA, place.folder / "writer")
    first = 0 if opened.base is None else opened.base.batch + 1
    return [writer.run(first + each, ROWS).entries for each in range(batches)][-1]


def read(place: Place) -> Any:
    """What the tasks of batches read; each drops the pins of those before the last one."""
    for batch in range(4):
        found = tasks.read(place.at(STORE), "query", batch, place.folder / "cache")
    return sorted(found.content)


def _lists(place: Place) -> list[tuple[str, int]]:
    found = json.loads(place.command(app, "ls", "{}", "--json"))
    raise_error(found["stores"])
    return [(each["store"], len(each["versions"])) for each in found["stores"]]


def _shows(text: str, *arguments: str) -> Any:
    return lambda place: text in place.command(app, *arguments)


def _get(place: Place) -> bool:
    arguments = ("get", f"{place.container_name}/{STORE}", "3", "--cache-dir", str(place.folder / "got"))
    return "103" in place.command(app, *arguments)


FEATURES = [
    Feature("`adjunct_store`: fills", "fill of a new store", fill, list(range(10)), see=read),
    Feature(
        "`adjunct_store`: fills", "fill that drops versions", lambda place: fill(place, 4), list(range(10)), fill, read
    ),
    Feature("`adjunct_store`: reads in Spark", "read", read, list(range(10)), fill),
    Feature("`adjunct_store`: command line", "`ls` of stores", _lists, [(STORE, 1)], fill),
    Feature("`adjunct_store`: command line", "`get`", _get, True, fill),
    Feature(
        "`adjunct_store`: command line",
        "`verify` of a store",
        _shows("is whole", "verify", f"{{}}/{STORE}", "--deep"),
        True,
        fill,
    ),
]
