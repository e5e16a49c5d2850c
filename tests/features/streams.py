"""Reads, writes and maintenance of streams, called as Spark and the command line call them, in this process."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyspark.sql.types import LongType, StringType, StructField, StructType

from azure_account.values import BlobAttributes
from azureblob_source.audits import audit_stream
from azureblob_source.cli.app import app
from azureblob_source.compactions import compact_stream
from azureblob_source.datasource import AzureBlobDataSource
from azureblob_source.epochs import open_epoch
from azureblob_source.log.commit import commit_entry
from azureblob_source.log.commit_log import CommitLog
from azureblob_source.log.entry import Draft, Transaction
from azureblob_source.log.publishing.publish import Publisher, drop_staged_blocks
from azureblob_source.restores import restore_stream
from azureblob_source.reverts import revert_batches
from azureblob_source.write.options import sink_options
from azureblob_source.write.planning import plan_for_rows
from tests.azureblob_source.adoption.folder_writer import FOLDER, NOON, avro, capture_name
from tests.azureblob_source.write.sink_rows import stage_rows
from tests.features.place import CommandError, Feature, Place

if TYPE_CHECKING:
    from azureblob_source.log.entry import BlobEntry

ROWS = StructType([StructField("origin", StringType()), StructField("id", LongType())])
PARTITIONED: dict[str, Any] = {"partitionColumn": "origin"}
QUERY = "3f2a91c0-5b7e-4d0a-9d1c-6f1f0c7ad6d4"
VIEWS = ("blobs", "commits", "control", "schemas")


def batch_of(*ids: int, origin: str = "EWR") -> pa.RecordBatch:
    """A row for each id."""
    return pa.RecordBatch.from_pydict({"origin": [origin] * len(ids), "id": list(ids)})


def write(place: Place, *ids: int, overwrite: bool = False, origin: str = "EWR", **options: Any) -> None:
    """`df.write`, of one task."""
    writer: Any = AzureBlobDataSource(place.of_stream(**options)).writer(ROWS, overwrite)
    writer.commit([writer.write(iter([batch_of(*ids, origin=origin)]))])


def write_batch(place: Place, batch: int, *ids: int, complete: bool = False, **options: Any) -> None:
    """A micro-batch of a query, which is a transaction."""
    path = str(options.pop("path", "flights"))
    writer: Any = AzureBlobDataSource(place.of_stream(path, **options)).streamWriter(ROWS, complete)
    message = writer.write(iter([batch_of(*ids)]))
    staged = json.loads(message.staged)
    staged["writer"] = {**staged["writer"], "query": QUERY, "batch": batch}  # as Spark's task sets it
    message.staged = json.dumps(staged)
    writer.commit([message], batch)


def read(place: Place, path: str = "flights", **options: Any) -> list[int]:
    """`spark.read`: the ids."""
    source = AzureBlobDataSource(place.of_stream(path, **options))
    reader: Any = source.reader(source.schema())
    return sorted(
        row["id"] for rows in map(reader.read, reader.partitions()) for each in rows for row in each.to_pylist()
    )


def follow(place: Place, **options: Any) -> list[Any]:
    """`spark.readStream`, one trigger: the ids, or the rows of a view."""
    source = AzureBlobDataSource(place.of_stream(**options))
    reader: Any = source.streamReader(source.schema())
    start = reader.initialOffset()
    end = reader.latestOffset(start)
    found = [row for each in reader.partitions(start, end) for rows in reader.read(each) for row in rows.to_pylist()]
    reader.stop()
    return sorted(row["id"] for row in found) if "view" not in options else found


def view(place: Place, name: str) -> int:
    """The number of rows of a view."""
    source = AzureBlobDataSource(place.of_stream(view=name))
    reader: Any = source.reader(source.schema())
    return sum(rows.num_rows for each in reader.partitions() for rows in reader.read(each))


def sound(place: Place, **options: Any) -> list[int]:
    """The ids of a stream that an audit finds sound."""
    audit = audit_stream(place.at("flights"), older_than=0)
    assert not audit.findings, audit.findings
    return read(place, **options)


def two_versions(place: Place) -> None:
    """A stream with rows 1 and 2."""
    write(place, 1)
    write(place, 2)


def checkpointed(place: Place) -> None:
    """The same with a checkpoint of its log."""
    two_versions(place)
    place.command(app, "checkpoint", "{}/flights")


def two_partitions(place: Place) -> None:
    """A stream with row 1 in one partition and row 2 in another."""
    write(place, 1, **PARTITIONED)
    write(place, 2, origin="JFK", **PARTITIONED)


def unpublished(place: Place) -> None:
    """A stream whose last entry, with row 3, is not published: its driver has died."""
    two_versions(place)
    _commit_only(place, 3)


def unpublishable(place: Place) -> None:
    """A stream whose last entry has a visible blob, with row 3, and one whose blocks are gone."""
    two_versions(place)
    visible, gone = _commit_only(place, 3, 4)
    Publisher(place.container).publish_blob(visible, BlobAttributes())
    drop_staged_blocks(place.container, gone.name)


def _commit_only(place: Place, *ids: int) -> tuple[BlobEntry, ...]:
    """Put an entry with a blob for each id, and publish none."""
    plan = plan_for_rows(sink_options(place.of_stream(), {}), batch_of(*ids).schema)
    blobs = tuple(blob for each in ids for blob in stage_rows(place.container, plan, [batch_of(each)], seed=each).blobs)
    draft = Draft("only", datetime.now(UTC).isoformat(), transaction=Transaction(QUERY, 0), blobs=blobs)
    commit_entry(CommitLog(place.container, "flights"), draft, Publisher(place.container))
    return blobs


def leftovers(place: Place) -> None:
    """A stream, and blocks that no entry names."""
    two_versions(place)
    given = sink_options(place.of_stream(), {})
    plan = plan_for_rows(given, batch_of(9).schema)
    stage_rows(place.container, plan, [batch_of(9)], seed=5)


def overwritten(place: Place, **options: Any) -> None:
    """A stream whose first rows were overwritten."""
    two_versions(place)
    write(place, 3, overwrite=True, **options)


def query(place: Place) -> None:
    """A stream with three batches of a query."""
    for batch in range(3):
        write_batch(place, batch, batch + 1)


def captured(place: Place) -> None:
    """A folder as Event Hubs Capture writes it."""
    for minute, number in enumerate((1, 2)):
        place.container.put(capture_name(0, NOON.replace(minute=minute)), avro([number]))


def _ends(*arguments: str) -> Any:
    """A command of which only the effect counts."""

    def run(place: Place) -> None:
        place.command(app, *arguments)

    return run


def _shows(text: str, *arguments: str) -> Any:
    """A command that prints this text."""
    return lambda place: text in place.command(app, *arguments)


def _reading() -> list[Feature]:
    group, stream = "reads: batch, streaming, views, `ls`, `log`, `tail`, `audit`", "{}/flights"
    return [
        Feature(group, "batch read", read, [1, 2], two_versions),
        Feature(group, "`versionAsOf`", partial(read, versionAsOf=0), [1], two_versions),
        Feature(group, "read without a log", _numbers, [1, 2], captured),
        Feature(group, "streaming read", follow, [1, 2], two_versions),
        *(
            Feature(group, f"view `{name}`", partial(view, name=name), count, two_versions)
            for name, count in zip(VIEWS, (2, 2, 0, 1), strict=True)
        ),
        Feature(group, "`ls`", _shows("flights", "ls", "{}"), True, two_versions),
        Feature(group, "`log`", _shows("append", "log", stream), True, two_versions),
        Feature(group, "`tail`", _shows("EWR", "tail", stream), True, two_versions),
        Feature(
            group, "`audit`", _shows("flights is sound", "audit", stream, "--older-than", "0s"), True, two_versions
        ),
        Feature(
            group, "`checkpoint --verify`", _shows("is whole", "checkpoint", stream, "--verify"), True, checkpointed
        ),
    ]


def _numbers(place: Place) -> list[int]:
    source = AzureBlobDataSource(place.of_stream(FOLDER))
    reader: Any = source.reader(source.schema())
    return sorted(row["n"] for each in reader.partitions() for rows in reader.read(each) for row in rows.to_pylist())


def _writing() -> list[Feature]:
    group = "appends, `open_epoch`, `adopt`, `checkpoint`, `iceberg`"
    return [
        Feature(group, "append, batch", _write_three, [1, 2, 3], two_versions, sound),
        Feature(group, "append to a new stream", _write_three, [3], _nothing, sound),
        Feature(group, "append, streaming", lambda place: write_batch(place, 0, 3), [1, 2, 3], two_versions, sound),
        Feature(group, "append with `streamColumn`", _write_named, [3], _nothing, partial(read, path="EWR")),
        Feature(
            group, "`at-least-once`", partial(_write_three, deliveryGuarantee="at-least-once"), [3], _nothing, sound
        ),
        Feature(
            group, "append with `accessTier`", partial(_write_three, accessTier="Cool"), [1, 2, 3], two_versions, sound
        ),
        Feature(
            group,
            "`autoCompact`",
            partial(_write_three, autoCompact="true", checkpointInterval=1),
            [1, 2, 3],
            two_versions,
            sound,
        ),
        Feature(group, "`open_epoch`", lambda place: open_epoch(place.at("flights"), 7), [1, 2], two_versions, sound),
        Feature(group, "`checkpoint`", _ends("checkpoint", "{}/flights"), [1, 2], two_versions, sound),
        Feature(group, "`adopt`", _adopt, [1, 2], captured, _numbers),
        Feature(group, "`iceberg`", _iceberg, [1, 2], two_versions, sound),
    ]


def _nothing(place: Place) -> None:
    """Nothing is there."""


def _write_three(place: Place, **options: Any) -> None:
    write(place, 3, **options)


def _write_named(place: Place) -> None:
    options = place.of_stream()
    options["path"] = place.container_name
    options["streamColumn"] = "origin"
    writer: Any = AzureBlobDataSource(options).writer(ROWS, False)
    writer.commit([writer.write(iter([batch_of(3)]))])


def _adopt(place: Place) -> None:
    place.command(app, "adopt", f"{place.container_name}/{FOLDER}", "-o", "minBlobAgeMs=0")


def _iceberg(place: Place) -> None:
    place.command(app, "iceberg", "{}/flights")


def _deleting() -> list[Feature]:
    group = "overwrites, output mode `complete`, `repair`, `revert`, `restore`, `vacuum`, `compact`"
    again = partial(write, overwrite=True)
    return [
        Feature(group, "overwrite", lambda place: again(place, 3), [3], two_versions, sound),
        Feature(
            group,
            "overwrite of partitions",
            lambda place: again(place, 3, partitionOverwriteMode="dynamic", **PARTITIONED),
            [2, 3],
            two_partitions,
            sound,
        ),
        Feature(
            group,
            "output mode `complete`",
            lambda place: write_batch(place, 0, 3, complete=True),
            [3],
            two_versions,
            sound,
        ),
        Feature(
            group, "`keepReplaced`", lambda place: again(place, 3, keepReplaced="7 days"), [1, 2], two_versions, _kept
        ),
        Feature(
            group, "`repair` that publishes", _ends("repair", "{}/flights", "--yes"), [1, 2, 3], unpublished, sound
        ),
        Feature(
            group,
            "`repair --void`",
            _ends("repair", "{}/flights", "--void", "2", "--yes"),
            [1, 2],
            unpublishable,
            sound,
            again=_void_again,
        ),
        Feature(
            group,
            "`repair --leftovers`",
            _ends("repair", "{}", "--leftovers", "--older-than", "0s", "--yes"),
            ([1, 2], 0),
            leftovers,
            _left,
        ),
        Feature(
            group,
            "repeat of a batch whose blocks are gone",
            lambda place: write_batch(place, 0, 3, 4),
            [1, 2, 3, 4],
            unpublishable,
            sound,
        ),
        Feature(group, "`revert`", lambda place: revert_batches(place.at("flights"), QUERY, 0), [1], query, sound),
        Feature(
            group, "`restore`", lambda place: restore_stream(place.at("flights"), version=0), [1], two_versions, sound
        ),
        Feature(
            group,
            "`restore` of what is kept",
            lambda place: restore_stream(place.at("flights"), version=1),
            [1, 2],
            partial(overwritten, keepReplaced="7 days"),
            sound,
        ),
        Feature(
            group,
            "`vacuum`",
            _ends("vacuum", "{}/flights", "--older-than", "0s", "--force", "--yes"),
            [2],
            two_versions,
            sound,
        ),
        Feature(group, "`compact`", _compact, ([1, 2], 1), two_versions, _compacted),
    ]


def _kept(place: Place) -> list[int]:
    sound(place)
    return read(place, versionAsOf=1)


def _compact(place: Place) -> None:
    compact_stream(place.at("flights"))


def _compacted(place: Place) -> tuple[list[int], int]:
    return sound(place), view(place, "blobs")


def _void_again(place: Place) -> None:
    """Void a version that may be voided already; then its blobs are still to be deleted."""
    try:
        place.command(app, "repair", "{}/flights", "--void", "2", "--yes")
    except CommandError:
        place.command(app, "repair", "{}/flights", "--yes")


def _left(place: Place) -> tuple[list[int], int]:
    return sound(place), sum(not each.committed for each in place.container.list(uncommitted=True))


def _tagging() -> list[Feature]:
    group = "appends with index tags (`tags.*`)"
    return [
        Feature(
            group,
            "append with `tags.*`",
            partial(_write_three, tags__team="ops", **PARTITIONED),
            [("ops", [3])],
            _nothing,
            _tagged,
        ),
    ]


def _tagged(place: Place) -> list[tuple[str, list[int]]]:
    rows = sound(place)
    return [(blob.tags["team"], rows) for blob in place.container.list("flights/EWR", tags=True) if "team" in blob.tags]


FEATURES = [*_reading(), *_writing(), *_deleting(), *_tagging()]
