"""The entry point for Spark: the format `azureblob`."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSource

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from pyspark.sql.datasource import (
        DataSourceReader,
        DataSourceStreamReader,
        DataSourceStreamWriter,
        DataSourceWriter,
    )
    from pyspark.sql.types import StructType

    from arrow_avro import AvroSchema
    from azureblob_source.log.stream_notes import LogFacts
    from azureblob_source.read.source import ReadPlan


class AzureBlobDataSource(DataSource):
    """Streams of Avro block blobs in Azure Blob Storage. Options: `docs/OPTIONS.md`.

    Spark creates one per query and process. All options are validated on the driver, before a task runs.
    """

    _inferred: AvroSchema | None = None
    """The schema that `schema` returned for rows. Spark keeps this object until the query starts."""
    _facts: LogFacts | None = None
    """What `schema` has found of the log, so that a batch read need not search for it again."""

    @classmethod
    def name(cls) -> str:
        """The name to use in `format(…)`."""
        return "azureblob"

    def schema(self) -> StructType:
        """The schema of the rows that a read returns."""
        from azureblob_source.read.source import read_plan, spark_schema  # noqa: PLC0415 - writes need not load it

        plan = read_plan(self.options, os.environ)
        if plan.options.adopt_folder:
            from azureblob_source.adoption.reads import adopt_for_schema  # noqa: PLC0415 - few reads adopt

            adopt_for_schema(plan)
        found = spark_schema(plan)
        if plan.options.view == "data":
            self._inferred = plan.reader_schema
            if plan.options.avro_schema is None:  # else nothing was looked up, and the SDK need not be loaded
                self._facts = plan.log.facts()
        return found

    def reader(self, schema: StructType) -> DataSourceReader:
        """Read a snapshot of a stream, or a view of it."""
        from azureblob_source.read.source import FilteringReader, SnapshotReader, read_plan  # noqa: PLC0415

        plan = read_plan(self.options, os.environ, streaming=False, facts=self._facts)
        wants_filters = plan.options.push_filters and _filters_are_pushed()
        return FilteringReader(plan, schema) if wants_filters else SnapshotReader(plan, schema)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802
        """Follow a stream, or a view of it."""
        from azureblob_source.read.stream_source import stream_reader  # noqa: PLC0415

        return stream_reader(self.options, schema, os.environ, self._inferred, _discovery)

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
        """Write a DataFrame: append to streams, or overwrite one."""
        from azureblob_source.write.planning import prepare_write  # noqa: PLC0415
        from azureblob_source.write.sink import BatchWriter  # noqa: PLC0415

        return BatchWriter(prepare_write(self.options, schema, os.environ, overwrite=overwrite), overwrite=overwrite)

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:  # noqa: N802
        """Write the micro-batches of a streaming query."""
        from azureblob_source.write.planning import prepare_write  # noqa: PLC0415
        from azureblob_source.write.sink import StreamWriter  # noqa: PLC0415

        plan = prepare_write(self.options, schema, os.environ, overwrite=overwrite, streaming=True)
        return StreamWriter(plan, overwrite=overwrite)


def _discovery(plan: ReadPlan) -> Callable[[], Mapping[str, object]] | None:
    """What finds new blobs before each trigger of a streaming read; None if it does not adopt its folder."""
    if not plan.options.adopt_folder:
        return None
    from azureblob_source.adoption.reads import adopter_of  # noqa: PLC0415 - few reads adopt

    adopter = adopter_of(plan)
    return lambda: adopter.discover().document


def _filters_are_pushed() -> bool:
    """Whether Spark calls `reader` to push filters down to it.

    With `spark.sql.python.filterPushdown.enabled` off, the default, Spark refuses a reader that accepts filters. A data
    source cannot read this setting: only the module of the caller shows whether filters are pushed.
    """
    caller = sys._getframe(2).f_globals.get("__name__", "")  # noqa: SLF001 - Spark offers no other way
    return str(caller).endswith("data_source_pushdown_filters")
