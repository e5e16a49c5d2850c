"""Several stores of one job: rows of the streams that fill them are applied, all others are the job's own."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from pyspark.sql import functions as F  # noqa: N812 - as everyone calls it

from adjunct_store.spark.filling.changes import changes_of
from adjunct_store.spark.filling.fill import BatchFiller, check_schema, open_store
from adjunct_store.spark.partitioning import column_of
from adjunct_store.spark.reading.task_reader import QUERY
from adjunct_store.versions.names import StoreNames
from azure_account.errors import ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from pyspark.sql import DataFrame

    from adjunct_store.spark.filling.fill import Filled
    from adjunct_store.spark.filling.fill_spec import FillSpec
    from adjunct_store.versions.opening import FillTerms
    from azure_account.location import Location


@dataclass(frozen=True)
class AdjunctStore:
    """A store, and how the rows of a stream become its changes.

    Without values in `spec`, all columns are values but the keys, the order and the name of the stream.
    """

    location: Location
    spec: FillSpec

    def __post_init__(self) -> None:
        """`ConfigurationError` for a path that a store cannot have."""
        StoreNames(self.location.path)


class AdjunctStores:
    """Fills stores from the streams of a job, in its `foreachBatch`. One at a time may use a store.

    stores: by the name of the stream that fills the store. source: a name of the job's input. A store belongs to one
    source and one streaming query, as the batches of others have other numbers: `ConfigurationError` for a store of
    others, or with other columns. rebuild: make the stores anew, from the first batch on. keep, cache_dir: see `fill`.
    """

    def __init__(
        self,
        stores: Mapping[str, AdjunctStore],
        *,
        source: str,
        rebuild: bool = False,
        keep: int = 3,
        cache_dir: Path | str | None = None,
    ) -> None:
        locations = [each.location for each in stores.values()]
        twice = [str(each) for each in locations if locations.count(each) > 1]
        if twice:
            raise ConfigurationError(
                f"Store {twice[0]} is filled from two streams. Give each stream a store of its own."
            )
        self._stores, self._source, self._rebuild = dict(stores), source, rebuild
        self._keep, self._cache_dir = keep, cache_dir
        self._fillers: dict[str, BatchFiller] = {}
        self.filled: Mapping[str, Filled] = {}
        """What the last batch did, by stream."""

    def process(self, rows: DataFrame, batch: int, stream_column: str = "stream") -> DataFrame:
        """Apply the rows of the stores' streams as one version each, and return the rows of all other streams.

        batch: its number, as `foreachBatch` has it. A batch that is repeated is not applied again. The rows are read
        once for each store and once for the result: `persist` them if that is expensive.
        """
        if stream_column not in rows.columns:
            have = ", ".join(rows.columns)
            raise ConfigurationError(f"Stream column {stream_column!r} is not in the DataFrame, which has {have}.")
        stream = column_of(stream_column)
        filled = {}
        for name, store in self._stores.items():
            own = rows.where(stream == F.lit(name)).drop(stream)
            filled[name] = self._filler(name, store, own).run(own, batch, bootstrapped=True)
        self.filled = filled
        return rows.where(~F.coalesce(stream.isin(*self._stores), F.lit(False)))

    def _filler(self, name: str, store: AdjunctStore, rows: DataFrame) -> BatchFiller:
        """The filler of a store, which is opened with the first batch."""
        if name not in self._fillers:
            location, schema = store.location, changes_of(rows, store.spec).schema
            query = rows.sparkSession.sparkContext.getLocalProperty(QUERY)
            source = self._source if query is None else f"{self._source} by query {query}"
            if not self._rebuild:
                check_schema(location, schema, source, adds=True)
            terms: FillTerms = {"source": source, "adds": True, "rebuild": self._rebuild, "keep": self._keep}
            fill = open_store(location, schema, **terms)
            self._fillers[name] = BatchFiller(location, fill, store.spec, schema, self._cache_dir)
        return self._fillers[name]
