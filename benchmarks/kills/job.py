"""The program that is killed. It goes on where its checkpoint says, and ends with 0 when its input is through.

    python -m benchmarks.kills.job write SINK FOLDER JARS    writes FOLDER/input; its checkpoint: FOLDER/checkpoint
    python -m benchmarks.kills.job read SINK FOLDER JARS     writes what Spark reads to FOLDER/found.json
    python -m benchmarks.kills.job jars SINK FOLDER          the same of the jars, which Spark takes from Maven Central

It runs on Spark 4.0, the newest one on which the Delta Lake of these tests runs.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote, urlsplit

from pyspark.sql import functions as F  # noqa: N812 - the usual name

from benchmarks import hadoop_azure
from benchmarks.kills.sinks import FILE, FOLDER, Sink, connection_string, reader, writer
from tools.azurite import azurite_of
from tools.spark_session import local_spark

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, Row, SparkSession

PACKAGES = (
    "io.delta:delta-spark_2.13:4.0.1",
    "org.apache.spark:spark-avro_2.13:4.0.1",
    "org.apache.hadoop:hadoop-azure:3.4.2",
)
FILES_PER_BATCH = 4
_PACKAGES = {
    "spark.jars.packages": ",".join(PACKAGES),
    "spark.jars.excludes": ",".join((*hadoop_azure.SHIPPED_WITH_SPARK, "org.antlr:antlr4-runtime")),
}


def main(action: str, name: str, folder: str, jars: str = "") -> None:
    """Run one action."""
    sink = Sink[name]
    match action:
        case "jars":
            _keep(folder, {"jars": _session(sink, **_PACKAGES).sparkContext.getConf().get("spark.jars")})
        case "read":
            _keep(folder, _found(_session(sink, **{"spark.jars": jars}), sink))
        case _:
            _write(_session(sink, **{"spark.jars": jars}), sink, Path(folder))
    os._exit(0)  # who has started this ends Java too: hadoop-azure would wait for its metrics


def _keep(folder: str, found: dict[str, Any]) -> None:
    (Path(folder) / "found.json").write_text(json.dumps(found))


def _session(sink: Sink, **conf: str) -> SparkSession:
    given: dict[str, Any] = {**sink.conf, **conf, "spark.sql.files.minPartitionNum": str(FILES_PER_BATCH)}
    if "spark.jars" in conf:
        azurite = azurite_of(connection_string())
        given |= {f"spark.hadoop.{key}": value for key, value in hadoop_azure.settings(azurite).items()}
    return local_spark("kills", quick_start=True, **given)


def _write(spark: SparkSession, sink: Sink, folder: Path) -> None:
    files = spark.readStream.schema("number long, text string").option("maxFilesPerTrigger", FILES_PER_BATCH)
    query = writer(sink, files.parquet(str(folder / "input")), azurite_of(connection_string()))
    query.option("checkpointLocation", str(folder / "checkpoint")).trigger(availableNow=True).start().awaitTermination()


def _found(spark: SparkSession, sink: Sink) -> dict[str, int | list[str]]:
    """Rows, different ones of them, and the names of the files that have them."""
    rows = reader(sink, spark, azurite_of(connection_string())).cache()
    (counted,) = rows.agg(F.count("number"), F.countDistinct("number")).collect()
    return {"rows": counted[0], "different": counted[1], "files": [_name(row[0]) for row in _files(rows)]}


def _files(rows: DataFrame) -> list[Row]:
    return rows.select(FILE).distinct().collect()


def _name(file: str) -> str:
    """The blob's name within its container, of a URL or of the name itself."""
    path = unquote(urlsplit(file).path)
    return path[path.index(f"{FOLDER}/") :]


if __name__ == "__main__":
    main(*sys.argv[1:])
