"""The door to Spark: the format `azureblob`."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSource

if TYPE_CHECKING:
    from pyspark.sql.datasource import DataSourceReader, DataSourceStreamWriter, DataSourceWriter
    from pyspark.sql.types import StructType


class AzureBlobDataSource(DataSource):
    """Avro block blobs in Azure Blob Storage, by stream and partition. Options: `docs/OPTIONS.md`.

    Spark builds one of these per query and process. All options are checked here, on the driver, before a task runs.
    """

    @classmethod
    def name(cls) -> str:
        """The name for `format(…)`."""
        return "azureblob"

    def schema(self) -> StructType:
        """The schema of the rows that a read gives."""
        from azureblob_source.source import read_plan, spark_schema  # noqa: PLC0415 - costs only those who read

        return spark_schema(read_plan(self.options, os.environ))

    def reader(self, schema: StructType) -> DataSourceReader:
        """Read a snapshot of a stream, or a view of it."""
        from azureblob_source.source import SnapshotReader, read_plan  # noqa: PLC0415

        return SnapshotReader(read_plan(self.options, os.environ), schema)

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
        """Write a DataFrame: append to streams, or replace them."""
        from azureblob_source.sink import BatchWriter, write_plan  # noqa: PLC0415

        return BatchWriter(write_plan(self.options, schema, os.environ, overwrite=overwrite), overwrite=overwrite)

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:  # noqa: N802
        """Write the micro-batches of a streaming query."""
        from azureblob_source.sink import StreamWriter, write_plan  # noqa: PLC0415

        return StreamWriter(write_plan(self.options, schema, os.environ, overwrite=overwrite), overwrite=overwrite)
