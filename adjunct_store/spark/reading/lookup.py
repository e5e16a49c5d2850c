"""Looks keys up in an expression: a column of value structs for columns of keys."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyspark.sql import functions as F  # noqa: N812 - as everyone calls it
from pyspark.sql.types import StructType

from adjunct_store.spark.partitioning import column_of
from adjunct_store.spark.reading.join import picked, values_of
from adjunct_store.spark.reading.pinning import kept, plan
from arrow_avro import spark_of
from azure_account.errors import ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from pyspark.sql import Column

    from adjunct_store.spark.reading.task_reader import PinnedStore
    from adjunct_store.view import Form
    from azure_account.location import Location


def lookup(
    store: Location,
    *keys: Column | str,
    streaming: bool = True,
    version: int | None = None,
    form: Form = "rocksdb",
    cache_dir: Path | str | None = None,
) -> Column:
    """The value of the store's entry of these keys, as a struct; null where there is none.

    keys: columns in the order of the store's keys and of their types; a key of another type is an error in the tasks.
    streaming: whether the column is used in a streaming query; if not, its version is pinned now. Needs Spark 4.1: use
    `join` with Spark 4.0. Other arguments and errors: see `join`.
    """
    planned = plan(store, streaming=streaming, version=version, form=form, cache_dir=cache_dir)
    fields = planned.schema.keys
    if len(keys) != len(fields):
        text = f"lookup is given {len(keys)} columns, store {store} has {len(fields)} keys: {', '.join(fields.names)}."
        raise ConfigurationError(text)
    arrow_udf: Any = getattr(F, "arrow_udf", None)
    if arrow_udf is None:
        raise ConfigurationError("lookup needs Spark 4.1, which has functions over Arrow columns. Use join.")
    values = StructType(list(spark_of(planned.schema.values)))
    columns = [column_of(each) if isinstance(each, str) else each for each in keys]
    found: Column = arrow_udf(_looker(kept(planned), fields, planned.schema.values), values)(*columns)
    return found


def _looker(store: PinnedStore, fields: pa.Schema, values: pa.Schema) -> Callable[..., pa.Array]:
    def find(*columns: pa.Array) -> pa.Array:
        found = values_of(store, columns, fields)
        return pa.StructArray.from_arrays(picked(found, values), fields=list(values), mask=found.is_null())

    # Spark reads how the function is called from its annotations.
    find.__annotations__ = {"columns": pa.Array, "return": pa.Array}
    return find
