"""Columns of Spark that several modules need."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

from pyspark.sql import Column
from pyspark.sql import functions as F  # noqa: N812 - as everyone calls it

from foundation.arguments import checked

ColumnOrName: TypeAlias = Column | str


@checked
@dataclass(frozen=True)
class EmitColumns:
    """The columns of rows that `emit` and `run_bounded` write, each by name or as an expression.

    event_time: a timestamp. A row that is older than an earlier row of its task by more than `producer.lateness_ms` may
    be late downstream.
    value: the payload, binary or string; null is a message without a payload.
    partition: the downstream partition, an integer from 0 to `producer.partitions - 1`.
    task: the name or number of the row's task; by default the hash of the whole row decides (Spark has none for maps).
    """

    event_time: ColumnOrName
    value: ColumnOrName = "value"
    partition: ColumnOrName = "partition"
    task: ColumnOrName | None = None


@checked
@dataclass(frozen=True)
class EnvelopeColumns:
    """The columns of envelopes that `reconcile` reads, by name, and whether it counts the rows.

    value: the envelope; null is a user message without a payload.
    partition: of the stream, an integer without nulls.
    position: columns that locate an envelope, for error messages; by default those of `_blob`, `_version` (azureblob
    with `metadataColumns`), `topic` and `offset` (Kafka) that there are.
    counts: compare the rows read with those that the tasks count. That takes the partition of each row through Python.
    """

    value: str = "value"
    partition: str = "partition"
    position: Sequence[str] | None = None
    counts: bool = True


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
