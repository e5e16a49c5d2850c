"""A table of the programs that read and write Avro, and what they and this project make of each other's files.

python -m tests.clients                the table of docs/COMPATIBILITY.md, of the programs that are there
python -m tests.clients build [NAME]   builds the programs in `.clients`, or in the folder AVRO_CLIENTS names
python -m tests.clients write          writes tests/fixtures/clients again with the programs that were built
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

from tests.clients.build import build
from tests.clients.ours import write_all
from tests.clients.readers import readers
from tests.clients.reading import unread
from tests.clients.table import table
from tests.clients.writing import write_fixtures


def main(words: list[str]) -> None:
    match words:
        case ["build", *names]:
            build(names)
        case ["write"]:
            write_fixtures()
        case _:
            print(table(_unread()))


def _unread() -> dict[str, set[str]]:
    """For each program that is there."""
    with tempfile.TemporaryDirectory() as folder:
        write_all(Path(folder))
        return {one.name: set(unread(one, Path(folder))) for one in readers() if one.missing() is None}


if __name__ == "__main__":
    main(sys.argv[1:])
