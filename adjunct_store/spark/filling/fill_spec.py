"""How rows of a DataFrame become changes of a store: which columns are keys, values and order, and what deletes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, TypeAlias, TypedDict

import pyarrow as pa

from azure_account.errors import ConfigurationError

if TYPE_CHECKING:
    from typing_extensions import Required

ExtractorFunction: TypeAlias = Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]

NULL_KEYS = ("fail", "skip")


@dataclass(frozen=True)
class KeyValueExtractor:
    """Makes keys and values of rows that do not have them as columns, such as of a message in some encoding.

    function: what `DataFrame.mapInArrow` takes; it runs in the tasks and must be picklable. schema: of the rows that it
    returns, as DDL, such as `tailnum string, seats int`. The columns of the fill are names of that schema.
    """

    function: ExtractorFunction
    schema: str


class FillColumns(TypedDict, total=False):
    """The keyword arguments of which a `FillSpec` is made; see there."""

    keys: Required[Sequence[str]]
    values: str | Sequence[str] | None
    order_by: str | None
    then_by: str | Sequence[str] | None
    delete_when: str | None
    extractor: KeyValueExtractor | None
    partitions: int
    null_keys: Literal["fail", "skip"]


@dataclass(frozen=True)
class FillSpec:
    """How rows become changes of a store.

    keys: the key columns, in the order of the store's keys: prefix scans begin with the first.
    values: the value columns, by default all that are neither a key, `order_by` nor `then_by`; or the name of one
    struct column, whose fields are the values, and which is null in a row that deletes its key.
    order_by: an integral or timestamp column: of the rows of a key the one with the highest value counts, whatever the
    order in which they arrive. Without it, the last batch that has a key counts.
    then_by: one or more such columns, for rows of a key in one batch that `order_by` does not tell apart: the one with
    the highest values counts. Give columns that rise in the order in which the source has its rows, such as an offset:
    then a store is the same however its source is divided into batches. They are not stored.
    delete_when: a Boolean SQL expression over the columns of a row, such as `op = 'D'`: the row deletes its key.
    partitions: of the store; each is written by one task.
    null_keys: what to do about rows with a null in a key column: `fail`, or `skip` and count them.
    """

    keys: Sequence[str]
    values: str | Sequence[str] | None = None
    order_by: str | None = None
    then_by: str | Sequence[str] | None = None
    delete_when: str | None = None
    extractor: KeyValueExtractor | None = None
    partitions: int = 1
    null_keys: Literal["fail", "skip"] = "fail"

    def __post_init__(self) -> None:
        if isinstance(self.keys, str) or not self.keys:
            raise ConfigurationError(f'keys is {self.keys!r}: give a list of columns, such as keys=["id"].')
        if len(set(self.keys)) < len(self.keys):
            raise ConfigurationError(f"keys {list(self.keys)} names a column twice. Name each once.")
        if not isinstance(self.values, str) and len(set(self.values or ())) < len(self.values or ()):
            raise ConfigurationError(f"values {list(self.values or ())} names a column twice. Name each once.")
        if not isinstance(self.delete_when, str | None):
            raise ConfigurationError(f"delete_when is {self.delete_when!r}: give SQL as a string, such as `op = 'D'`.")
        if not isinstance(self.extractor, KeyValueExtractor | None):
            text = f"extractor is {self.extractor!r}: give KeyValueExtractor(function, schema)."
            raise ConfigurationError(text)
        if self.null_keys not in NULL_KEYS:
            raise ConfigurationError(f"null_keys is {self.null_keys!r}: give one of {', '.join(NULL_KEYS)}.")
        if self.partitions < 1:
            raise ConfigurationError(f"partitions is {self.partitions}: a store has at least 1.")

    @property
    def ties(self) -> tuple[str, ...]:
        """The columns of `then_by`."""
        if self.then_by is None:
            return ()
        return (self.then_by,) if isinstance(self.then_by, str) else tuple(self.then_by)
