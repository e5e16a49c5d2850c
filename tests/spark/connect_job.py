"""Uses Spark Connect on one machine: server and client are started by `SparkSession.builder.remote("local[2]")`.

    python -m tests.spark.connect_job FOLDER CONTAINER OPTIONS      OPTIONS: JSON, the options that name the account

`said.json` in FOLDER gets what each step returned, or the message of its error; `events` gets the server's event log.
"""

from __future__ import annotations

import json
import sys
import urllib.request
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pyspark import SparkContext
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, DataFrameWriter, SparkSession
from pyspark.sql.streaming.listener import StreamingQueryListener

from azureblob_source.datasource import AzureBlobDataSource
from tools.reporting import wait_for
from tools.spark_session import java_options

REDACTION = r'(?i)"\w*(key|secret|string|token)"\s+value: "[^"]*"'
"""What docs/COMPATIBILITY.md advises to set, so that no secret is in the event log."""
DECOY = "c2VjcmV0IG9mIGFuIG9wdGlvbg=="


class RenamedSource(AzureBlobDataSource):
    """The format under another name: the client sends this class to the server."""

    @classmethod
    def name(cls) -> str:
        return "renamed"


class Events(StreamingQueryListener):
    """Keeps the names of events, and how many rows were read."""

    def __init__(self) -> None:
        self.seen: list[Any] = []

    def onQueryStarted(self, event: Any) -> None:  # noqa: N802
        self.seen.append("started")

    def onQueryProgress(self, event: Any) -> None:  # noqa: N802
        self.seen.append(event.progress.numInputRows)

    def onQueryIdle(self, event: Any) -> None:  # noqa: N802
        """Not of interest."""

    def onQueryTerminated(self, event: Any) -> None:  # noqa: N802
        self.seen.append("terminated")


@dataclass
class ConnectJob:
    """What a client does. The environment names the account, but where a step names it by options."""

    spark: SparkSession
    folder: Path
    container: str
    options: dict[str, str]
    said: dict[str, Any] = field(default_factory=dict)

    def all(self) -> None:
        self._keep("decoy", lambda: self._save("decoy", accountName="devstoreaccount1", accountKey=DECOY, cdec="x"))
        self.spark.conf.set("spark.sql.redaction.string.regex", REDACTION)
        self._keep("write", lambda: self._save("events", **self.options))
        self._keep("read", lambda: self._ids(self._load("events", "azureblob", **self.options)))
        self._keep("overwrite", self._overwrite)
        self._keep("snapshot", lambda: self._ids(self._load("events")))
        self._keep("commits", lambda: [row.operation for row in self._load("events", view="commits").collect()])
        self._keep("unknown option", lambda: self._save("events", cdec="x"))
        self._keep("no stream", lambda: self._load("nothing").count())
        self._keep("copy", self._copy)
        self._keep("failing copy", lambda: self._stream("failed", cdec="x"))
        self._keep("foreachBatch", self._for_each)
        self._keep("registered", self._registered)
        self._keep("filters", self._filtered)

    def _save(self, stream: str, **options: str) -> None:
        self._frame(3, **options).mode("append").save(f"{self.container}/{stream}")

    def _overwrite(self) -> None:
        self._frame(5).mode("overwrite").save(f"{self.container}/events")

    def _frame(self, rows: int, **options: str) -> DataFrameWriter:
        return self.spark.range(rows).coalesce(1).write.format("azureblob").options(**options)

    def _load(self, stream: str, form: str = "azureblob", **options: str) -> DataFrame:
        return self.spark.read.format(form).options(**options).load(f"{self.container}/{stream}")

    def _ids(self, rows: DataFrame) -> list[int]:
        return sorted(row.id for row in rows.collect())

    def _stream(self, target: str, **options: str) -> None:
        rows = self.spark.readStream.format("azureblob").load(f"{self.container}/events")
        writer = rows.writeStream.format("azureblob").options(**options).trigger(availableNow=True)
        writer = writer.option("checkpointLocation", (self.folder / target).as_uri())
        writer.start(f"{self.container}/{target}").awaitTermination()

    def _copy(self) -> list[Any]:
        """Twice, so that the second finds nothing new."""
        events = Events()
        self.spark.streams.addListener(events)
        self._stream("copy")
        wait_for(lambda: "terminated" in events.seen, 60)
        self.spark.streams.removeListener(events)
        self._stream("copy")
        return [events.seen, self._ids(self._load("copy"))]

    def _for_each(self) -> list[int]:
        target = f"{self.container}/each"

        def write(rows: DataFrame, batch: int) -> None:
            """It runs on the server; twice is once."""
            for _ in range(2):
                writer = rows.write.format("azureblob").option("txnAppId", "each").option("txnVersion", batch)
                writer.mode("append").save(target)

        rows = self.spark.readStream.format("azureblob").load(f"{self.container}/copy")
        writer = rows.writeStream.foreachBatch(write).trigger(availableNow=True)
        writer.option("checkpointLocation", (self.folder / "each").as_uri()).start().awaitTermination()
        return self._ids(self._load("each"))

    def _registered(self) -> list[int]:
        self.spark.dataSource.register(RenamedSource)
        return self._ids(self._load("events", "renamed"))

    def _filtered(self) -> list[int]:
        self.spark.conf.set("spark.sql.python.filterPushdown.enabled", "true")
        return self._ids(self._load("events", pushFilters="true").where("id > 3"))

    def _keep(self, name: str, act: Callable[[], object]) -> None:
        try:
            self.said[name] = act()
        except PySparkException as error:
            self.said[name] = str(error)


def main(folder: Path, container: str, options: dict[str, str]) -> None:
    (folder / "events").mkdir()
    server = {
        "spark.driver.extraJavaOptions": java_options(quick_start=True),
        "spark.eventLog.enabled": "true",
        "spark.eventLog.compress": "false",
        "spark.eventLog.dir": (folder / "events").as_uri(),
        "spark.ui.enabled": "true",  # SPARK_TESTING turns it off
        "spark.ui.port": "0",
        "spark.ui.showConsoleProgress": "false",
    }
    builder = SparkSession.builder.remote("local[2]")
    for name, value in server.items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    job = ConnectJob(spark, folder, container, options)
    job.all()
    job.said["client"] = type(spark).__module__
    job.said["page"] = _page()
    spark.stop()
    (folder / "said.json").write_text(json.dumps(job.said))


def _page() -> str:
    """The server's page with the requests of its clients."""
    web = SparkContext._active_spark_context.uiWebUrl  # type: ignore[union-attr] # the server's, started in this process
    with urllib.request.urlopen(f"{web}/connect/", timeout=30) as answer:  # noqa: S310
        return str(answer.read().decode())


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2], json.loads(sys.argv[3]))
