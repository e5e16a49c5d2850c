"""The examples of the guide of adjunct stores, run in the order of its pages, and its command line."""

from __future__ import annotations

import json
import re
import shutil
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import functions as F  # noqa: N812 - as everyone calls it
from typer.testing import CliRunner

from adjunct_store.cli.app import app
from adjunct_store.host.folders import store_folder
from adjunct_store.spark import release_pins
from adjunct_store.versions.manifest_store import read_manifest
from azure_account.location import Location
from control_messages.producer import ProducerSpec
from control_messages.spark import AzureBlobTransport, control_envelopes
from tools.guides import python_blocks, with_account

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import SparkSession

pytestmark = pytest.mark.slow

DOCS = Path(__file__).parents[3] / "docs"
GUIDE = DOCS / "ADJUNCT_STORES.md"
OPERATIONS = DOCS / "ADJUNCT_STORES_OPERATIONS.md"
PAGES = (GUIDE, DOCS / "ADJUNCT_STORES_FILLING.md", OPERATIONS)
STORES = ("planes", "airports", "routes", "fleet", "fleet-by-stream", "airlines", "leased", "prices")


@pytest.fixture
def account(azurite: Any, container_name: str) -> Iterator[dict[str, str]]:
    options = {"connectionString": azurite.connection_string}
    container = Location(f"{container_name}/stores", options).open()  # which a fill creates
    yield options
    release_pins()
    for store in STORES:  # the guide uses the default cache directory
        shutil.rmtree(store_folder(container, f"stores/{store}", None).path)


def examples(account: dict[str, str], container_name: str, folder: Path) -> list[str]:
    return [
        with_account(code, account).replace('"mycontainer', f'"{container_name}').replace("/mnt/", f"{folder}/")
        for page in PAGES
        for code in python_blocks(page)
    ]


def write_inputs(folder: Path) -> None:
    """What the guide's streams read."""
    changes = [{"tailnum": tail, "seats": 100 + at, "at": at, "op": "U"} for at, tail in enumerate("abc")]
    write_json(folder / "changes", [*changes, {"tailnum": "a", "at": 7, "op": "D"}])
    (folder / "flights").mkdir()
    pq.write_table(pa.table({"flight": [1, 2, 3], "tailnum": ["a", "b", "x"]}), folder / "flights" / "0.parquet")
    events = [
        {"stream": "price", "article": "tea", "price": 2.5, "at": 1},
        {"stream": "order", "article": "tea", "at": 2},
        {"stream": "order", "article": "rum", "at": 3},
    ]
    write_json(folder / "events", events)


def write_json(folder: Path, rows: list[dict[str, Any]]) -> None:
    folder.mkdir()
    (folder / "0.json").write_text("".join(json.dumps(row) + "\n" for row in rows))


def write_data_set(spark: SparkSession, path: str, options: dict[str, str]) -> None:
    """A stream with one complete data set, as a bounded job writes it."""
    transport = AzureBlobTransport(Location(path, options))
    producer = ProducerSpec("planes", partitions=2, tasks=1, generation=0)
    planes = spark.createDataFrame([("a", 1), ("b", 2)], "tail string, seats int")
    message = F.to_json(F.struct("tail", "seats")).cast("binary")
    transport.append(planes.select(F.lit(0).alias("partition"), F.concat(F.lit(b"\x00"), message).alias("value")))
    transport.append(control_envelopes(spark, replace(producer), producer.end_of_stream()))


def printed(code: str) -> list[str]:
    """What the comments after calls of `print` say."""
    return re.findall(r"^print\(.*\)  # (.*)$", code, re.MULTILINE)


@pytest.mark.timeout(600)
def test_the_examples_of_the_guide_work(
    spark: SparkSession,
    account: dict[str, str],
    container_name: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    write_inputs(tmp_path)
    write_data_set(spark, f"{container_name}/planes", account)
    names: dict[str, Any] = {"__name__": "__main__"}
    codes = examples(account, container_name, tmp_path)
    outputs = []
    for code in codes:
        exec(compile(code, str(GUIDE), "exec"), names)  # noqa: S102 - a file of this repository
        outputs.append(capsys.readouterr().out)
        for line in printed(code):
            assert line in outputs[-1].splitlines(), (line, outputs[-1])
    quick, _which, own, _changes, stream, _sets, data_sets, _several, shuffled, _memory = outputs

    table = re.search(r"(?:    [+|].*\n)+", GUIDE.read_text("utf-8"))
    assert table is not None
    assert re.sub(r"^    ", "", table[0], flags=re.MULTILINE) in quick
    assert "generation 1, batches up to 0, 2 entries" in stream
    found = {row.flight: row.seats for row in spark.read.parquet(str(tmp_path / "enriched")).collect()}
    assert {1: None, 2: 101, 3: None} == found
    assert "upserts=2" in data_sets
    orders = spark.read.parquet(str(tmp_path / "orders")).collect()
    assert {("tea", 2.5), ("rum", None)} == {(row.article, row.price) for row in orders}
    assert "|   EWR|" in shuffled
    assert "|   LGA| " in own
    assert re.search(r"^\|\s*\d+\|\s*2[5-9]\d\d\|$", own, re.MULTILINE)  # miles of flights to the west coast


@pytest.mark.timeout(600)
def test_the_commands_of_the_guide_print_what_it_shows(
    spark: SparkSession, account: dict[str, str], container_name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    quick, *_ = examples(account, container_name, tmp_path)
    exec(compile(quick, str(GUIDE), "exec"), {"__name__": "__main__"})  # noqa: S102
    for store in STORES[2:]:
        Location(f"{container_name}/stores/{store}", account).open()
        store_folder(Location(f"{container_name}/x", account).open(), f"stores/{store}", None)
    monkeypatch.setenv("AZURE_STORAGE_CONNECTION_STRING", account["connectionString"])
    monkeypatch.setenv("COLUMNS", "150")
    text = OPERATIONS.read_text("utf-8")
    (console,) = re.findall(r"```console\n(.*?)```", text, re.DOTALL)
    manifest = read_manifest(Location(f"{container_name}/stores/planes", account).open(), "stores/planes")
    assert manifest is not None
    for command, shown in re.findall(r"^\$ python -m adjunct_store (.*)\n((?:[^$].*\n|\n)*)", console, re.MULTILINE):
        arguments = command.replace("mycontainer", container_name).split()
        result = CliRunner().invoke(app, arguments)
        assert 0 == result.exit_code, result.output
        assert comparable(shown) == comparable(result.stdout), result.stdout
    for command, expected in {
        f"ls {container_name}": "stores/planes",
        f"get {container_name}/stores/airports JF --prefix": "John F Kennedy Intl",
        f"verify {container_name}/stores/planes --deep": "all checksums match, 3,322 entries in the right places",
    }.items():
        result = CliRunner().invoke(app, command.split())
        assert 0 == result.exit_code, result.output
        assert expected in result.stdout


def comparable(output: str) -> list[str]:
    """Lines without what differs each time: times, sizes, files, ids of readers, spaces and rules."""
    output = re.sub(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d", "TIME", output)
    output = re.sub(r"\d+(\.\d+)? [KM]?i?B", "SIZE", output)
    output = re.sub(r"\d+ files", "FILES", output)  # RocksDB decides
    output = re.sub(r"batch-[0-9a-f]{5,}", "READER", output)
    return [" ".join(line.split()) for line in output.splitlines() if line.strip() and not line.startswith("─")]
