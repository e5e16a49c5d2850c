"""Streams that Spark reads as Iceberg tables, in a Spark of its own, which has Iceberg's package and hadoop-azure.

    python -m tests.spark.iceberg_job CONNECTION_STRING ACCOUNT KEY PORT     prints what it finds, as JSON

Iceberg sees nothing but the paths of tables: it lists nothing, and has no catalog. Ends with 3 if the packages cannot
be had.
"""

from __future__ import annotations

import json
import sys
import uuid
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tests.spark.avro_to_parquet import NOT_TO_BE_HAD
from tools.spark_session import local_spark

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

PACKAGES = "org.apache.iceberg:iceberg-spark-runtime-4.0_2.13:1.10.2,org.apache.hadoop:hadoop-azure:3.4.2"
SHIPPED_WITH_SPARK = ("hadoop-common", "hadoop-client-api", "hadoop-client-runtime")

TYPES = {
    "boolean": ["true", "false"],
    "byte": ["-128Y", "127Y"],
    "short": ["-32768S", "32767S"],
    "int": ["-2147483648", "2147483647"],
    "long": ["CAST('-9223372036854775808' AS BIGINT)", "9223372036854775807L"],
    "float": ["CAST('-0.1' AS FLOAT)", "CAST('NaN' AS FLOAT)"],
    "double": ["-0.1D", "CAST('-Infinity' AS DOUBLE)"],
    "decimal_small": ["-12.34BD", "CAST(99.99 AS DECIMAL(4, 2))"],
    "decimal_38": ["CAST('-99999999999999999999999999999999999999' AS DECIMAL(38, 0))", "CAST(0 AS DECIMAL(38, 0))"],
    "string": ["''", "'grüß 👋'"],
    "binary": ["X''", "X'00FF'"],
    "date": ["DATE'0001-01-01'", "DATE'9999-12-31'"],
    "timestamp": ["TIMESTAMP'1900-01-01 00:00:00.000001Z'", "TIMESTAMP'2999-12-31 23:59:59.999999Z'"],
    "array": ["array()", "array(1, NULL, 3)"],
    "array_of_arrays": ["array(array('a'), NULL, array())", "array()"],
    "map": ["map()", "map('a', 1, 'b', NULL)"],
    "map_by_date": ["map(DATE'2020-02-29', array(1.5D))", "map()"],
    "map_by_struct": ["map(named_struct('x', 1, 'y', 'k'), 2L)", "map()"],
    "struct": ["named_struct('x', 1, 'y', named_struct('z', 'q'))", "NULL"],
    "a name with spaces": ["1", "2"],
    "nested": ["array(map('k', named_struct('k', array(X'01'), 'when', TIMESTAMP'2020-01-01 00:00:00Z')))", "array()"],
}
"""SQL of two values of each column; every column also has a null."""


@dataclass
class Job:
    """The session, and a container of the emulator."""

    spark: SparkSession
    connection: str
    host: str
    container: str

    def write(self, stream: str, query: str, mode: str = "append", **options: Any) -> None:
        """Write the rows of a query as a version of a stream, with an Iceberg table at it."""
        given = {
            "connectionString": self.connection,
            "icebergTable": "true",
            "icebergPaths": "abfs",
            "checkpointInterval": "1",
            **options,
        }
        frame = self.spark.sql(query)
        frame.write.format("azureblob").mode(mode).options(**given).save(f"{self.container}/{stream}")

    def table(self, stream: str, **options: Any) -> DataFrame:
        """The rows of a stream, read as an Iceberg table."""
        return self.spark.read.format("iceberg").options(**options).load(self._path(stream))

    def planned(self, stream: str, column: str, value: Any) -> int:
        """The number of files that Iceberg plans to read for the rows with a value."""
        jvm: Any = self.spark._jvm
        tables = jvm.org.apache.iceberg.hadoop.HadoopTables(self.spark._jsc.hadoopConfiguration())
        scan = tables.load(self._path(stream)).newScan()
        tasks = scan.filter(jvm.org.apache.iceberg.expressions.Expressions.equal(column, value)).planFiles()
        return sum(1 for _ in iter_java(tasks))

    def _path(self, stream: str) -> str:
        return f"abfs://{self.container}@{self.host}/{stream}/_iceberg"


def iter_java(tasks: Any) -> Any:
    """The elements of a closeable iterable of Java's."""
    found = tasks.iterator()
    while found.hasNext():
        yield found.next()


def shown(frame: DataFrame) -> list[str]:
    """The rows, with the Python types of their values, in one order."""
    return sorted(repr(row.asDict(recursive=True)) for row in frame.collect())


def types(job: Job) -> Any:
    """All types that Spark and Iceberg both have."""
    columns = {name: [*values, "NULL"] for name, values in TYPES.items()}
    rows = [
        "SELECT " + ", ".join(f"{values[place]} AS `{name}`" for name, values in columns.items()) for place in range(3)
    ]
    query = " UNION ALL ".join(rows)
    job.write("types", query)
    read = job.table("types")
    kinds = [(name, kind) for name, kind in read.dtypes]
    return {"written": shown(job.spark.sql(query)), "read": shown(read), "kinds": kinds}


def evolved(job: Job) -> Any:
    """Columns that are added and widened, also within a struct, and time travel to each version."""
    job.write("evolved", "SELECT 1 AS id, named_struct('a', 1) AS s, CAST(0.5 AS FLOAT) AS f, 1.25BD AS d")
    job.write(
        "evolved",
        "SELECT 'EWR' AS origin, 2L AS id, named_struct('b', 'x', 'a', 2) AS s, 0.25D AS f, 12345.25BD AS d",
    )
    versions = {str(version): shown(job.table("evolved", **{"snapshot-id": str(version + 1)})) for version in range(2)}
    return {"rows": shown(job.table("evolved")), "dtypes": job.table("evolved").dtypes, "versions": versions}


def partitions(job: Job) -> Any:
    """Partitions with names that need an escape, and plans that leave files out."""
    rows = "SELECT * FROM VALUES ('EWR', 1), ('a/b c=%', 2), ('', 3), (NULL, 4), ('ü', 5) AS t(origin, n)"
    job.write("a stream/of two levels", rows, partitionColumn="origin")
    job.write("a stream/of two levels", "SELECT 'EWR' AS origin, 200 AS n", partitionColumn="origin")
    stream = "a stream/of two levels"
    return {
        "rows": shown(job.table(stream)),
        "EWR": shown(job.table(stream).where("origin = 'EWR'")),
        "planned EWR": job.planned(stream, "origin", "EWR"),
        "planned 200": job.planned(stream, "n", 200),
        "planned ''": job.planned(stream, "origin", ""),
    }


def overwritten(job: Job) -> Any:
    """An overwrite: the table has no snapshot whose blobs are gone."""
    job.write("overwritten", "SELECT 1 AS id", checkpointInterval="1")
    job.write("overwritten", "SELECT 'a' AS other, 2 AS id", mode="overwrite", checkpointInterval="64")
    history = job.spark.read.format("iceberg").load(f"{job._path('overwritten')}#snapshots")
    return {"rows": shown(job.table("overwritten")), "snapshots": [row.snapshot_id for row in history.collect()]}


SCENARIOS = (types, evolved, partitions, overwritten)


def main(connection: str, account: str, key: str, port: str) -> int:
    host = f"{account}.dfs.core.windows.net"
    hadoop = {
        "fs.azure.account.hns.enabled": "false",
        "fs.azure.fns.account.service.type": "BLOB",
        "fs.azure.always.use.https": "false",
        "fs.azure.networking.library": "JDK_HTTP_URL_CONNECTION",
        "fs.azure.abfs.endpoint": f"127.0.0.1:{port}",
        f"fs.azure.account.key.{host}": key,
    }
    settings: dict[str, Any] = {
        "spark.jars.packages": PACKAGES,
        "spark.jars.excludes": ",".join(f"org.apache.hadoop:{name}" for name in SHIPPED_WITH_SPARK),
        **{f"spark.hadoop.{name}": value for name, value in hadoop.items()},
    }
    try:
        spark = local_spark("iceberg", quick_start=True, **settings)
    except Exception as error:  # noqa: BLE001 - py4j has one class for all errors
        print(error, file=sys.stderr)  # noqa: T201
        return NOT_TO_BE_HAD
    spark.sparkContext.setLogLevel("OFF")
    job = Job(spark, connection, host, f"iceberg-{uuid.uuid4().hex}")
    found = {}
    for scenario in SCENARIOS:
        try:
            found[scenario.__name__] = scenario(job)
        except Exception as error:  # noqa: BLE001 - the other scenarios are run all the same
            found[scenario.__name__] = {"error": str(error)[-3000:]}
    print(json.dumps(found))  # noqa: T201
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
