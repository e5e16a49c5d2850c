"""Registers the format `azureblob`: Spark imports every top-level module `pyspark_*` and takes its `DefaultSource`."""

from azureblob_source.datasource import AzureBlobDataSource as DefaultSource

__all__ = ["DefaultSource"]
