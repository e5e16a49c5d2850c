"""A stream's Iceberg table as pyiceberg finds it in an account in memory."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING, Any

from pyiceberg.catalog.noop import NoopCatalog
from pyiceberg.io import FileIO, InputFile
from pyiceberg.table import StaticTable
from pyiceberg.table.metadata import TableMetadataUtil

if TYPE_CHECKING:
    from azure_account.container import BlobContainer

ROOT = "abfss://container@memory/"


class AccountFiles(FileIO):
    """Blobs of a container, by paths below `ROOT`. What is written is refused."""

    def __init__(self, container: BlobContainer) -> None:
        super().__init__()
        self._container = container

    def new_input(self, location: str) -> InputFile:
        assert location.startswith(ROOT), location
        return _Blob(location, self._container.get(location.removeprefix(ROOT)).data)

    def new_output(self, location: str) -> Any:
        raise AssertionError(location)

    def delete(self, location: Any) -> None:
        raise AssertionError(location)


class _Blob(InputFile):
    def __init__(self, location: str, data: bytes) -> None:
        super().__init__(location)
        self._data = data

    def __len__(self) -> int:
        return len(self._data)

    def exists(self) -> bool:
        return True

    def open(self, seekable: bool = True) -> Any:
        return io.BytesIO(self._data)


def iceberg_table(container: BlobContainer, stream: str = "flights") -> StaticTable:
    """The table as path-based readers find it: by the hint, and what follows."""
    folder = f"{stream}/_iceberg/metadata"
    number = int(container.get(f"{folder}/version-hint.text").data)
    while container.properties(f"{folder}/v{number + 1}.metadata.json") is not None:
        number += 1
    name = f"{folder}/v{number}.metadata.json"
    metadata = TableMetadataUtil.parse_raw(container.get(name).data.decode())
    return StaticTable(("static", name), metadata, f"{ROOT}{name}", AccountFiles(container), NoopCatalog("static"))


def planned(table: StaticTable, **scan: Any) -> list[str]:
    """The names of the blobs that pyiceberg plans to read."""
    return sorted(task.file.file_path.removeprefix(ROOT) for task in table.scan(**scan).plan_files())
