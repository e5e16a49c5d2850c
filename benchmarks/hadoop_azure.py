"""The peer: Spark's own file formats over hadoop-azure (ABFS), writing into the same emulator.

Spark takes the jars from Maven Central when its session starts. Two settings are needed because the emulator has no
dfs endpoint and no TLS: the driver of ABFS then speaks the Blob protocol by the JDK's own HTTP client.
"""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from pyspark import SparkContext

from tools.spark_session import local_spark

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import SparkSession

    from tools.azurite import Azurite

PACKAGES = (
    "org.apache.spark:spark-avro_2.13:4.1.1",  # the newest published; reads and writes on 4.3
    "org.apache.hadoop:hadoop-azure:3.5.0",
)
SHIPPED_WITH_SPARK = (
    "org.apache.hadoop:hadoop-common",
    "org.apache.hadoop:hadoop-client-api",
    "org.apache.hadoop:hadoop-client-runtime",
    "org.scala-lang:scala-library",
)


@contextmanager
def session(app: str, **conf: str) -> Iterator[SparkSession]:
    """A local Spark that has the peer's jars, for as long as the block runs. conf: more settings."""
    given: dict[str, Any] = {
        "spark.jars.packages": ",".join(PACKAGES),
        "spark.jars.excludes": ",".join(SHIPPED_WITH_SPARK),
        **conf,
    }
    spark = local_spark(app, **given)
    # What fails, raises. What is logged as an error besides is stopped queries, and folders that have no date.
    spark.sparkContext.setLogLevel("OFF")
    try:
        yield spark
    finally:
        spark.stop()
        _end_java()


def _end_java() -> None:
    """End Java at once: else the peer sends metrics at its exit, for ten minutes if the emulator has ended before.

    pyspark has no public way to do so; a session after this one starts Java again.
    """
    context: Any = SparkContext
    gateway = context._gateway  # noqa: SLF001
    gateway.shutdown()
    gateway.proc.kill()
    gateway.proc.wait()
    context._gateway = context._jvm = None  # noqa: SLF001


def connect(spark: SparkSession, azurite: Azurite) -> None:
    """Lead `abfs://` to the emulator, for all later reads, writes and queries of the session.

    A container is created when it is first used. Hadoop keeps one connection per container's name, so each emulator
    of a process needs names of its own.
    """
    for key, value in settings(azurite).items():
        spark.conf.set(key, value)


def settings(azurite: Azurite) -> dict[str, str]:
    """Hadoop's settings for the emulator. A session that starts with them has them as `spark.hadoop.…`."""
    return {
        "fs.azure.account.hns.enabled": "false",
        "fs.azure.fns.account.service.type": "BLOB",
        "fs.azure.always.use.https": "false",
        "fs.azure.networking.library": "JDK_HTTP_URL_CONNECTION",
        "fs.azure.abfs.endpoint": f"127.0.0.1:{azurite.blob_port}",
        "fs.azure.createRemoteFileSystemDuringInitialization": "true",
        f"fs.azure.account.key.{_host(azurite)}": azurite.account_key,
    }


def url(azurite: Azurite, container: str, folder: str) -> str:
    """Where a folder is. The host must say `dfs`: of `blob`, the driver does not find the account's name."""
    return f"abfs://{container}@{_host(azurite)}/{folder}"


def _host(azurite: Azurite) -> str:
    return f"{azurite.account_name}.dfs.core.windows.net"
