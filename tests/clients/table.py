"""The table of docs/COMPATIBILITY.md."""

from __future__ import annotations

from typing import TYPE_CHECKING

from arrow_avro import CODECS
from tests.clients.ours import COLUMNS
from tests.clients.writing import FIXTURES, NAMES, is_read

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

HEAD = """\
| program | codecs that it reads | but not | codecs that it wrote |
|---|---|---|---|
"""


def table(unread: Mapping[str, Collection[str]]) -> str:
    """A row for each program.

    unread: for each that was run the codecs and types of the sink that it does not read.
    What it wrote is counted if a read gives all of its files with this codec.
    """
    return HEAD + "\n".join(_row(name, unread.get(name)) for name in [*NAMES.values(), *_others(unread)])


def _others(unread: Mapping[str, Collection[str]]) -> list[str]:
    return [name for name in unread if name not in NAMES.values()]


def _row(name: str, lost: Collection[str] | None) -> str:
    if lost is None:
        reads, types = "", ""
    else:
        reads = _codecs([codec for codec in CODECS if codec not in lost])
        types = ", ".join(f"`{column}`" for column in COLUMNS if column in lost)
    return f"| {name} | {reads} | {types} | {_codecs(_written(name))} |"


def _written(name: str) -> list[str]:
    """The codecs of the files that the program wrote, if they are read."""
    files = [file for folder, title in NAMES.items() if title == name for file in (FIXTURES / folder).glob("*.avro")]
    by_codec: dict[str, list[bool]] = {}
    for file in files:
        codec = file.stem.rpartition("-")[2].replace("uncompressed", "null")
        by_codec.setdefault(codec, []).append(is_read(file))
    return [codec for codec in CODECS if all(by_codec.get(codec, [False]))]


def _codecs(names: Collection[str]) -> str:
    return "all" if len(names) == len(CODECS) else ", ".join(names)
