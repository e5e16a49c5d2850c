"""A format that writes into a file which methods Spark calls, and the options that it has given."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pyspark import cloudpickle
from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceStreamReader,
    DataSourceStreamWriter,
    DataSourceWriter,
    InputPartition,
    WriterCommitMessage,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

cloudpickle.register_pickle_by_value(sys.modules[__name__])  # type: ignore[no-untyped-call] # workers cannot import the tests


class _Reader(DataSourceReader):
    def partitions(self) -> list[InputPartition]:
        return [InputPartition(0)]

    def read(self, partition: InputPartition) -> Iterator[tuple[int, str]]:
        yield 1, "a"


class _StreamReader(DataSourceStreamReader):
    def initialOffset(self) -> dict[str, int]:  # noqa: N802
        return {"version": 0}

    def latestOffset(self, *_: object) -> dict[str, int]:  # noqa: N802
        return {"version": 1}

    def partitions(self, start: dict[str, int], end: dict[str, int]) -> list[InputPartition]:
        return [InputPartition(0)]

    def read(self, partition: InputPartition) -> Iterator[tuple[int, str]]:
        yield 1, "a"


class _Writer(DataSourceWriter, DataSourceStreamWriter):
    def write(self, iterator: Iterator[Any]) -> WriterCommitMessage:
        list(iterator)
        return WriterCommitMessage()

    def commit(self, messages: list[WriterCommitMessage | None], *_: object) -> None: ...

    def abort(self, messages: list[WriterCommitMessage | None], *_: object) -> None: ...


class Recorder(DataSource):
    """The format `recorder`."""

    log: Path

    @classmethod
    def name(cls) -> str:
        return "recorder"

    def _note(self, call: str) -> None:
        with self.log.open("a") as file:
            file.write(json.dumps([call, dict(self.options)]) + "\n")

    def schema(self) -> str:
        self._note("schema")
        return "id long, kind string"

    def reader(self, schema: object) -> DataSourceReader:
        self._note("reader")
        return _Reader()

    def streamReader(self, schema: object) -> DataSourceStreamReader:  # noqa: N802
        self._note("streamReader")
        return _StreamReader()

    def writer(self, schema: object, overwrite: bool) -> DataSourceWriter:
        self._note("writer")
        return _Writer()

    def streamWriter(self, schema: object, overwrite: bool) -> DataSourceStreamWriter:  # noqa: N802
        self._note("streamWriter")
        return _Writer()


def recorder(log: Path) -> type[DataSource]:
    """The format `recorder`, which writes its calls into `log`."""
    return type("RecorderInto", (Recorder,), {"log": log})
