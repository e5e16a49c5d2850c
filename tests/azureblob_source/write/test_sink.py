"""Writers in this process, on the emulator: creation of the container, cached logs, repeated transactions."""

from __future__ import annotations

import logging
import re
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest
from azure.storage.blob import ContainerClient, generate_container_sas
from pyspark.sql.types import BooleanType, LongType, StringType, StructField, StructType

from azureblob_source.log.commit_log import CommitLog
from azureblob_source.write.destination import container_of
from azureblob_source.write.planning import prepare_write
from azureblob_source.write.sink import BatchWriter
from foundation.clock import ManualClock
from foundation.errors import ConfigurationError, NotFoundError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tools.azurite import Azurite

ROWS = StructType([StructField("id", LongType())])
PARTITIONED = {"partitionColumn": "id"}


@pytest.fixture
def key(azurite: Azurite) -> dict[str, str]:
    """The options of a client with all permissions of the account."""
    return {"connectionString": azurite.connection_string}


@pytest.fixture
def client(azurite: Azurite, container_name: str) -> Iterator[ContainerClient]:
    """The container through the Azure SDK. It does not exist yet."""
    with ContainerClient.from_connection_string(azurite.connection_string, container_name) as found:
        yield found


def sas(azurite: Azurite, container: str, permission: str) -> dict[str, str]:
    """The options of a client with a SAS for this container."""
    token = generate_container_sas(
        azurite.account_name,
        container,
        account_key=azurite.account_key,
        permission=permission,
        expiry=datetime.now(UTC) + timedelta(hours=1),
    )
    return {"endpoint": azurite.endpoint, "sasToken": token}


def writer(container: str, options: dict[str, str], **more: str) -> BatchWriter:
    plan = prepare_write({"path": f"{container}/events", **options, **more}, ROWS, {}, overwrite=False)
    return BatchWriter(plan, overwrite=False)


def append(container: str, options: dict[str, str], **more: str) -> BatchWriter:
    """Write one row."""
    found = writer(container, options, **more)
    found.commit([found.write(iter([pa.RecordBatch.from_pydict({"id": [1]})]))])
    return found


def rows_in(written: BatchWriter) -> int:
    container = container_of(written.plan)
    return sum(entry.rows for entry in CommitLog(container, "events").history())


def test_an_overwrite_of_a_partitioned_stream_must_say_what_it_replaces(
    key: dict[str, str], container_name: str
) -> None:
    raw = {"path": f"{container_name}/events", **key, **PARTITIONED}
    with pytest.raises(ConfigurationError, match="`dynamic` for the partitions .*, to `static` for the whole stream"):
        prepare_write(raw, ROWS, {}, overwrite=True)
    for mode, partitions in (("static", False), ("dynamic", True)):  # the advice, followed
        plan = prepare_write({**raw, "partitionOverwriteMode": mode}, ROWS, {}, overwrite=True)
        assert partitions == plan.of_commit.overwrite_partitions


def test_an_overwrite_of_partitions_needs_their_column_and_names_no_streams(
    key: dict[str, str], container_name: str
) -> None:
    raw = {"path": f"{container_name}/events", **key, "partitionOverwriteMode": "dynamic"}
    with pytest.raises(ConfigurationError, match="name their column as option `partitionColumn`, or set the mode to"):
        prepare_write(raw, ROWS, {}, overwrite=True)
    with pytest.raises(ConfigurationError, match="option `streamColumn` names many"):
        prepare_write({**raw, **PARTITIONED, "streamColumn": "id"}, ROWS, {}, overwrite=True)
    prepare_write(raw, ROWS, {}, overwrite=False)


@pytest.mark.parametrize(
    ("given", "overwrite", "streaming"), [({}, True, False), (PARTITIONED, False, False), (PARTITIONED, True, True)]
)
def test_other_writes_need_not_say_it(
    key: dict[str, str], container_name: str, given: dict[str, str], overwrite: bool, streaming: bool
) -> None:
    """Spark's setting is about overwrites of partitions by `df.write`, not about output mode `complete`."""
    raw = {"path": f"{container_name}/events", **key, **given}
    prepare_write(raw, ROWS, {}, overwrite=overwrite, streaming=streaming)


def test_rows_that_do_not_fit_the_stream_are_refused_before_a_task_runs(
    key: dict[str, str], container_name: str, client: ContainerClient
) -> None:
    append(container_name, key)
    texts, raw = StructType([StructField("id", StringType())]), {"path": f"{container_name}/events", **key}
    for streaming in (False, True, True):
        with pytest.raises(ConfigurationError, match="column 'id' is long in the stream and string in this write"):
            prepare_write(raw, texts, {}, overwrite=False, streaming=streaming)
    with pytest.raises(ConfigurationError, match="this write adds column 'new'"):
        prepare_write(
            {**raw, "schemaEvolution": "none"},
            StructType([*ROWS.fields, StructField("new", LongType())]),
            {},
            overwrite=False,
        )
    prepare_write(raw, texts, {}, overwrite=True)
    with pytest.raises(ConfigurationError, match="column 'id' is long in the stream and string in this write"):
        prepare_write({**raw, "partitionColumn": "id", "partitionOverwriteMode": "dynamic"}, texts, {}, overwrite=True)
    client.upload_blob("others/part-0.avro", b"x")
    with pytest.raises(ConfigurationError, match="the folder has 1 Avro files and no commit log"):
        prepare_write({**raw, "path": f"{container_name}/others"}, ROWS, {}, overwrite=False)


def test_a_task_refuses_the_stream_that_its_rows_name_and_do_not_fit(key: dict[str, str], container_name: str) -> None:
    append(container_name, key)
    raw = {"path": container_name, **key, "streamColumn": "to"}
    for value, kind in ((True, BooleanType()), (2, LongType())):
        rows = StructType([StructField("id", kind), StructField("to", StringType())])
        written = BatchWriter(prepare_write(raw, rows, {}, overwrite=False), overwrite=False)
        batch = pa.RecordBatch.from_pydict({"id": [value], "to": ["events"]})
        if value is True:
            with pytest.raises(ConfigurationError, match="column 'id' is long in the stream and boolean in this write"):
                written.write(iter([batch]))
        else:
            written.commit([written.write(iter([batch]))])
    assert 2 == rows_in(written)


def test_a_sas_for_a_container_that_exists_suffices(
    azurite: Azurite, container_name: str, client: ContainerClient
) -> None:
    client.create_container()
    options = sas(azurite, container_name, "rwlcd")
    append(container_name, options)
    assert 2 == rows_in(append(container_name, options))


def test_an_absent_container_is_created_with_a_warning(
    key: dict[str, str], container_name: str, client: ContainerClient, caplog: pytest.LogCaptureFixture
) -> None:
    assert 1 == rows_in(append(container_name, key))
    assert [f"container {client.url} did not exist and was created"] == [
        record.message for record in caplog.records if record.levelno == logging.WARNING
    ]
    caplog.clear()
    assert 2 == rows_in(append(container_name, key))
    assert [] == caplog.records


def test_an_absent_container_that_may_not_be_created_is_named_with_the_next_step(
    azurite: Azurite, key: dict[str, str], container_name: str, client: ContainerClient
) -> None:
    options = sas(azurite, container_name, "rwlcd")
    with pytest.raises(ConfigurationError) as caught:
        append(container_name, options)
    text = str(caught.value)
    assert re.match(f"write to container .*{container_name} failed: it does not exist and cannot be created", text)
    assert text.endswith("Check its name, or create it first with an identity that has the permission.")
    append(container_name, key)
    assert 2 == rows_in(append(container_name, options)), "the advice, followed"


def test_a_misspelt_container_is_an_error_without_create_container(
    key: dict[str, str], container_name: str, client: ContainerClient
) -> None:
    with pytest.raises(NotFoundError, match="it does not exist, and option `createContainer` is false") as caught:
        append(container_name, key, createContainer="false")
    assert not client.exists()
    assert "Check its name, create it first, or leave out option `createContainer`." in str(caught.value)
    client.create_container()
    assert 1 == rows_in(append(container_name, key, createContainer="false")), "the advice, followed"


def test_the_container_of_checkpoint_backups_is_created_by_the_same_rule(
    key: dict[str, str], container_name: str, client: ContainerClient, caplog: pytest.LogCaptureFixture
) -> None:
    backups = f"{container_name}-backups"
    raw = {
        "path": f"{container_name}/events",
        **key,
        "checkpointLocation": "/mnt/a",
        "checkpointBackup": f"{backups}/a",
    }
    client.create_container()
    with pytest.raises(NotFoundError, match=f"{backups} failed: it does not exist, and option `createContainer`"):
        prepare_write({**raw, "createContainer": "false"}, ROWS, {}, overwrite=False, streaming=True)
    for _ in range(2):
        prepare_write(raw, ROWS, {}, overwrite=False, streaming=True)
    assert 1 == caplog.text.count(f"{backups} did not exist and was created")


def test_a_deleted_container_is_created_again_by_the_same_process(
    key: dict[str, str], container_name: str, client: ContainerClient
) -> None:
    append(container_name, key)
    append(container_name, key)
    client.delete_container()
    written = append(container_name, key)
    assert [0] == [entry.version for entry in CommitLog(container_of(written.plan), "events").history()]


def test_the_container_of_a_streaming_query_is_checked_once_a_minute(
    key: dict[str, str], container_name: str, client: ContainerClient
) -> None:
    raw, clock = {"path": f"{container_name}/events", **key}, ManualClock()

    def next_batch(seconds: float) -> bool:
        """Plan a micro-batch `seconds` later. Returns whether the container exists then."""
        clock.advance(seconds)
        prepare_write(raw, ROWS, {}, overwrite=False, streaming=True, clock=clock)
        return client.exists()

    assert next_batch(1)
    client.delete_container()
    assert not next_batch(59)
    assert next_batch(1)


def test_each_write_of_a_process_uses_its_own_credentials(
    azurite: Azurite, key: dict[str, str], container_name: str, client: ContainerClient
) -> None:
    client.create_container()
    staged = writer(container_name, key).write(iter([pa.RecordBatch.from_pydict({"id": [1]})]))
    with pytest.raises(ConfigurationError, match="sasToken lacks the permission"):
        writer(container_name, sas(azurite, container_name, "r")).commit([staged])
    entitled = writer(container_name, key)
    entitled.commit([staged])
    assert 1 == rows_in(entitled)


def test_the_second_write_of_a_transaction_is_dropped_with_a_warning_and_advice(
    key: dict[str, str], container_name: str, caplog: pytest.LogCaptureFixture
) -> None:
    append(container_name, key, txnAppId="copy", txnVersion="2")
    caplog.clear()
    for version in ("2", "1"):
        assert 1 == rows_in(append(container_name, key, txnAppId="copy", txnVersion=version))
    dropped = [record.getMessage() for record in caplog.records if "were dropped" in record.getMessage()]
    assert 2 == len(dropped)
    assert f"the rows of this write to {container_name}/events were dropped, " in dropped[0]
    assert dropped[0].endswith("a second write needs a `txnAppId` of its own")
    caplog.clear()
    assert 2 == rows_in(append(container_name, key, txnAppId="copy/second", txnVersion="2")), "the advice, followed"
    assert [] == caplog.records


def test_a_wrong_key_is_refused_before_anything_is_staged(azurite: Azurite, container_name: str) -> None:
    wrong = {"endpoint": azurite.endpoint, "accountKey": "d3Jvbmcga2V5"}
    with pytest.raises(ConfigurationError, match="403 .* Check accountKey"):
        append(container_name, wrong)
