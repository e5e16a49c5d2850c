"""Stores in Spark: filled from DataFrames, joined and read in tasks. The only part of this package that needs pyspark.

rows ─ fill_spec ─► changes ─ partitioning ─► a task for each partition: partition_writer ─► filling: a version
streams, data_sets, stores: fills of a stream, of bounded data sets, of several stores
rows ─ join, lookup, task_reader ─► pinning (driver), task_reader (tasks) ─► view of the version of the batch
"""

from adjunct_store.location import StoreLocation
from adjunct_store.spark.bootstrap import FillProgress, wait_until_ready
from adjunct_store.spark.data_sets import fill_data_sets, load_data_set
from adjunct_store.spark.fill_spec import FillSpec, KeyValueExtractor
from adjunct_store.spark.filling import Filled, fill
from adjunct_store.spark.lookup import lookup
from adjunct_store.spark.pinning import release_pins
from adjunct_store.spark.reading import join, task_reader
from adjunct_store.spark.stores import AdjunctStore, AdjunctStores
from adjunct_store.spark.streams import StoreFill, fill_stream
from adjunct_store.spark.task_reader import PinnedStore

__all__ = [
    "AdjunctStore",
    "AdjunctStores",
    "FillProgress",
    "FillSpec",
    "Filled",
    "KeyValueExtractor",
    "PinnedStore",
    "StoreFill",
    "StoreLocation",
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
