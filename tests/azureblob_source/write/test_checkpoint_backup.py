"""The backup of a checkpoint within the commit of a batch, called as Spark calls it."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

from azure_account import connect
from azureblob_source.log.commit_log import CommitLog
from azureblob_source.write.options import sink_options
from azureblob_source.write.planning import plan_for_rows
from azureblob_source.write.sink import CommitMessage, StreamWriter
from foundation.errors import FencedError
from state_backup.record.names import StateNames
from tests.azureblob_source.write.sink_rows import stage_rows
from tests.state_backup.spark.checkpoint_files import QUERY, batch_files, write_files

if TYPE_CHECKING:
    from pathlib import Path

    from tools.azurite import Azurite

ROWS = pa.record_batch({"n": [1]})


def test_a_backup_within_the_commit_has_the_epoch_of_the_query_and_refuses_lower_ones(
    azurite: Azurite, container_name: str, tmp_path: Path
) -> None:
    account = {"connectionString": azurite.connection_string}
    container = connect(sink_options({**account, "path": f"{container_name}/a"}, {}).account).container(container_name)
    container.create()

    def commit(batch: int, epoch: int, checkpoint: Path) -> None:
        files = batch_files(batch)
        write_files(checkpoint, {name: text for name, text in files.items() if not name.startswith("commits")})
        backup = {"checkpointBackup": f"{container_name}/backup", "checkpointLocation": str(checkpoint)}
        given = sink_options({**account, **backup, "path": f"{container_name}/a", "epoch": str(epoch)}, {})
        plan = plan_for_rows(given, ROWS.schema)
        staged = replace(stage_rows(container, plan, [ROWS], seed=batch), writer={"query": QUERY, "task": 0})
        StreamWriter(plan, overwrite=False).commit([CommitMessage(staged.to_json())], batch)

    commit(0, 7, tmp_path / "first")
    record = StateNames("backup").record
    assert 7 == json.loads(container.get(record).data)["epoch"]
    before = container.get(record).data
    with pytest.raises(FencedError, match="backup"):
        commit(0, 6, tmp_path / "second")
    assert before == container.get(record).data
    assert [0] == [entry.version for entry in CommitLog(container, "a").history()]
