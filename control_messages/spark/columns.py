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

    Spark prints the text in the plan of every failed query, so it must be a rule, which is true of all rows.
    """
    shown = F.lit("") if found is None else F.concat(F.lit(" Found: "), F.coalesce(found.cast("string"), F.lit("null")))
    return F.when(rule, value).otherwise(F.raise_error(F.concat(F.lit(f"control_messages: {text}"), shown)))


def not_null(name: str) -> Column:
    """A key column; a null in it is an error. With one, pandas would hold the other keys as doubles."""
    key = F.col(name)
    return required(key, key.isNotNull(), f"column {name!r}, which is the partition, must not be null in a row.")
