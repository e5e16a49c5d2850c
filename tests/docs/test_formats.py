"""The tables of docs/FORMATS.md name the fields that the code writes, and no others.

A format is a heading of the page and a function in `WRITTEN` that returns documents as the code has written them.
"""

from __future__ import annotations

import io
import json
import re
from datetime import UTC, datetime, timedelta
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import fastavro
import pytest
from pyspark.sql.types import StructType

from adjunct_store.versions import manifest, pin
from azure_account.location import Location
from azureblob_source.log.commit_log import CommitLog
from azureblob_source.log.entry import Transaction
from azureblob_source.maintenance.vacuum import plan_vacuum, vacuum
from azureblob_source.read.options import source_options
from azureblob_source.read.source import ReadPlan
from azureblob_source.read.stream_source import StreamReader
from control_messages.messages import ControlMessage, Drain, EndOfStream, Watermark, to_fields
from coordination.checkpoints import TaskCheckpoint
from coordination.checkpoints import _entity as checkpoint_entity
from coordination.leadership.lease_document import LeaseDocument
from coordination.processors.coordinator_state import ProcessorDeclaration, ProcessorRow
from coordination.processors.job_model import BarrierState, JobModel, PublishedModel, to_content
from coordination.processors.processor_table import _entity as processor_entity
from state_backup import TaskIdentity, WriterSettings, open_state
from state_backup.spark.writers import note_openings, note_writer
from tests.adjunct_store.versions.test_manifest import MANIFEST
from tests.azureblob_source.log.committing import ROWS, rows
from tests.azureblob_source.write.sink_rows import committer, new_account, plan_of, stage_rows

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from azure_account.memory.account import MemoryAccount

PAGE = (Path(__file__).parents[2] / "docs" / "FORMATS.md").read_text("utf-8")
ROW = re.compile(r"^\| (`[^|]+`) \| ([^|]+) \|", re.MULTILINE)


def written_stream() -> MemoryAccount:
    """A stream of three versions in an account in memory, of which a vacuum has removed the first."""
    account = new_account()
    container, plan = account.container("container"), plan_of(ROWS, checkpointInterval=1)
    for batch in range(3):
        staged = stage_rows(container, plan, [rows([batch])], seed=batch)
        committer(container, plan, batch).commit([staged], Transaction("q", batch), overwrite=batch == 1)
    log = CommitLog(container, "flights", clock=account.clock)
    old = plan_vacuum(log, datetime.now(UTC) + timedelta(days=9999))
    vacuum(container, old, lambda: "vacuum")
    return account


def blobs(account: MemoryAccount, pattern: str) -> list[dict[str, Any]]:
    """The JSON documents of the container whose names match."""
    container = account.container("container")
    return [json.loads(container.get(blob.name).data) for blob in container.list("") if re.search(pattern, blob.name)]


def avro_files(pattern: str) -> list[tuple[dict[str, str], list[dict[str, Any]]]]:
    """The headers of Avro files whose names match, and their rows with the fields that are not Iceberg's."""
    container = written_stream().container("container")
    found = []
    for blob in container.list("flights/_iceberg/"):
        if re.search(pattern, blob.name):
            file = fastavro.reader(io.BytesIO(container.get(blob.name).data))
            schema: Any = file.writer_schema
            own = [each["name"] for each in schema["fields"] if each["field-id"] >= 10000]
            found.append((file.metadata, [{name: row[name] for name in own} for row in file]))
    return found


def checkpoints() -> list[dict[str, Any]]:
    return [
        {**json.loads(header.pop("azureblob.checkpoint")), **own_of(header), "rows": rows}
        for header, rows in avro_files(r"/snap-")
    ]


def manifests_of_logs() -> list[dict[str, Any]]:
    return [{**own_of(header), **row} for header, rows in avro_files(r"/m-") for row in rows]


def own_of(header: dict[str, str]) -> dict[str, str]:
    return {name: text for name, text in header.items() if name.startswith("azureblob.")}


def offsets() -> list[dict[str, Any]]:
    plan = ReadPlan(source_options({"path": "container/flights", "accountName": "account"}, {}))
    plan.container = written_stream().container("container")
    return [StreamReader(plan, StructType()).initialOffset()]


def state() -> MemoryAccount:
    """An account in memory with a state of which two checkpoints were backed up: in a pack, and in the index itself."""
    account = new_account()
    where = Location.in_container(account.container("container"), "flights/task-3")
    with TemporaryDirectory() as folder:
        for inline_bytes, name in ((0, "000012.sst"), (1000, "CURRENT")):
            (Path(folder) / name).write_bytes(b"rows")
            (Path(folder) / f"other-{name}").write_bytes(name.encode())
            writer = open_state(where, TaskIdentity("flights"), WriterSettings(inline_bytes=inline_bytes))
            writer.back_up({"store": folder}, {"kafka.flights.0": "1042"})
        checkpoint = Path(folder) / "checkpoint"
        note_writer(checkpoint, writer)
        note_openings(checkpoint, ["id"])
        for path in Path(folder).glob("*.json"):
            account.container("container").put(path.name, path.read_bytes())
    return account


MODEL = to_content(PublishedModel(JobModel(2, ("p",)), BarrierState.END, JobModel(1, ("p",))))
ROW_OF_PROCESSOR = ProcessorRow("p", 2, 3, ProcessorDeclaration(30.0))
MESSAGES: tuple[ControlMessage, ...] = (
    Watermark("a", 2, 5, 1, idle=True, stream="s", partition_count=8, sequence=7, writer=2, rows=117),
    EndOfStream("a", 2, "s", 1, 8, 7),
    Drain("a", 2, "run", 1, "s", 8, 7),
)


WRITTEN: dict[str, Callable[[], list[dict[str, Any]]]] = {
    "Log entries": lambda: blobs(written_stream(), r"/_log/\d+\.json"),
    "Checkpoints of the log": checkpoints,
    "Manifests of the log": manifests_of_logs,
    "Hints of the newest checkpoint": lambda: blobs(written_stream(), r"/_checkpoint\.json"),
    "Retention boundaries": lambda: blobs(written_stream(), r"/_first\.json"),
    "Offsets of streaming reads": offsets,
    "Checkpoint records": lambda: blobs(state(), r"/checkpoint\.json"),
    "Snapshot indexes": lambda: blobs(state(), r"/index/"),
    "Notes of writers": lambda: blobs(state(), r"\.writer\.json"),
    "Openings": lambda: blobs(state(), r"\.backup\.json"),
    "Manifests of stores": lambda: [json.loads(manifest.to_json(MANIFEST))],
    "Pins": lambda: [json.loads(pin.to_json(pin.Pin(7)))],
    "Control messages": lambda: [to_fields(message) for message in MESSAGES],
    "Lease blobs": lambda: [json.loads(LeaseDocument(1, "h", "l", content).to_json()) for content in ({}, MODEL)],
    "Rows of processors": lambda: [dict(processor_entity(ROW_OF_PROCESSOR, leads=True).properties)],
    "Checkpoints of tasks": lambda: [dict(checkpoint_entity("task", TaskCheckpoint(1, {"a": "1"})).properties)],
}


def documented(heading: str) -> dict[str, str]:
    """The fields that the page has below a heading, with their types."""
    _, _, section = PAGE.partition(f"## {heading}\n")
    return _rows(section.partition("\n## ")[0])


def _rows(text: str) -> dict[str, str]:
    return {name: type_ for names, type_ in ROW.findall(text) for name in re.findall("`([^`]+)`", names)}


SHARED = _rows(PAGE.partition("\n## ")[0])
"""The fields that the page has before the first heading: several formats have them."""


def fields(value: Any, types: dict[str, str], path: str = "") -> Iterator[str]:
    """The paths of a document's fields; those within a field only if its type is an object, or a list of objects."""
    if path and "object" not in types.get(path.removesuffix("[]"), ""):
        return
    if isinstance(value, list):
        for each in value:
            yield from fields(each, types, f"{path}[]")
    elif isinstance(value, dict):
        for name, each in value.items():
            below = f"{path}.{name}" if path else name
            yield below
            yield from fields(each, types, below)


def test_every_format_of_the_page_is_compared() -> None:
    assert list(WRITTEN) == re.findall(r"^## (.*)$", PAGE, re.MULTILINE)


@pytest.mark.parametrize("heading", WRITTEN)
def test_the_page_names_the_fields_that_are_written(heading: str) -> None:
    types = documented(heading)
    found = [set(fields(document, types)) for document in WRITTEN[heading]()]
    assert found
    types |= {name: type_ for name, type_ in SHARED.items() if any(name in names for names in found)}
    assert set(types) == set().union(*found)
    top = {name for name, type_ in types.items() if "." not in name and "absent" not in type_}
    assert [top] * len(found) == [names & top for names in found], "every document has every field"


@pytest.mark.parametrize(("heading", "first"), [("Checkpoints of the log", 10100), ("Manifests of the log", 10000)])
def test_the_ids_of_own_fields_rise_in_the_order_of_the_page(heading: str, first: int) -> None:
    pattern = r"/snap-" if first == 10100 else r"/m-"
    [(header, _), *_] = avro_files(pattern)
    ids = {each["name"]: each["field-id"] for each in json.loads(header["avro.schema"])["fields"]}
    own = [name.removeprefix("rows[].") for name in documented(heading)]
    assert [first + place for place in range(sum(id_ >= 10000 for id_ in ids.values()))] == [
        ids[name] for name in own if name in ids
    ]
