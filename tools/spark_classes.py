"""Stores Spark's classes as Java has loaded them, so that the next Spark starts in half the time.

    python -m tools.spark_classes FILE

Java's name for it is a dynamic archive of class data sharing (CDS). It has the classes of the queries below; Java loads
others from the jars as usual, and ignores an archive that another Java made, or for other jars. `make spark` makes one
for each environment, and `tools.spark_session` uses it for a Spark with `quick_start`.
"""

from __future__ import annotations

import json
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tools.spark_session import java_options, local_spark

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def main(archive: Path) -> None:
    """Run queries in a Spark whose Java writes `archive` when it ends."""
    archive.unlink(missing_ok=True)
    options = f'{java_options(quick_start=True)} "-XX:ArchiveClassesAtExit={archive}"'
    conf: dict[str, Any] = {"spark.driver.extraJavaOptions": options}
    spark = local_spark("classes", quick_start=True, **conf)
    java: Any = spark.sparkContext._gateway  # noqa: SLF001 - its process is in no public attribute
    with tempfile.TemporaryDirectory() as folder:
        run_queries(spark, Path(folder))
    spark.stop()
    java.shutdown()
    java.proc.stdin.close()  # Java ends then
    java.proc.wait()
    print(f"{archive}: {archive.stat().st_size >> 20} MiB")


def run_queries(spark: SparkSession, folder: Path) -> None:
    """One of each sort that the tests have: an aggregation, rows through a Python worker, a stream."""

    def collect(batch: DataFrame, _: int) -> None:
        batch.collect()

    spark.range(100, numPartitions=2).groupBy("id").count().orderBy("id").collect()
    spark.range(2).mapInArrow(lambda batches: batches, "id long").collect()
    (folder / "input").mkdir()
    (folder / "input" / "a.json").write_text(json.dumps({"id": 1, "kind": "x"}))
    counts = spark.readStream.schema("id long, kind string").json(str(folder / "input")).groupBy("kind").count()
    writer = counts.writeStream.outputMode("complete").option("checkpointLocation", str(folder / "checkpoint"))
    writer.trigger(availableNow=True).foreachBatch(collect).start().awaitTermination()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
