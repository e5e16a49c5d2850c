"""A stream with an Iceberg table in an account in memory, and the table as pyiceberg finds it."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyiceberg.catalog.noop import NoopCatalog
from pyiceberg.io import FileIO, InputFile
from pyiceberg.table import StaticTable
from pyiceberg.table.metadata import TableMetadataUtil

from azureblob_source.log.commit_log import CommitLog
from azureblob_source.log.entry import Transaction
from azureblob_source.log.live_state import blobs_live_at
from tests.azureblob_source.write.sink_rows import committer, plan_of, stage_rows

if TYPE_CHECKING:
    from azure_account.container import BlobContainer
    from azure_account.memory.account import MemoryAccount
    from azureblob_source.write.batch import BatchCommitter

ROOT = "abfss://container@memory/"
FLIGHTS = pa.schema([("id", pa.int32()), ("origin", pa.string())])


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


class TableWriter:
    """A driver that writes a batch of one blob at a time, each with a checkpoint and a table."""

    def __init__(self, account: MemoryAccount, schema: pa.Schema = FLIGHTS, seed: int = 0, **options: Any) -> None:
        self.container = account.container("container")
        given = {"icebergTable": "true", "checkpointInterval": "1", **options}
        self.schema, self.plan = schema, plan_of(schema, **given)
        self.driver: BatchCommitter = committer(self.container, self.plan, seed)

    def write(self, batch: int, *, overwrite: bool = False) -> None:
        """Write batch number `batch`, of one row."""
        values = {"int32": batch, "string": "EWR", "double": 0.5, "int64": batch}
        columns = [pa.array([values[str(each.type)]], each.type) for each in self.schema]
        self.write_rows(pa.RecordBatch.from_arrays(columns, schema=self.schema), batch, overwrite=overwrite)

    def write_rows(self, rows: pa.RecordBatch, batch: int, *, overwrite: bool = False) -> None:
        """Write rows as batch number `batch`."""
        staged = stage_rows(self.container, self.plan, [rows], seed=batch)
        self.driver.commit([staged], None if overwrite else Transaction("q", batch), overwrite=overwrite)

    @property
    def log(self) -> CommitLog:
        """The log as a new process finds it."""
        return CommitLog(self.container, "flights", readers=1)

    def live(self) -> list[str]:
        """The blobs that the log says are live."""
        log = self.log
        return sorted(blob.name for blob in blobs_live_at(log, head.version)) if (head := log.refresh()) else []
