"""Stores in Spark: filled from DataFrames, joined and read in tasks. The only part of this package that needs pyspark.

filling/  rows ─ fill_spec ─► changes ─ partitioning ─► a task for each partition: partition_writer ─► fill: a version
          streams, data_sets, and stores above: fills of a stream, of bounded data sets, of several stores
reading/  rows ─ join, lookup, task_reader ─► pinning (driver), task_reader (tasks) ─► view of the version of the batch
"""

from adjunct_store.spark.filling.bootstrap import StoreProgress, wait_until_ready
from adjunct_store.spark.filling.data_sets import fill_data_sets, load_data_set
from adjunct_store.spark.filling.fill import FillResult, fill
from adjunct_store.spark.filling.fill_spec import FillSpec, KeyValueExtractor
from adjunct_store.spark.filling.settings import FillSettings, StreamFillSettings
from adjunct_store.spark.filling.streams import StreamFill, fill_stream
from adjunct_store.spark.reading.join import join, task_reader
from adjunct_store.spark.reading.lookup import lookup
from adjunct_store.spark.reading.pinning import release_pins
from adjunct_store.spark.reading.settings import JoinColumns, JoinSettings, ReadSettings
from adjunct_store.spark.reading.task_reader import StoreReadSpec
from adjunct_store.spark.stores import AdjunctStore, AdjunctStores

__all__ = [
    "AdjunctStore",
    "AdjunctStores",
    "FillResult",
    "FillSettings",
    "FillSpec",
    "JoinColumns",
    "JoinSettings",
    "KeyValueExtractor",
    "ReadSettings",
    "StoreProgress",
    "StoreReadSpec",
    "StreamFill",
    "StreamFillSettings",
    "fill",
    "fill_data_sets",
    "fill_stream",
    "join",
    "load_data_set",
    "lookup",
    "release_pins",
    "task_reader",
    "wait_until_ready",
]
