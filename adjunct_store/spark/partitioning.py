"""Rows of one store partition in one task of Spark, and no other rows in it."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
from pyspark.sql import functions as F  # noqa: N812 - as everyone calls it
from pyspark.sql.types import StringType

from adjunct_store.encoding.spark_hash import partition_of
from foundation.errors import ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from pyspark.sql import Column, DataFrame
    from pyspark.sql.types import DataType


def column_of(name: str) -> Column:
    """The column of this name, whatever characters it has."""
    return F.col("`" + name.replace("`", "``") + "`")


def as_compared(frame: DataFrame) -> Callable[[str], str]:
    """How the session compares names of columns: as they are, or without their case (`spark.sql.caseSensitive`)."""
    sensitive = frame.sparkSession.conf.get("spark.sql.caseSensitive", "false")
    return str if sensitive == "true" else str.lower


def check_not_collated(name: str, kind: DataType) -> None:
    """`ConfigurationError` for strings that are equal to Spark though their bytes differ: a store finds bytes."""
    text = kind.simpleString()
    if isinstance(kind, StringType) and "collate" in text:
        raise ConfigurationError(f"Key column {name!r} is of type {text}. Cast it: F.col({name!r}).cast('string').")


def store_partition(keys: Sequence[Column], partitions: int) -> Column:
    """The partition of the store that has these keys; as `adjunct_store.encoding.spark_hash.partition_of`."""
    return F.pmod(F.hash(*keys), F.lit(partitions))


def one_task_each(frame: DataFrame, partition: Column, partitions: int) -> DataFrame:
    """The rows, redistributed so that those of a store partition are in one task, and each task has one partition.

    partition: which one, from 0. Spark distributes rows by a hash of its own, so that two partitions could share a task
    while others idle. Hence each is represented by an integer whose hash selects its own task.
    """
    representatives = F.array(*(F.lit(each) for each in _representatives(partitions)))
    return frame.repartition(partitions, representatives[partition])


@lru_cache(maxsize=64)
def _representatives(partitions: int) -> tuple[int, ...]:
    """For each partition an integer of 32 bits that Spark's hash puts there."""
    candidates = 16 * partitions + 64
    while True:
        numbers = pa.array(np.arange(candidates, dtype=np.int32))
        places = partition_of(pa.RecordBatch.from_arrays([numbers], names=["number"]), partitions)
        found, first = np.unique(places, return_index=True)
        if len(found) == partitions:
            return tuple(int(each) for each in first)
        candidates *= 2
