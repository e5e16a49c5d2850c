"""Declarative pipelines (`spark-pipelines`): tables that read a stream, and a sink that writes one."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq
import pyspark
import pytest

from tests.conftest import LATE_WORKER, STARTS
from tests.spark.versions import append_version
from tools.spark_session import java_options, spark_environment

if TYPE_CHECKING:
    from tests.spark.stored import Stored
    from tools.azurite import Azurite

pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(1800),
    pytest.mark.skipif(pyspark.__version__ < "4.1", reason="pipelines came with Spark 4.1"),
]

SPEC = """\
name: test
storage: {folder}/storage
libraries:
  - glob:
      include: pipeline_flows.py
"""
# Tables outlive a run: the catalog is on disk.
DEFAULTS = """\
spark.sql.catalogImplementation hive
spark.sql.warehouse.dir {folder}/tables
spark.driver.extraJavaOptions {java} -Dderby.system.home={path}
spark.ui.showConsoleProgress false
"""


class Pipeline:
    """The project of a pipeline in a folder."""

    def __init__(self, folder: Path, azurite: Azurite, container: str) -> None:
        self.folder = folder
        words = {"folder": folder.as_uri(), "path": folder, "java": java_options(quick_start=True)}
        (folder / "spark-pipeline.yml").write_text(SPEC.format(**words))
        (folder / "spark-defaults.conf").write_text(DEFAULTS.format(**words))
        shutil.copy(Path(__file__).with_name("pipeline_flows.py"), folder)
        self.environment = {
            **os.environ,
            **spark_environment(),
            "SPARK_CONF_DIR": str(folder),
            "SPARK_TESTING": "port",  # a free port, not 15002
            "AZURE_STORAGE_CONNECTION_STRING": azurite.connection_string,
            "PIPELINE_CONTAINER": container,
        }

    def run(self, *options: str) -> str:
        """Run it, and return what it prints. A machine that is too busy to start a Python process runs it again."""
        command = [str(Path(pyspark.__file__).parent / "bin" / "spark-pipelines"), "run", *options]
        for _ in range(STARTS):
            run = subprocess.run(
                command, env=self.environment, cwd=self.folder, capture_output=True, text=True, check=False, timeout=500
            )
            said = run.stdout + run.stderr
            if run.returncode == 0:
                return said
            assert LATE_WORKER in said, said
        pytest.fail(said)

    def ids(self, table: str) -> list[int]:
        """The ids in a table."""
        files = (self.folder / "tables" / table).glob("*.parquet")
        return sorted(one for file in files for one in pq.read_table(file)["id"].to_pylist())


def test_each_run_takes_what_is_new(tmp_path: Path, azurite: Azurite, container_name: str, stored: Stored) -> None:
    options = {"connectionString": azurite.connection_string}
    pipeline = Pipeline(tmp_path, azurite, container_name)
    for ids in ([1, 2], [3]):
        append_version(options, f"{container_name}/events", pa.RecordBatch.from_pydict({"id": pa.array(ids)}))
        assert "Run is COMPLETED" in pipeline.run()
    tables = {name: pipeline.ids(name) for name in ("events", "counts", "snapshot")}
    assert {"events": [1, 2, 3], "counts": [1, 2, 3], "snapshot": [1, 2, 3]} == tables
    assert [1, 2, 3] == sorted(row["id"] for row in stored.rows("copies"))
    assert 2 == len([name for name in stored.names("copies/_log/") if name.endswith(".json")])
