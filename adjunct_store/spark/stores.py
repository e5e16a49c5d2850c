"""Several stores of one job: rows of the streams that fill them are applied, all others are the job's own."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 - as everyone calls it

from adjunct_store.spark.filling.changes import changes_of
from adjunct_store.spark.filling.fill import VersionWriter, check_schema
from adjunct_store.spark.filling.fill_spec import FillSpec
from adjunct_store.spark.partitioning import as_compared, column_of
from adjunct_store.spark.reading.task_reader import QUERY
from adjunct_store.versions.manifest_store import open_fill
from adjunct_store.versions.names import StoreNames
from adjunct_store.versions.opening import BY_QUERY, FillRequirements
from azure_account.location import Location
from foundation.arguments import Count, Name, Natural, checked
from foundation.errors import ConfigurationError

if TYPE_CHECKING:
    from adjunct_store.spark.filling.fill import FillResult


@checked
@dataclass(frozen=True)
class AdjunctStore:
    """A store, and how the rows of a stream become its changes.

    location: where the store is.
    spec: see `fill`. By default all columns are values but the keys, the order and the name of the stream.

    `ConfigurationError` for a path that a store cannot have.
    """

    location: Location
    spec: FillSpec

    def __post_init__(self) -> None:
        """Validate."""
        StoreNames(self.location.path)


class AdjunctStores:
    """Fills stores from the streams of a job, in its `foreachBatch`. A store is filled by one job at a time.

    stores: by the name of the stream that fills the store.
    source: a name of the job's input. A store belongs to one source and one streaming query, since other queries number
    their batches differently.
    rebuild: build the stores again, from the first batch on.
    keep: how many of the newest versions of each store stay.
    cache_dir: a folder on a local disk where tasks write; by default a folder of the user in the temporary folder.

    `ConfigurationError` for a store of another source or query, or with other columns.
    """

    @checked
    def __init__(
        self,
        stores: Mapping[str, AdjunctStore],
        *,
        source: Name,
        rebuild: bool = False,
        keep: Count = 3,
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
        self._writers: dict[str, VersionWriter] = {}
        self.filled: Mapping[str, FillResult] = {}
        """What the last batch did, by stream."""

    @checked
    def process(self, rows: DataFrame, batch: Natural, stream_column: str = "stream") -> DataFrame:
        """Publish the rows of each store's stream as a version, and return the rows of all other streams.

        rows: of the batch. They are read once for each store and once for the result: `persist` them if that is
        expensive.
        batch: its number, as `foreachBatch` passes it. A batch that was published before is not applied again.
        stream_column: has the name of each row's stream. `ConfigurationError` if it is missing.
        """
        compared = as_compared(rows)
        if compared(stream_column) not in map(compared, rows.columns):
            have = ", ".join(rows.columns)
            text = f"Argument stream_column: the DataFrame has no column {stream_column!r}; it has {have}."
            raise ConfigurationError(text)
        stream = column_of(stream_column)
        filled = {}
        for name, store in self._stores.items():
            own = rows.where(stream == F.lit(name)).drop(stream)
            filled[name] = self._writer(name, store, own).run(own, batch, bootstrapped=True)
        self.filled = filled
        return rows.where(~F.coalesce(stream.isin(*self._stores), F.lit(False)))

    def _writer(self, name: str, store: AdjunctStore, rows: DataFrame) -> VersionWriter:
        """The filler of a store, which is opened with the first batch."""
        if name not in self._writers:
            location, schema = store.location, changes_of(rows, store.spec).schema
            query = rows.sparkSession.sparkContext.getLocalProperty(QUERY)
            source = self._source if query is None else f"{self._source}{BY_QUERY}{query}"
            if not self._rebuild:
                check_schema(location, schema, source, adds=True)
            terms = FillRequirements(source, schema.partitions, adds=True, rebuild=self._rebuild, keep=self._keep)
            fill = open_fill(location, schema.to_json(), terms)
            self._writers[name] = VersionWriter(location, fill, store.spec, schema, self._cache_dir)
        return self._writers[name]
