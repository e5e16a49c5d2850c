"""Columns of Spark that several modules need."""

from __future__ import annotations

from typing import TypeAlias

from pyspark.sql import Column
from pyspark.sql import functions as F  # noqa: N812 - as everyone calls it

ColumnOrName: TypeAlias = Column | str


def column(name: ColumnOrName) -> Column:
    """The column of this name."""
    return F.col(name) if isinstance(name, str) else name


def required(value: Column, rule: Column, text: str, found: Column | None = None) -> Column:
    """The value, where the rule holds; elsewhere an error with the text, and the text of `found`.

    Spark prints the text in the plan of every failed query, whatever it has failed with, so the text says that.
    """
    shown = F.coalesce(value.cast("string") if found is None else found.cast("string"), F.lit("null"))
    words = F.lit(f"control_messages checks (every plan shows this, failed or not): {text} Found: ")
    return F.when(rule, value).otherwise(F.raise_error(F.concat(words, shown)))


def not_null(name: str) -> Column:
    """A key column; a null in it is an error. With one, pandas would hold the other keys as doubles."""
    key = F.col(name)
    return required(key, key.isNotNull(), f"column {name!r}, which is the partition, has a value in every row.")
