"""Absolute paths within a checkpoint, put right after it was restored to another place.

An operator of `transformWithState` notes in `state/<operator>/_metadata/v2/<batch>` where the schemas of its state are,
by absolute paths, of the directory in which the query ran then. On another machine, or in another directory, Spark
would not find them.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from foundation.errors import CorruptError
from state_backup.local.durable import replace_bytes

if TYPE_CHECKING:
    from pathlib import Path

_PATHS = "stateSchemaFilePaths"
_FOLDER = "_stateSchema"


def relocate(location: Path) -> None:
    """Have the operators of a checkpoint find their schemas in this directory. Idempotent; safe to be killed."""
    for operator in location.glob(f"state/*/{_FOLDER}"):
        for metadata in sorted((operator.parent / "_metadata" / "v2").glob("[0-9]*")):
            _relocate(metadata, operator)


def _relocate(metadata: Path, schemas: Path) -> None:
    version, _, text = metadata.read_text("utf-8").partition("\n")
    try:
        document = json.loads(text)
        for store in document["stateStoreInfo"]:
            store[_PATHS] = [_path_in(schemas, path) for path in store.get(_PATHS, ())]
    except (ValueError, KeyError, TypeError) as error:
        step = "Restore an older checkpoint."
        raise CorruptError("read", str(metadata), f"{error!r}", step) from error
    if document == json.loads(text):
        return
    changed = f"{version}\n{json.dumps(document, ensure_ascii=False, separators=(',', ':'))}"
    metadata.with_name(f".{metadata.name}.crc").unlink(missing_ok=True)  # Spark compares no checksum then
    replace_bytes(metadata, changed.encode())  # not in place: the file may have a second name elsewhere


def _path_in(schemas: Path, path: str) -> str:
    _, found, below = path.rpartition(f"/{_FOLDER}/")
    return f"file:{schemas.absolute()}/{below}" if found else path
