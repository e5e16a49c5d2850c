"""Streams that Spark reads as Iceberg tables, in a Spark of its own, which has Iceberg's package and hadoop-azure.

    python -m tests.spark.iceberg_job CONNECTION_STRING ACCOUNT KEY PORT     prints what it finds, as JSON

Iceberg sees nothing but the paths of tables: it lists nothing, and has no catalog. Ends with 3 if the packages cannot
be had.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import uuid
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from azure.storage.blob import ContainerClient

from arrow_avro import CODECS
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

    def planned(self, stream: str, column: str | None = None, *value: Any, operation: str = "equal") -> int:
        """The number of files that Iceberg plans to read, for the rows with a value or for all."""
        jvm: Any = self.spark._jvm
        scan = self.java_table(stream).newScan()
        if column is not None:
            condition = getattr(jvm.org.apache.iceberg.expressions.Expressions, operation)
            scan = scan.filter(condition(column, *value))
        tasks, count = scan.planFiles().iterator(), 0
        while tasks.hasNext():
            tasks.next()
            count += 1
        return count

    def java_table(self, stream: str) -> Any:
        """The table as Iceberg's Java library has it."""
        jvm: Any = self.spark._jvm
        tables = jvm.org.apache.iceberg.hadoop.HadoopTables(self.spark._jsc.hadoopConfiguration())
        return tables.load(self._path(stream))

    def snapshots(self, stream: str) -> list[int]:
        """The ids of the table's snapshots."""
        rows = self.spark.read.format("iceberg").load(f"{self._path(stream)}#snapshots").collect()
        return sorted(row.snapshot_id for row in rows)

    def partitions(self, stream: str) -> list[Any]:
        """The table's partitions, each with its numbers of rows and files."""
        rows = self.spark.read.format("iceberg").load(f"{self._path(stream)}#partitions").collect()
        return sorted(([*row.partition, row.record_count, row.file_count] for row in rows), key=repr)

    def command(self, name: str, stream: str, *arguments: str) -> None:
        """Run a command on a stream."""
        words = [sys.executable, "-m", "azureblob_source", name, f"{self.container}/{stream}", *arguments]
        environment = {**os.environ, "AZURE_STORAGE_CONNECTION_STRING": self.connection}
        subprocess.run(words, check=True, stdout=sys.stderr, env=environment)

    def _path(self, stream: str) -> str:
        return self.path(f"{stream}/_iceberg")

    def path(self, name: str) -> str:
        """The path of a blob."""
        return f"abfs://{self.container}@{self.host}/{name}"


def shown(frame: DataFrame) -> list[Any]:
    """The rows as JSON, decimals as texts, in one order."""
    rows = [json.loads(json.dumps(row.asDict(recursive=True), default=str)) for row in frame.collect()]
    return sorted(rows, key=repr)


def typed(frame: DataFrame) -> list[str]:
    """The rows with the Python types of their values, in one order."""
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
    return {"written": typed(job.spark.sql(query)), "read": typed(read), "kinds": read.dtypes}


def given_types(job: Job) -> Any:
    """Avro types that only a given schema has."""
    kinds: dict[str, Any] = {
        "choice": {"type": "enum", "name": "choice", "symbols": ["a", "b"]},
        "four": {"type": "fixed", "name": "four", "size": 4},
        "at": {"type": "long", "logicalType": "timestamp-millis"},
        "price": {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2},
    }
    fields = [{"name": name, "type": ["null", kind]} for name, kind in kinds.items()]
    schema = json.dumps({"type": "record", "name": "given", "fields": fields})
    query = (
        "SELECT 'b' AS choice, X'00010203' AS four, TIMESTAMP'1969-12-31 23:59:59.999Z' AS at, 1.25BD AS price "
        "UNION ALL SELECT NULL, NULL, NULL, NULL"
    )
    job.write("given_types", query, avroSchema=schema)
    read = job.table("given_types")
    return {"rows": typed(read), "written": typed(job.spark.sql(query)), "kinds": read.dtypes}


def codecs(job: Job) -> Any:
    """A version of each codec."""
    for number, codec in enumerate(CODECS):
        job.write("codecs", f"SELECT {number} AS id, repeat('x', 1000) AS text", codec=codec)
    return sorted(row.id for row in job.table("codecs").collect())


def generic(job: Job) -> Any:
    """The Java classes of values by Iceberg's own reader, on which those of Trino and others are built."""
    job.write(
        "generic", "SELECT TIMESTAMP'1969-12-31 23:59:59.999999Z' AS at, DATE'2013-01-31' AS day, 1.25BD AS price"
    )
    jvm: Any = job.spark._jvm
    record = jvm.org.apache.iceberg.data.IcebergGenerics.read(job.java_table("generic")).build().iterator().next()
    values = [record.getField(name) for name in ("at", "day", "price")]
    return [
        [value.getClass().getSimpleName(), value.toString()] if hasattr(value, "getClass") else str(value)
        for value in values
    ]


def local_timestamps(job: Job) -> Any:
    """What Iceberg says of a blob with local timestamps, in a table by its own API: this package makes none."""
    job.write("local", "SELECT 1 AS id, TIMESTAMP_NTZ'1969-12-31 23:59:59.999999' AS at", icebergTable="false")
    with ContainerClient.from_connection_string(job.connection, job.container) as client:
        (blob,) = client.list_blobs("local/2")  # its name begins with the year
    jvm: Any = job.spark._jvm
    iceberg = jvm.org.apache.iceberg
    types = iceberg.types.Types
    columns = [
        types.NestedField.optional(1, "id", types.IntegerType.get()),
        types.NestedField.optional(2, "at", types.TimestampType.withoutZone()),
    ]
    schema, spec = iceberg.Schema(columns), iceberg.PartitionSpec.unpartitioned()
    mapping = iceberg.mapping.NameMappingParser.toJson(iceberg.mapping.MappingUtil.create(schema))
    with tempfile.TemporaryDirectory() as folder:
        path = f"file:{folder}/table"
        tables = iceberg.hadoop.HadoopTables(job.spark._jsc.hadoopConfiguration())
        table = tables.create(schema, spec, {"schema.name-mapping.default": mapping}, path)
        file = iceberg.DataFiles.builder(spec).withPath(job.path(blob.name)).withFormat("AVRO").withRecordCount(1)
        table.newAppend().appendFile(file.withFileSizeInBytes(blob.size).build()).commit()
        found: list[Any] = []
        for column in ("at", "id"):
            try:
                found.append(shown(job.spark.read.format("iceberg").load(path).select(column)))
            except Exception as error:  # noqa: BLE001 - py4j has one class for all errors
                found.append(str(error))
    return found


def evolved(job: Job) -> Any:
    """Columns that are added and widened, also within a struct, and time travel to each version."""
    job.write("evolved", "SELECT 1 AS id, named_struct('a', 1) AS s, CAST(0.5 AS FLOAT) AS f, 1.25BD AS d")
    job.write(
        "evolved",
        "SELECT 'EWR' AS origin, 2L AS id, named_struct('b', 'x', 'a', 2) AS s, 0.25D AS f, 12345.25BD AS d",
    )
    return {
        "rows": shown(job.table("evolved")),
        "kinds": job.table("evolved").dtypes,
        "versions": [shown(job.table("evolved", **{"snapshot-id": str(version + 1)})) for version in range(2)],
        "planned 1": job.planned("evolved", "id", 1),
        "planned 2": job.planned("evolved", "id", 2),
    }


LONG = "flights of 2013-01-31 from "
PARTITIONS: dict[str, tuple[str, Any]] = {
    f"'{LONG}EWR'": (f"'{LONG}JFK'", LONG + "EWR"),
    "-2147483648": ("2147483647", -(2**31)),
    "9223372036854775807L": ("-1L", 2**63 - 1),
    "DATE'9999-12-31'": ("DATE'2013-01-31'", "9999-12-31"),
    "true": ("false", True),
    "1.5D": ("2.5D", 1.5),
}
"""SQL of a value of the partition column: of another one, and the value as Iceberg's expressions have it."""


def partition_types(job: Job) -> Any:
    """By SQL of a value: rows of the stream that is partitioned by it, another value and null, and files planned."""
    found = {}
    for number, (value, (other, java)) in enumerate(PARTITIONS.items()):
        stream, options = f"partition_types/{number}", {"partitionColumn": "of", "boundsColumns": "none"}
        query = f"SELECT * FROM VALUES ({value}, 1), ({other}, 2), (NULL, 3), ({value}, 4) AS t(of, n)"
        job.write(stream, query, **options)
        rows = job.table(stream)
        found[value] = {
            "written": typed(job.spark.sql(f"SELECT CAST(of AS STRING), n FROM ({query})")),
            "rows": typed(rows.selectExpr("CAST(of AS STRING)", "n")),
            "with": sorted(row.n for row in rows.where(f"of = {value}").collect()),
            "planned": [
                job.planned(stream, "of", java),
                job.planned(stream, "of", operation="isNull"),
                job.planned(stream, "of", operation="notNull"),
            ],
        }
    return found


def repartitioned(job: Job) -> Any:
    """Other partition columns and none, one that widens, and one that is not in the rows; some files of each remain."""
    rows = "SELECT CAST({0} AS {1}) AS key, 'EWR' AS origin, {0} AS n UNION ALL SELECT {0} + 10, NULL, {0} + 10"
    versions = [
        ("INT", {"partitionColumn": "key"}),
        ("INT", {"partitionColumn": "origin"}),
        ("INT", {}),
        ("BIGINT", {"partitionColumn": "key"}),
        ("BIGINT", {"partitionColumn": "origin", "dropRoutingColumns": "true"}),
    ]
    specs = []
    for number, (kind, options) in enumerate(versions):
        job.write("repartitioned", rows.format(number, kind), **options)
        specs.append(job.java_table("repartitioned").spec().toString().split())
    return {
        "rows": shown(job.table("repartitioned")),
        "specs": [["".join(spec[1:-1])] for spec in specs],
        "key 0": job.planned("repartitioned", "key", 0),
        "key 3": job.planned("repartitioned", "key", 3),
        "no key": job.planned("repartitioned", "key", operation="isNull"),
        "of EWR": sorted(row.n for row in job.table("repartitioned").where("origin = 'EWR'").collect()),
        "snapshots": job.snapshots("repartitioned"),
        "at the fourth": len(shown(job.table("repartitioned", **{"snapshot-id": "4"}))),
        "counts": [list(row) for row in job.table("repartitioned").groupBy("key").count().orderBy("key").collect()],
    }


def partitions(job: Job) -> Any:
    """Partitions with names that need an escape, and plans that leave files out."""
    stream = "a stream/of two levels"
    rows = "SELECT * FROM VALUES ('EWR', 1), ('a/b c=%', 2), ('', 3), (NULL, 4), ('ü', 5) AS t(origin, n)"
    job.write(stream, rows, partitionColumn="origin")
    job.write(stream, "SELECT 'EWR' AS origin, 200 AS n", partitionColumn="origin")
    planned = {"EWR": ("origin", "EWR"), "empty": ("origin", ""), "200": ("n", 200)}
    of_nulls = {"null": "isNull", "not null": "notNull"}
    of_ewr = job.table(stream).where("origin = 'EWR'")
    aggregated: Any = of_ewr.selectExpr("count(*)", "min(n)", "max(n)")
    return {
        "partitions": job.partitions(stream),
        "rows": shown(job.table(stream)),
        "EWR": shown(of_ewr),
        "aggregated": [list(row) for row in aggregated.collect()],
        "aggregated from metadata": "BatchScan" not in aggregated._jdf.queryExecution().toString(),
        "planned": {
            "all": job.planned(stream),
            **{name: job.planned(stream, *of) for name, of in planned.items()},
            **{name: job.planned(stream, "origin", operation=of) for name, of in of_nulls.items()},
        },
    }


def overwritten(job: Job) -> Any:
    """An overwrite, which is followed by a checkpoint at once."""
    job.write("overwritten", "SELECT 1 AS id")
    job.write("overwritten", "SELECT 'a' AS other, 2 AS id", mode="overwrite", checkpointInterval="64")
    return {"rows": shown(job.table("overwritten")), "snapshots": job.snapshots("overwritten")}


def vacuumed(job: Job) -> Any:
    """A vacuum of all versions but the newest one."""
    for number in (1, 2, 3):
        job.write("vacuumed", f"SELECT {number} AS id")
    job.command("vacuum", "vacuumed", "--older-than", "0s", "--force", "--yes")
    return {"rows": shown(job.table("vacuumed")), "snapshots": job.snapshots("vacuumed")}


def by_command(job: Job) -> Any:
    """A stream that was written without a table."""
    for number in (1, 2):
        job.write("by_command", f"SELECT {number} AS id", icebergTable="false", checkpointInterval="64")
    job.command("iceberg", "by_command", "--paths", "abfs")
    return {"rows": shown(job.table("by_command"))}


SCENARIOS = (
    types,
    given_types,
    codecs,
    generic,
    local_timestamps,
    evolved,
    partitions,
    partition_types,
    repartitioned,
    overwritten,
    vacuumed,
    by_command,
)


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
