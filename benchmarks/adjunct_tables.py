"""What the benchmark of adjunct stores joins: rows, a table of keys, and the changes of a batch.

A row has a key of which one in twenty is in no table. A batch changes one key in a hundred, each batch another one.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pyspark.sql import functions as F  # noqa: N812 - as everyone calls it

from adjunct_store.spark import FillSettings, FillSpec, JoinSettings, fill, join
from azure_account.location import Location
from benchmarks import hadoop_azure

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import DataFrame, SparkSession

    from tools.azurite import Azurite

KEY = "key"
CHANGED = 100
_ABSENT = 0.05


@dataclass
class Tables:
    """A table of so many keys as a store and as Parquet, both in the emulator. batch: the last one applied."""

    spark: SparkSession
    azurite: Azurite
    folder: Path
    keys: int
    partitions: int
    batch: int = 0

    @property
    def name(self) -> str:
        """Of the container; each number of keys has one."""
        return f"adjunct-{self.keys}"

    @property
    def store(self) -> Location:
        """Where the store is."""
        return Location(f"{self.name}/stores/planes", {"connectionString": self.azurite.connection_string})

    def rows(self, count: int) -> DataFrame:
        """Rows to enrich, the same each time."""
        number = F.pmod(F.xxhash64("id"), F.lit(int(self.keys * (1 + _ABSENT)))).alias(KEY)
        return self.spark.range(count).select(number, F.col("id").alias("flight"))

    def changes(self) -> DataFrame:
        """The changes of the last batch; of batch 0 all keys."""
        every = self.spark.range(self.keys)
        if self.batch:
            every = self.spark.range(self.batch % CHANGED, self.keys, CHANGED)
        return every.select(
            F.col("id").alias(KEY),
            F.concat(F.lit("plane-"), (F.col("id") % 100_000).cast("string")).alias("name"),
            (F.col("id") % 500).cast("int").alias("seats"),
            F.lit(self.batch).alias("changed"),
        )

    def fill_store(self) -> None:
        """Ours: apply the changes, until the version is published."""
        fill(
            self.store,
            self.changes(),
            FillSpec(keys=[KEY], partitions=self.partitions),
            settings=FillSettings(cache_dir=self.folder / "fill"),
        )

    def joined_by_store(self, rows: DataFrame, cache: str, **settings: Any) -> DataFrame:
        """Ours. cache: each contender has its own, so that each fetches the version of the batch itself."""
        return join(rows, self.store, on=[KEY], settings=JoinSettings(cache_dir=self.folder / cache, **settings))

    def rewrite_parquet(self) -> None:
        """Spark's: read the table of the last batch, replace what has changed, and write all of it anew."""
        changes, whole = self.changes(), None
        if self.batch:
            whole = self.parquet(self.batch - 1).join(F.broadcast(changes.select(KEY)), KEY, "left_anti")
        (changes if whole is None else whole.unionByName(changes)).write.parquet(self._url(self.batch))

    def parquet(self, batch: int | None = None) -> DataFrame:
        """The table of a batch, by default of the last one, listed and read anew."""
        return self.spark.read.parquet(self._url(self.batch if batch is None else batch))

    def _url(self, batch: int) -> str:
        return hadoop_azure.url(self.azurite, self.name, f"table/{batch}")


def checksum(joined: DataFrame) -> tuple[Any, ...]:
    """The same for the same rows in whatever order: number of rows, of hits, and a sum of hashes."""
    hashed = F.sum(F.xxhash64(KEY, "flight", "name", "seats", "changed").cast("decimal(38,0)"))
    return tuple(joined.agg(F.count("*"), F.count("name"), hashed).collect()[0])
