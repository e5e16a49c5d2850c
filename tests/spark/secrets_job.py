"""The program whose traces are searched for secrets: it makes Spark print options in every way, and keeps the output.

    python -m tests.spark.secrets_job FOLDER CONTAINER WAYS        WAYS: JSON, name of a way → its options

`FOLDER` gets the event log, the driver's log at INFO, the checkpoints, and `said.json` with all that was printed,
raised or shown in the web interface. Spark takes an option for a secret by its name, and does not know `accountKey`
and `connectionString`: that way does less, until it runs as `-redacted`, where Spark is configured to redact them.
The others need no setting.
"""

# ruff: noqa: T201 - what is printed is kept

from __future__ import annotations

import contextlib
import io
import json
import sys
import urllib.request
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pyspark.errors import PySparkException

from tools.spark_session import java_options, local_spark

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import DataFrame, DataFrameReader, SparkSession

REDACTION = {"spark.sql.redaction.options.regex": "(?i)url|accountkey|connectionstring"}
LOG = """\
rootLogger.level = info
rootLogger.appenderRef.file.ref = file
appender.file.type = File
appender.file.name = file
appender.file.fileName = {folder}/driver.log
appender.file.layout.type = PatternLayout
appender.file.layout.pattern = %p %c: %m%n%ex
"""


@dataclass
class SecretsCheck:
    """Reads and writes with one way to name the account."""

    spark: SparkSession
    folder: Path
    container: str
    way: str
    options: dict[str, str]
    said: dict[str, str] = field(default_factory=dict)

    def all(self, *, revealing: bool) -> None:
        """Run all of them. `revealing` adds those that show every option that Spark does not redact."""
        self._keep("write", lambda: self._save(self.spark.range(3)))
        self._keep("unknown option", lambda: self._save(self.spark.range(3), cdec="x"))
        self._keep("wrong column", lambda: self._save(self.spark.range(3), partitionColumn="x"))
        self._keep("failing task", lambda: self._save(self.spark.range(3).selectExpr("assert_true(id < 1)", "id")))
        self._keep("explain", lambda: self._loaded().explain(True))
        self._keep("formatted", lambda: self._loaded().explain("formatted"))
        self._keep("rows", lambda: print(self._loaded().collect(), self._loaded()))
        self._keep("cached", lambda: print(self._loaded().cache().count()))
        self._keep("commits", lambda: print(self._reader().option("view", "commits").load(self._target).collect()))
        self._keep("not there", lambda: self._reader().load(f"{self.container}/nothing"))
        if not revealing:
            return
        self._keep("query", self._stream)
        self._keep("failing query", lambda: self._stream(cdec="x"))
        self._keep("view", lambda: self._loaded().createOrReplaceTempView("events"))
        self._keep("bad type", lambda: self._save(self.spark.sql("SELECT make_interval(1) AS i")))
        pairs = ", ".join(f"'{name}' = '{value}'" for name, value in self.options.items())
        create = f"CREATE OR REPLACE TEMPORARY VIEW v USING azureblob OPTIONS ({pairs}, path = '{self._target}')"
        self._keep("using", lambda: self.spark.sql(create).explain(True))

    @property
    def _target(self) -> str:
        return f"{self.container}/{self.way}"

    def _save(self, frame: DataFrame, **more: str) -> None:
        frame.write.format("azureblob").options(**self.options, **more).mode("append").save(self._target)

    def _reader(self) -> DataFrameReader:
        return self.spark.read.format("azureblob").options(**self.options)

    def _loaded(self) -> DataFrame:
        return self._reader().load(self._target)

    def _stream(self, **more: str) -> None:
        source = self.folder / f"input-{self.way}"
        source.mkdir(exist_ok=True)
        (source / "a.json").write_text('{"id": 1}\n')
        writer = self.spark.readStream.schema("id long").json(str(source)).writeStream.format("azureblob")
        writer = writer.options(**self.options, **more).trigger(availableNow=True)
        query = writer.option("checkpointLocation", str(self.folder / f"checkpoint-{self.way}-{len(more)}")).start(
            self._target
        )
        try:
            query.awaitTermination()
        finally:
            print(query.recentProgress, query.status)
            query.explain(True)

    def _keep(self, name: str, act: Callable[[], object]) -> None:
        """Keep what `act` prints, and the text of its error."""
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            try:
                act()
            except PySparkException as error:
                print(error)
        self.said[f"{self.way}: {name}"] = printed.getvalue()


def main(folder: Path, container: str, ways: dict[str, dict[str, str]]) -> None:
    settings = folder / "log4j2.properties"
    settings.write_text(LOG.format(folder=folder))
    (folder / "events").mkdir()
    conf: dict[str, Any] = {
        "spark.driver.extraJavaOptions": java_options(quick_start=True, logging=settings),
        "spark.eventLog.enabled": "true",
        "spark.eventLog.compress": "false",
        "spark.eventLog.dir": (folder / "events").as_uri(),
    }
    spark = local_spark("secrets", ui=True, **conf)
    spark.sparkContext.setLogLevel("INFO")
    said: dict[str, str] = {}
    for way, options in ways.items():
        redacted = way.endswith("-redacted")
        for name, value in REDACTION.items():
            spark.conf.set(name, value) if redacted else spark.conf.unset(name)
        run = SecretsCheck(spark, folder, container, way, options)
        run.all(revealing=way != "unknown-to-spark")
        said |= run.said
    said |= _shown(str(spark.sparkContext.uiWebUrl), spark.sparkContext.applicationId)
    spark.stop()
    (folder / "said.json").write_text(json.dumps(said))


def _shown(web: str, application: str) -> dict[str, str]:
    """The pages of the web interface and the answers of its REST service."""
    api = f"/api/v1/applications/{application}"
    answers = [f"{api}/environment", f"{api}/jobs", f"{api}/stages", f"{api}/sql?details=true&length=1000"]
    executions = json.loads(_page(web + answers[-1]))
    pages = ["/SQL/", "/environment/", "/StreamingQuery/", *(f"/SQL/execution/?id={one['id']}" for one in executions)]
    return {path: _page(web + path) for path in [*answers, *pages]}


def _page(url: str) -> str:
    with urllib.request.urlopen(url, timeout=30) as answer:  # noqa: S310 - this Spark's own
        return str(answer.read().decode())


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2], json.loads(sys.argv[3]))
