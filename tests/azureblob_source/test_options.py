from __future__ import annotations

import pickle
import re
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from arrow_avro import ReadLimits
from azure_account.address import Address
from azure_account.options.authentication import DefaultIdentity
from azure_account.values import BlobAttributes
from azureblob_source.foreign_options import HINTS
from azureblob_source.log.entry import Transaction
from azureblob_source.options import SINK, SOURCE, TABLE, WHERE
from azureblob_source.read.blobs import ALL_BLOBS, BlobSelection
from azureblob_source.read.options import SourceOptions, source_options
from azureblob_source.spark_options import OWN
from azureblob_source.write.commit_plan import BackupPlan
from azureblob_source.write.open_blobs import BlobLimits
from azureblob_source.write.options import SinkOptions, sink_options
from azureblob_source.write.routing import Router
from control_messages.producer import ProducerSpec
from foundation.errors import ConfigurationError
from tools.options_page import page

ACCOUNT = {"accountName": "acme", "accountKey": "c2VjcmV0a2V5"}
PRODUCER = ProducerSpec("flights", 3, ("a", "ß"), generation=2, lateness_ms=500)
SCHEMA = '{"type":"record","name":"r","fields":[{"name":"n","type":"long"}]}'


def sink(path: str = "data/flights", **given: Any) -> SinkOptions:
    raw = {name.replace("__", "."): str(value) for name, value in given.items()}
    return sink_options({"path": path, **ACCOUNT, **raw}, {})


def test_the_defaults_are_those_of_the_design() -> None:
    options = sink()
    assert Address("data", "flights") == options.address
    assert Router("flights") == options.router
    assert (10 << 20, None, None, None, 50_000) == (
        options.limits.block_bytes,
        options.limits.blob_bytes,
        options.limits.blob_rows,
        options.limits.blob_age,
        options.limits.blob_blocks,
    )
    assert (64 << 20) <= options.limits.memory_budget <= (128 << 20)
    assert ("null", False, None, "row", None) == (
        options.codec,
        options.gzipped,
        options.avro_schema,
        options.record_name,
        options.record_namespace,
    )
    assert (2, 4, 180.0, 300.0) == (options.threads, options.queue, options.flush_timeout, options.close_timeout)
    assert (True, False, True) == (options.random_suffix, options.at_least_once, options.validate_datums)
    assert (None, None, None, None) == (
        options.epoch,
        options.transaction,
        options.event_time_column,
        options.value_column,
    )
    assert BlobAttributes() == options.attributes


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({"streamColumn": "s"}, {"router": Router("flights", "s")}),
        ({"partitionColumn": "p", "dropRoutingColumns": "TRUE"}, {"router": Router("flights", None, "p", True)}),
        ({"partitionOverwriteMode": "STATIC"}, {"overwrite_mode": "static"}),
        ({"partitionOverwriteMode": "dynamic"}, {"overwrite_mode": "dynamic"}),
        ({"keepReplaced": "7 days"}, {"keep_replaced": timedelta(days=7)}),
        ({}, {"overwrite_mode": None, "keep_replaced": None, "fixed_schema": False}),
        ({"schemaEvolution": "addColumns"}, {"fixed_schema": False}),
        ({"codec": "ZSTANDARD"}, {"codec": "zstandard"}),
        ({"compression__type": "gzip"}, {"gzipped": True}),
        ({"recordName": "Flight", "recordNamespace": "acme"}, {"record_name": "Flight", "record_namespace": "acme"}),
        ({"valueColumn": "v", "avroSchema": SCHEMA, "validateDatums": "false"}, {"value_column": "v"}),
        ({"suffixRandomStringToBlobName": "false"}, {"random_suffix": False}),
        ({"threadPoolCount": 5}, {"threads": 5, "queue": 10}),
        ({"threadPoolCount": 5, "blockingQueueSize": 0}, {"threads": 5, "queue": 0}),
        ({"flushTimeoutMs": 1500, "closeTimeoutMs": "2m"}, {"flush_timeout": 1.5, "close_timeout": 120.0}),
        ({"deliveryGuarantee": "at-least-once"}, {"at_least_once": True}),
        ({"eventTimeColumn": "t"}, {"event_time_column": "t"}),
        ({}, {"bounds_columns": None}),
        ({"boundsColumns": "b, a,b"}, {"bounds_columns": ("b", "a")}),
        ({}, {"iceberg_paths": None}),
        ({"icebergPaths": "wasbs"}, {"iceberg_paths": None}),
        ({"icebergTable": "true"}, {"iceberg_paths": "abfss"}),
        ({"icebergTable": "true", "icebergPaths": "wasbs"}, {"iceberg_paths": "wasbs"}),
        ({"boundsColumns": "none"}, {"bounds_columns": ()}),
        ({"valueColumn": "v", "avroSchema": SCHEMA}, {"bounds_columns": ()}),
        ({"epoch": 0}, {"epoch": 0}),
        ({}, {"envelope_column": None, "emission": None}),
        ({"envelopeColumn": "e"}, {"envelope_column": "e", "emission": None}),
        ({"emission": PRODUCER.to_json()}, {"envelope_column": "value", "emission": PRODUCER}),
        ({"emission": PRODUCER.to_json(), "envelopeColumn": "value"}, {"envelope_column": "value"}),
        ({"txnAppId": "app", "txnVersion": 7}, {"transaction": Transaction("app", 7)}),
        ({}, {"commit_info": None}),
        ({"commitInfo": " late rows "}, {"commit_info": "late rows"}),
        ({"commitInfo": "é" * 512}, {"commit_info": "é" * 512}),
        ({}, {"backup": None}),
        (
            {"checkpointBackup": "other/backups/a", "checkpointLocation": "/mnt/a"},
            {"backup": BackupPlan(sink().account, Address("other", "backups/a"), "/mnt/a")},
        ),
        (
            {"metadata__owner": "ops", "tags__class": "raw", "accessTier": "cool"},
            {"attributes": BlobAttributes({"owner": "ops"}, {"class": "raw"}, "Cool")},
        ),
    ],
)
def test_options_are_parsed_into_types(given: dict[str, Any], expected: dict[str, Any]) -> None:
    options = sink(**given)
    assert expected == {name: getattr(options, name) for name in expected}


def test_limits_are_in_bytes_rows_and_seconds() -> None:
    options = sink(maxFlushThresholdSize="64k", maxBlobSize="1GiB", maxMessagesPerBlob=10, maxBlobAgeMs="1h")
    expected = BlobLimits(64 << 10, 1 << 30, 10, 3600.0, memory_budget=options.limits.memory_budget)
    assert expected == options.limits
    assert sink(memoryBudget="3m").limits.memory_budget == 2 << 20


VALUES = {
    "path": "data/flights", "container": "data", "stream": "flights", "avroSchema": SCHEMA,
    "bodySchema": SCHEMA, "auth": "accountKey",
    "codec": "deflate", "compression.type": "none", "accessTier": "Hot", "deliveryGuarantee": "exactly-once",
    "view": "commits", "metadata.*": "x", "tags.*": "x", "metadataColumns": "version", "icebergPaths": "wasbs",
    "emission": '{"stream":"flights","partitions":2}', "checkpointBackup": "data/checkpoints/a",
    "logPath": "logs/flights", "partitionOverwriteMode": "static", "keepReplaced": "7 days",
    "startTime": "2013-01-31", "endTime": "2013-02-01", "startingTimestamp": "2013-01-31T12:00:00Z",
    "timestampAsOf": "2013-01-31T12:00:00Z",
}  # fmt: skip


@pytest.mark.parametrize(
    "option", [*WHERE.options, *OWN.options, *SINK.options, *SOURCE.options], ids=lambda option: option.name
)
def test_every_option_is_accepted_in_lower_case_as_spark_passes_it(option: Any) -> None:
    default = "1048576" if option.default is None else str(option.default).lower()
    value = VALUES.get(option.name, default)
    if option.name == "schemaEvolution":  # it has other values for writes than for reads
        assert sink(schemaEvolution="NONE").fixed_schema
        assert (
            "ignore"
            == source_options({"path": "data/flights", **ACCOUNT, "schemaevolution": "IGNORE"}, {}).schema_evolution
        )
        return
    key = option.name.replace("*", "key").lower()
    companions = {
        "txnAppId": {"txnversion": "1"},
        "txnVersion": {"txnappid": "a"},
        "valueColumn": {"avroschema": SCHEMA},
        "checkpointBackup": {"checkpointlocation": "/data/a"},
    }
    raw = {"path": "data/flights", **ACCOUNT, key: value, **companions.get(option.name, {})}
    assert isinstance(sink_options(raw, {}), SinkOptions)
    assert source_options(raw, {}).stream == "flights"
    assert option.name in TABLE.parse(raw).given


HINTED = sorted(HINTS)
NOT_OPTIONS = {
    "commits", "earliest", "latest", "gzip", "fail", "ignore", "overwrite", "dynamic", "metadata.<key>", "load",
    ".save('container/stream')", "CREATE TEMPORARY VIEW name USING azureblob OPTIONS (path 'container/stream', …)",
    "unionByName", "python -m azureblob_source vacuum",
}  # fmt: skip


@pytest.mark.parametrize("name", HINTED)
def test_hints_for_options_of_other_systems_name_options_that_exist(name: str) -> None:
    assert name not in {option.name.lower() for option in TABLE.options}
    named = set(re.findall("`([^`]+)`", HINTS[name]))
    assert named <= {option.name for option in TABLE.options} | NOT_OPTIONS
    assert named or HINTS[name].startswith("Leave it out: ")


@pytest.mark.parametrize(
    ("name", "sentence"),
    [
        ("as-of-timestamp", "`timestampAsOf` is its name here."),
        ("maxFilesPerTrigger", "`maxBlobsPerTrigger` is its name here."),
        ("failOnDataLoss", "Start it with a new checkpoint then."),
        ("mergeSchema", "writers may add columns, and a read uses the superset of their schemas."),
    ],
)
def test_options_of_other_systems_get_a_hint_in_any_case(name: str, sentence: str) -> None:
    for spelled in (name, name.lower()):
        with pytest.raises(ConfigurationError, match=f"Option `{spelled}` is unknown. .*{re.escape(sentence)}$"):
            source_options({"path": "data/flights", **ACCOUNT, spelled: "x"}, {})


OF_CREATE_TABLE = {
    "connectionsecret": "UseDevelopmentStorage=true", "external": "true", "location": "data/flights",
    "option.connectionsecret": "UseDevelopmentStorage=true", "option.path": "data/flights", "owner": "root",
    "path": "data/flights", "provider": "azureblob", "comment": "flights of 2013", "team": "ops",
}  # fmt: skip
"""What the schema of `CREATE TABLE` gets from Spark 4.3, with a table property `team`."""


@pytest.mark.parametrize("order", [sorted, lambda names: sorted(names, reverse=True)], ids=["first", "last"])
def test_create_table_is_refused_as_such_whichever_option_comes_first(order: Any) -> None:
    with pytest.raises(
        ConfigurationError, match="^create table failed: .* for a catalog table. No catalog table"
    ) as it:
        source_options({name: OF_CREATE_TABLE[name] for name in order(OF_CREATE_TABLE)}, {})
    assert "CREATE TEMPORARY VIEW name USING azureblob OPTIONS (path " in str(it.value)


def test_without_a_container_catalog_tables_are_named_since_these_have_no_options() -> None:
    for parse in (sink_options, source_options):
        with pytest.raises(
            ConfigurationError, match="^No container is named. .* use `CREATE TEMPORARY VIEW name USING"
        ):
            parse({}, {})


@pytest.mark.parametrize(
    ("typo", "name"),
    [("checkpointLocaton", "checkpointLocation"), ("queryNam", "queryName"), ("connectionSecrt", "connectionSecret")],
)
def test_a_misspelt_option_is_refused_with_the_nearest_name_among_those_of_spark_too(typo: str, name: str) -> None:
    with pytest.raises(ConfigurationError, match=f"^Option `{typo}` is unknown. Did you mean {name}\\?$"):
        sink(**{typo: "x"})


def test_a_misspelt_option_of_a_read_gets_no_suggestion_of_a_write_and_vice_versa() -> None:
    with pytest.raises(ConfigurationError, match="is unknown. The options are"):
        source_options({"path": "data/flights", **ACCOUNT, "eventTimeColum": "x"}, {})
    with pytest.raises(ConfigurationError, match="Did you mean eventTimeColumn"):
        sink(eventTimeColum="x")


@pytest.mark.parametrize("option", TABLE.options, ids=lambda option: option.name)
def test_every_option_has_a_help_text(option: Any) -> None:
    assert option.help.endswith(".")
    assert f"| `{option.name}` |" in page()


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"partitionColum": "p"}, "`partitionColum` is unknown. Did you mean partitionColumn?"),
        ({"maxflushtresholdsize": 1}, "Did you mean maxFlushThresholdSize?"),
        ({"compression": "gzip"}, "`compression.type` (`gzip`) the whole blob."),
        ({"location": "file:/x"}, "Save and load by path, as in `.save('container/stream')`; for SQL, use `CREATE"),
        ({"ignoreCorruptFile": "true"}, "Option `ignoreCorruptFile` is unknown. The options are"),
        ({"codec": "zstd"}, "Option `codec`: the value 'zstd' is not valid"),
        ({"boundsColumns": "a,,b"}, "Option `boundsColumns`: the value 'a,,b' is not valid (a name is empty)"),
        (
            {"boundsColumns": ",".join(map(str, range(17)))},
            "(it has 17); expected `none`, or names separated by commas",
        ),
        ({"codec": "deflat"}, "did you mean deflate?"),
        ({"maxFlushThresholdSize": 0}, "Option `maxFlushThresholdSize`"),
        ({"maxFlushThresholdSize": "4001m"}, "out of range"),
        ({"maxBlobSize": "999999999t"}, "out of range"),
        ({"maxMessagesPerBlob": 0}, "Option `maxMessagesPerBlob`"),
        ({"memoryBudget": "1k"}, "Option `memoryBudget`"),
        ({"threadPoolCount": 65}, "Option `threadPoolCount`"),
        ({"epoch": -1}, "Option `epoch`"),
        ({"commitInfo": ""}, "Option `commitInfo`: the value '' is not valid (it is empty)"),
        ({"commitInfo": "é" * 513}, "is not valid (it has 1,026 bytes); expected text of at most 1,024 bytes in UTF-8"),
        ({"schemaEvolution": "ignore"}, "is ignore, which is for streaming reads: set `addColumns` or `none`"),
        ({"partitionOverwriteMode": "all"}, "Option `partitionOverwriteMode`"),
        ({"keepReplaced": "a week"}, "Option `keepReplaced`"),
        ({"keepReplaced": "7 days", "accessTier": "Archive"}, "Leave one of them out"),
        ({"dropRoutingColumns": "yes"}, "Option `dropRoutingColumns`"),
        ({"flushTimeoutMs": "soon"}, "Option `flushTimeoutMs`"),
        ({"codec": "deflate", "compression__type": "gzip"}, "compressed twice. Set one"),
        (
            {"valueColumn": "v"},
            "Option `valueColumn` (v) holds encoded datums: set their schema as option `avroSchema`",
        ),
        ({"avroSchema": "{"}, "Option `avroSchema` is not a valid Avro schema"),
        ({"txnAppId": "app"}, "`txnAppId` and `txnVersion` belong together"),
        ({"txnVersion": 1}, "`txnAppId` and `txnVersion` belong together"),
        (
            {"metadata__a-b": "x"},
            "Metadata name 'a-b' is not valid: use letters, digits and _, and no digit first. Change option",
        ),
        ({"metadata__a": "Zürich"}, "Metadata a = 'Zürich' is not valid"),
        ({"metadata__Azureblob_Attempt": "x"}, "the sink stores its attempt id under this key"),
        ({"metadata__a": "x" * 8200}, "8192 bytes of metadata"),
        ({f"tags__t{n}": "x" for n in range(11)}, "10 index tags, not 11. Change option `metadata.*` or `tags.*`"),
        ({"tags__a": "x" * 257}, "Index tag 'a' is not valid: a key has 1 to 128 characters"),
        ({"tags__a": "ä"}, "Index tag 'a' = 'ä' is not valid"),
        ({"envelopeColumn": "e", "valueColumn": "v", "avroSchema": SCHEMA}, "Leave `valueColumn` out"),
        ({"emission": PRODUCER.to_json(), "valueColumn": "v", "avroSchema": SCHEMA}, "Leave `valueColumn` out"),
        ({"emission": PRODUCER.to_json(), "envelopeColumn": "e"}, "`envelopeColumn` (e) and `emission` disagree"),
        ({"emission": PRODUCER.to_json(), "streamColumn": "s"}, "`emission` is for one stream"),
        ({"emission": "{"}, "Option `emission`: the value '{' is not valid"),
        ({"emission": '{"stream":"s","partitions":0}'}, "expected the JSON of a `control_messages` `ProducerSpec`"),
        ({"emission": '{"stream":"s","partitions":1,"task":2}'}, "Option `emission`"),
        ({"checkpointBackup": "data/backups/a"}, "is for streaming queries: set option `checkpointLocation`"),
        ({"checkpointBackup": "data", "checkpointLocation": "/a"}, "(data) names no state: give `container/path`"),
        ({"checkpointBackup": "data/flights", "checkpointLocation": "/a"}, "would share a folder"),
        ({"checkpointBackup": "data/flights/a", "checkpointLocation": "/a"}, "would share a folder"),
        ({"stream": "other"}, "The path names stream 'flights', but option `stream` is 'other'"),
    ],
)
def test_a_wrong_option_is_refused_by_name_with_the_next_step(given: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        sink(**given)
    assert message in str(caught.value)


def test_the_url_of_the_path_names_account_and_endpoint() -> None:
    options = sink_options({"path": "abfss://data@acme.dfs.core.windows.net/flights"}, {})
    assert ("acme", "https://acme.blob.core.windows.net") == (options.account.account, options.account.blob_endpoint)
    assert DefaultIdentity() == options.account.auth
    with pytest.raises(ConfigurationError, match=r"different storage accounts: other \(accountName\)"):
        sink_options({"path": "https://acme.blob.core.windows.net/data/flights", "accountName": "other"}, {})


@pytest.mark.parametrize("secret", [{"accountKey": "c2VjcmV0a2V5"}, {"sasToken": "sv=1&sig=c2VjcmV0a2V5"}])
def test_options_are_pickled_to_the_executors_and_show_no_secret(secret: dict[str, str]) -> None:
    raw = {
        "path": "data/flights",
        "accountName": "acme",
        **secret,
        "avroSchema": SCHEMA,
        "emission": PRODUCER.to_json(),
    }
    for options in (sink_options(raw, {}), source_options(raw, {})):
        assert options == pickle.loads(pickle.dumps(options))  # noqa: S301 - our own bytes
        assert "c2VjcmV0a2V5" not in repr(options)
    assert "c2VjcmV0a2V5" not in repr(TABLE.parse(raw))


def test_a_read_needs_a_stream_and_parses_view_version_and_columns() -> None:
    options = source_options({"path": "data/a/b", **ACCOUNT, "versionAsOf": "3", "columns": "x, y"}, {})
    assert ("a/b", "data", 3, ("x", "y")) == (options.stream, options.view, options.version, options.columns)
    with pytest.raises(ConfigurationError, match="No stream is named to read from container 'data'"):
        source_options({"path": "data", **ACCOUNT}, {})


def read(streaming: bool | None = None, **given: Any) -> SourceOptions:
    raw = {"path": "data/flights", **ACCOUNT, **{name: str(value) for name, value in given.items()}}
    return source_options(raw, {}, streaming=streaming)


def test_the_defaults_of_a_read() -> None:
    options = read()
    assert ("data", None, (), ALL_BLOBS) == (
        options.view, options.columns, options.metadata_columns, options.selection,
    )  # fmt: skip
    assert (False, 32 << 20, 120.0) == (options.ignore_corrupt, options.split_bytes, options.publish_timeout)
    assert ("earliest", None, 1000, None) == (
        options.starting_version, options.starting_time, options.max_blobs, options.max_bytes,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({"metadataColumns": "version, blob,version"}, {"metadata_columns": ("version", "blob")}),
        ({"startTime": "1970-01-01T00:00:01"}, {"selection": BlobSelection((1_000_000, None))}),
        ({"startTime": "1970-01-02", "endTime": "1970-01-02T01:00:00.5+01:00"},
         {"selection": BlobSelection((86_400_000_000, 86_400_500_000))}),
        ({"ignoreExtension": "true"}, {"any_extension": True}),
        ({"recursiveFieldMaxDepth": "15"}, {"recursion": 15}),
        ({"recursiveFieldMaxDepth": "-1"}, {"recursion": 0}),
        ({"invalidUtf8": "replace"}, {"limits": ReadLimits(replace_invalid_utf8=True)}),
        ({"ignoreCorruptBlobs": "true", "maxPartitionBytes": "1m"}, {"ignore_corrupt": True, "split_bytes": 1 << 20}),
        ({"generations": "newest", "view": "control"}, {"newest_generation": True}),
        ({"startingVersion": "LATEST"}, {"starting_version": "latest"}),
        ({"startingVersion": "7"}, {"starting_version": 7}),
        ({"timestampAsOf": "2013-01-31T12:00:05+01:00"}, {"as_of_time": datetime(2013, 1, 31, 11, 0, 5, tzinfo=UTC)}),
        ({"startingTimestamp": "2013-01-31T12:00:05Z"}, {"starting_time": datetime(2013, 1, 31, 12, 0, 5, tzinfo=UTC)}),
        ({"maxBytesPerTrigger": "1g", "publishTimeoutMs": "5s"}, {"max_bytes": 1 << 30, "publish_timeout": 5.0}),
    ],
)  # fmt: skip
def test_options_of_a_read_are_parsed_into_types(given: dict[str, Any], expected: dict[str, Any]) -> None:
    options = read(**given)
    assert expected == {name: getattr(options, name) for name in expected}


@pytest.mark.parametrize(
    ("streaming", "given", "message"),
    [
        (None, {"view": "comits"}, "did you mean commits?"),
        (None, {"generations": "newest"}, "Option `generations` is for the view `control`"),
        (None, {"metadataColumns": "version,time"}, "time is not one of them"),
        (None, {"partitions": "EWR,,JFK"}, "Option `partitions`: the value 'EWR,,JFK' is not valid (a value is empty)"),
        (None, {"partitions": "EWR\\"}, r"(it ends with a backslash); expected values or globs such as `EWR,gate-*`; "),
        (None, {"partitions": "EWR", "view": "blobs"}, "`partitions` is for the rows: filter the view by its column"),
        (None, {"startTime": "yesterday"}, "Option `startTime`: the value 'yesterday' is not valid"),
        (None, {"startTime": "2013-01-02", "endTime": "2013-01-01"}, "`startTime` is not before `endTime`"),
        (None, {"startingVersion": "-1"}, "Option `startingVersion`"),
        (None, {"startingVersion": 1, "startingTimestamp": "2013-01-01"}, "exclude each other. Set one."),
        (None, {"timestampAsOf": "now"}, "Option `timestampAsOf`: the value 'now' is not valid"),
        (None, {"versionAsOf": 1, "timestampAsOf": "2013-01-01"}, "`timestampAsOf` exclude each other. Set one."),
        (True, {"timestampAsOf": "2013-01-01"}, "Option `timestampAsOf` belongs to spark.read. Leave it out here."),
        (True, {"versionAsOf": 1}, "Option `versionAsOf` belongs to spark.read. Leave it out here."),
        (False, {"startingVersion": 1}, "Option `startingVersion` belongs to spark.readStream. Leave it out here."),
        (False, {"maxBlobsPerTrigger": 1}, "Option `maxBlobsPerTrigger` belongs to spark.readStream."),
    ],
)
def test_a_wrong_option_of_a_read_is_refused(streaming: bool | None, given: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        read(streaming, **given)
    assert message in str(caught.value)


def test_a_write_needs_no_stream_if_a_column_names_the_streams() -> None:
    options = sink("data", streamColumn="s")
    assert replace(options.address, endpoint=None) == Address("data")
    assert Router(None, "s") == options.router


def test_the_options_page_is_up_to_date() -> None:
    stored = Path(__file__).parents[2] / "docs" / "OPTIONS.md"
    assert page() == stored.read_text(encoding="utf-8"), "run: python -m tools.options_page > docs/OPTIONS.md"
