"""How rows of a DataFrame become changes of a store: which columns are keys, values and order, and what deletes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

import pyarrow as pa

from foundation.arguments import Count, checked
from foundation.errors import ConfigurationError

ExtractorFunction: TypeAlias = Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]


@checked
@dataclass(frozen=True)
class KeyValueExtractor:
    """Makes keys and values of rows that do not have them as columns, such as encoded messages.

    function: what `DataFrame.mapInArrow` takes. It runs in the tasks and must be picklable.
    schema: of the rows that it returns, as DDL, such as `tailnum string, seats int`. The `FillSpec` names its columns.
    """

    function: ExtractorFunction
    schema: str


@checked
@dataclass(frozen=True)
class FillSpec:
    """How rows become changes of a store.

    keys: the key columns, in the order of the store's keys: prefix scans begin with the first.
    values: the value columns, by default all that are neither a key, `order_by` nor `then_by`; or the name of one
    struct column, whose fields are the values, and which is null in a row that deletes its key.
    order_by: an integral or timestamp column. Of the rows of a key the one with the highest value counts, whatever the
    order in which they arrive. By default the last batch that has a key counts.
    then_by: one or more such columns. Of the rows of a key in one batch with equal `order_by` the one with the highest
    values counts. Give columns that rise in the order of the source, such as an offset: then a store is the same
    however its source is divided into batches. They are not stored. By default such rows must be equal.
    delete_when: a Boolean SQL expression over the columns of a row, such as `op = 'D'`. The row deletes its key if it
    is true. By default only a null in a struct column of `values` deletes.
    extractor: makes these columns of rows that do not have them.
    partitions: how many the store has; each is written by one task.
    null_keys: what happens if a key column is null: `fail`, or `skip`, which leaves the row out and counts it.

    `ConfigurationError` for a value that is not possible.
    """

    keys: Sequence[str]
    values: str | Sequence[str] | None = None
    order_by: str | None = None
    then_by: str | Sequence[str] | None = None
    delete_when: str | None = None
    extractor: KeyValueExtractor | None = None
    partitions: Count = 1
    null_keys: Literal["fail", "skip"] = "fail"

    def __post_init__(self) -> None:
        if not self.keys:
            raise ConfigurationError('Argument keys of FillSpec is empty: give a list of columns, such as ["id"].')
        if len(set(self.keys)) < len(self.keys):
            raise ConfigurationError(f"Argument keys: {list(self.keys)} has a column twice. Name each once.")
        if not isinstance(self.values, str) and len(set(self.values or ())) < len(self.values or ()):
            raise ConfigurationError(f"Argument values: {list(self.values or ())} has a column twice. Name each once.")

    @property
    def ties(self) -> tuple[str, ...]:
        """The columns of `then_by`."""
        if self.then_by is None:
            return ()
        return (self.then_by,) if isinstance(self.then_by, str) else tuple(self.then_by)
