"""A local Spark for tests, demo and benchmarks: small, quiet, on 127.0.0.1 only, and workers with this Python."""

from __future__ import annotations

import os
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tools.java import java_home

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

LOGGING = Path(__file__).resolve().with_name("log4j2.properties")

CLASSES = Path(sys.prefix) / "spark-classes.jsa"
"""The archive that `tools.spark_classes` makes of the classes of this environment's Spark."""

UNBOUNDED_BYTES_PER_BATCH = 2**31 - 1
"""For `max_bytes_per_batch`: with it, Spark does not compute the size of a batch again for every row, which takes about
half of the time of narrow rows. Only `spark.sql.execution.arrow.maxRecordsPerBatch` limits a batch then."""

ROCKSDB_STATE: dict[str, Any] = {
    "spark.sql.streaming.stateStore.providerClass": (
        "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
    )
}
"""For `local_spark`: the setting that `transformWithState` needs."""


def local_spark(
    app: str,
    *,
    cores: int = 2,
    ui: bool = False,
    max_bytes_per_batch: int | None = None,
    quick_start: bool = False,
    **conf: str,
) -> SparkSession:
    """The session of this process, which is started if there is none.

    `conf` has settings such as `**{"spark.sql.shuffle.partitions": "8"}`, which override those of this module. Static
    ones, and `cores`, `ui` and `quick_start`, have an effect only in the call that starts the session.
    `max_bytes_per_batch` None leaves Spark's default (64 MiB). `quick_start`: see `java_options`.
    """
    os.environ.update(spark_environment())
    from pyspark.sql import SparkSession  # noqa: PLC0415 - it reads the environment, and takes a second to import

    settings = {**_settings(ui=ui, max_bytes_per_batch=max_bytes_per_batch, quick_start=quick_start), **conf}
    builder = SparkSession.builder.master(f"local[{cores}]").appName(app)
    for key, value in settings.items():
        builder = builder.config(key, value)
    session = builder.getOrCreate()
    session.sparkContext.setLogLevel("ERROR")
    return session


def spark_environment() -> dict[str, str]:
    """The environment variables with which a process starts Spark with this Python and a suitable Java."""
    java = java_home()
    return {
        "PYSPARK_PYTHON": sys.executable,
        "PYSPARK_DRIVER_PYTHON": sys.executable,
        "SPARK_LOCAL_IP": "127.0.0.1",
        **({} if java is None else {"JAVA_HOME": str(java)}),
    }


def java_options(*, quick_start: bool = False, logging: Path = LOGGING) -> str:
    """Options of the driver's Java: its logging, and the same temporary folder as Python's.

    `quick_start` is for tests, not for benchmarks: it takes Spark's classes from `CLASSES`, if that file exists, and
    compiles them less thoroughly, which shortens the start to less than half, and makes long runs slower.
    """
    options = f'-Dlog4j2.configurationFile={logging.as_uri()} "-Djava.io.tmpdir={tempfile.gettempdir()}"'
    if quick_start:
        options += " -XX:TieredStopAtLevel=1 -XX:+UseSerialGC -Xlog:disable"
        options += f" -XX:SharedArchiveFile={CLASSES}" if CLASSES.is_file() else ""
    return options


def _settings(*, ui: bool, max_bytes_per_batch: int | None, quick_start: bool) -> dict[str, str]:
    settings = {
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.extraJavaOptions": java_options(quick_start=quick_start),
        # How long a Python process may take to connect to Spark, and Spark to answer it: 15 s by default.
        "spark.python.authenticate.socketTimeout": "120s",
        "spark.ui.enabled": str(ui).lower(),
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.shuffle.partitions": "4",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.warehouse.dir": (Path(tempfile.gettempdir()) / "spark-warehouse").as_uri(),
        "spark.sql.execution.arrow.pyspark.enabled": "true",
    }
    if max_bytes_per_batch is not None:
        settings["spark.sql.execution.arrow.maxBytesPerBatch"] = str(max_bytes_per_batch)
    return settings
