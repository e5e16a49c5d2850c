"""The command line on stores in an account in memory."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

from adjunct_store.cli.app import app
from adjunct_store.cli.key_texts import typed_key
from adjunct_store.encoding.schema import StoreSchema
from adjunct_store.encoding.spark_hash import partition_of
from adjunct_store.engine import PartitionStore
from adjunct_store.versions.manifest_store import open_fill
from adjunct_store.versions.names import StoreNames
from adjunct_store.versions.opening import FillRequirements
from adjunct_store.versions.pins import pin_version
from adjunct_store.versions.transitions import Publication
from azure_account.cli.commands import ERROR
from azure_account.cli.texts import size_text
from azure_account.location import Location
from azure_account.memory.account import MemoryAccount
from azure_account.memory.faults import FaultInjector, Refuse, on
from foundation.errors import ConfigurationError
from foundation.host_locks import exclusive
from state_backup.backup.settings import TaskIdentity
from state_backup.backup.writer import open_state
from state_backup.local import scan
from tests.adjunct_store import tasks
from tests.adjunct_store.tasks import BatchWriter, location_of
from tests.command_lines import CommandLine

if TYPE_CHECKING:
    from pathlib import Path


STORE = "stores/planes"
WHERE = f"box/{STORE}"
run = CommandLine(app)
document = run.document
VALUES = pa.schema([("model", pa.string()), ("seats", pa.int32())])
SCHEMA = StoreSchema(pa.schema([("id", pa.int64())]), VALUES, partitions=2, ordered=True)


@pytest.fixture(autouse=True)
def columns(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "160")


@pytest.fixture
def account() -> MemoryAccount:
    account = MemoryAccount()
    account.container("box").create()
    return account


@pytest.fixture
def planes(account: MemoryAccount, tmp_path: Path) -> BatchWriter:
    """A store of two versions: planes 0 to 9, then plane 3 is deleted."""
    writer = new_store(account, tmp_path)
    writer.run(0, {key: {"model": f"A{key}", "seats": 100 + key} for key in range(10)}, order=1)
    writer.run(1, {3: None}, order=2)
    return writer


def new_store(account: MemoryAccount, tmp_path: Path, store: str = STORE, **settings: Any) -> BatchWriter:
    container = account.container("box")
    fill = open_fill(
        Location.in_container(container, store),
        SCHEMA.to_json(),
        FillRequirements(partitions=2, source="planes", threads=1, **settings),
    )
    return BatchWriter(location_of(container, store), fill, SCHEMA, tmp_path / "writer")


def cache(tmp_path: Path) -> tuple[str, str]:
    return "--cache-dir", str(tmp_path / "cache")


def blobs_of(account: MemoryAccount, generation: int = 1) -> list[str]:
    prefix = StoreNames(STORE).generation_prefix(generation)
    return [blob.name for blob in account.container("box").list(prefix)]


# --- ls ---------------------------------------------------------------------------------------------------------------


def test_stores_are_listed_with_what_readers_get(account: MemoryAccount, planes: BatchWriter, tmp_path: Path) -> None:
    new_store(account, tmp_path, "stores/airports", bootstrap=True)
    pin_version(account.container("box"), STORE, "query", 7)
    lines = run(account, "ls", "box").stdout.splitlines()
    header, _, airports, row = (line.split() for line in lines)
    assert ["store", "generation", "version", "batch", "entries", "size"] == header[:6]
    assert ["stores/airports", "–", "–", "–", "–", "–", "–", "–", "0"] == airports
    assert [STORE, "1", "2", "1", "9"] == row[:5]
    assert ["2", "serving", "1"] == row[-3:]
    assert lines == run(account, "ls", "box/stores/").stdout.splitlines()


def test_one_store_is_listed_with_its_versions_and_who_has_pinned_them(
    account: MemoryAccount, planes: BatchWriter
) -> None:
    container = account.container("box")
    pin_version(container, STORE, "query", 7, version=1)
    result = run(account, "ls", WHERE)
    lines = result.stdout.splitlines()
    assert f"{STORE}: readers get version 2; epoch 1, keeps 3" == lines[0]
    assert "generation 1: source planes; not bootstrapped; 2 partitions; keys id bigint" == lines[1]
    two, one = lines[4].rstrip(), lines[5].rstrip()
    assert ["2", "1", "serving", "1", "9"] == two.split()[:5] and two.endswith("–")
    assert ["1", "1", "serving", "0", "10"] == one.split()[:5] and one.endswith("query (batch 7)")
    assert lines[6].startswith("1 pin; the oldest is of query, ")
    for reader in "abcd":
        pin_version(container, STORE, reader, 0)
    two = run(account, "ls", WHERE).stdout.splitlines()[4].rstrip()
    assert two.endswith("a (batch 0), b (batch 0), c (batch 0) and 1 more")


def test_a_version_that_only_a_pin_keeps_is_shown_as_retiring(account: MemoryAccount, planes: BatchWriter) -> None:
    pin_version(account.container("box"), STORE, "query", 7, version=1)
    for batch in (2, 3):
        planes.run(batch, {1: {"model": "new", "seats": batch}}, order=batch)
    found = document(account, "ls", WHERE)["stores"][0]
    assert [4, 3, 2, 1] == [each["version"] for each in found["versions"]]
    assert ["serving", "serving", "serving", "retiring"] == [each["state"] for each in found["versions"]]
    assert [("query", "7", 1, True)] == [
        (each["reader"], each["batch"], each["version"], each["confirmed"]) for each in found["pins"]
    ]
    assert 4 == found["newest"]
    assert "  3 serving, 1 retiring  " in run(account, "ls", "box").stdout


def test_versions_that_readers_do_not_get_yet_are_shown_as_not_visible(account: MemoryAccount, tmp_path: Path) -> None:
    writer = new_store(account, tmp_path, bootstrap=True)
    writer.run(0, {1: {"model": "A", "seats": 1}}, order=1)
    lines = run(account, "ls", WHERE).stdout.splitlines()
    assert f"{STORE}: readers get no version yet; epoch 1, keeps 3" == lines[0]
    assert "not bootstrapped, not visible to readers" in lines[1]
    assert ["1", "1", "not", "visible"] == lines[4].split()[:4]
    writer.run(1, {2: {"model": "B", "seats": 2}}, order=1, bootstrapped=True)
    assert "readers get version 2" in run(account, "ls", WHERE).stdout


def test_a_damaged_manifest_or_pin_does_not_hide_the_rest(
    account: MemoryAccount, planes: BatchWriter, tmp_path: Path
) -> None:
    container = account.container("box")
    pin_version(container, STORE, "query", 7)
    container.put(StoreNames(STORE).pin("other", 1), b"{}")
    container.put("stores/broken/store.json", b'{"format-version":1}')
    result = run(account, "ls", "box")
    assert 0 == result.exit_code
    assert "unreadable" in result.stdout and STORE in result.stdout
    assert "stores/broken: Manifest stores/broken/store.json is damaged" in result.stderr
    assert "pins/other/00000000000000000001.json is damaged" in result.stderr
    broken, good = document(account, "ls", "box")["stores"]
    assert "is damaged" in broken["error"]
    assert [None, 2] == [each["version"] for each in sorted(good["pins"], key=lambda each: each["reader"])]


def test_an_empty_container_has_no_stores(account: MemoryAccount) -> None:
    result = run(account, "ls", "box/stores")
    assert (0, "Container box has no store in stores.\n") == (result.exit_code, result.stderr)
    assert {"container": "box", "stores": []} == document(account, "ls", "box")


# --- get --------------------------------------------------------------------------------------------------------------


def test_get_prints_the_value_of_a_key_and_fetches_its_partition_only(
    account: MemoryAccount, planes: BatchWriter, tmp_path: Path
) -> None:
    result = run(account, "get", WHERE, "4", *cache(tmp_path))
    assert (0, ["model  A4", "seats  104"]) == (result.exit_code, result.stdout.splitlines())
    fetched = [path for path in (tmp_path / "cache").glob("*/g1/p*/*-*") if path.is_dir()]
    assert 1 == len(fetched)
    expected = {"store": STORE, "version": 2, "key": {"id": 4}, "value": {"model": "A4", "seats": 104}}
    assert expected == document(account, "get", WHERE, "4", *cache(tmp_path))


def test_what_the_disk_has_damaged_is_fetched_again_by_the_next_get(
    account: MemoryAccount, planes: BatchWriter, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(scan, "_SETTLED_SECONDS", -1.0)
    for version in ("1", "2"):
        assert 0 == run(account, "get", WHERE, "4", "--version", version, *cache(tmp_path)).exit_code
    for path in (tmp_path / "cache").rglob("*.sst"):  # some are of both versions
        found = path.stat()
        path.write_bytes(bytes(found.st_size))
        os.utime(path, ns=(found.st_atime_ns, found.st_mtime_ns))
    errors = []
    for version in ("1", "2"):
        first, second = (run(account, "get", WHERE, "4", "--version", version, *cache(tmp_path)) for _ in range(2))
        errors += [first.stderr] if first.exit_code else []
        assert (0, ["model  A4", "seats  104"]) == (second.exit_code, second.stdout.splitlines()), second.stderr
    assert errors
    assert all("run this again" in " ".join(each.split()) for each in errors)


def test_get_of_a_deleted_key_is_an_error_and_an_older_version_has_it(
    account: MemoryAccount, planes: BatchWriter, tmp_path: Path
) -> None:
    result = run(account, "get", WHERE, "3", *cache(tmp_path))
    assert (ERROR, f"Version 2 of {STORE} has no key 3.\n") == (result.exit_code, result.stderr)
    assert document(account, "get", WHERE, "3", *cache(tmp_path), code=ERROR)["value"] is None
    older = document(account, "get", WHERE, "3", "--version", "1", *cache(tmp_path))
    assert (1, {"model": "A3", "seats": 103}) == (older["version"], older["value"])


def test_get_with_prefix_prints_entries_in_key_order_up_to_the_limit(
    account: MemoryAccount, planes: BatchWriter, tmp_path: Path
) -> None:
    found = document(account, "get", WHERE, "--prefix", "--limit", "4", *cache(tmp_path))
    assert ([0, 1, 2, 4], True) == ([each["key"]["id"] for each in found["entries"]], found["more"])
    result = run(account, "get", WHERE, "--prefix", "--limit", "2", *cache(tmp_path))
    assert [["0", "A0", "100"], ["1", "A1", "101"]] == [line.split() for line in result.stdout.splitlines()[2:]]
    assert "There are more; --limit shows more than 2.\n" == result.stderr
    one = run(account, "get", WHERE, "7", "--prefix", *cache(tmp_path))
    assert (["7", "A7", "107"], "") == (one.stdout.splitlines()[2].split(), one.stderr)
    none = run(account, "get", WHERE, "--prefix", *cache(tmp_path), "--", "-1")
    assert (ERROR, f"Version 2 of {STORE} has no such key.\n") == (none.exit_code, none.stderr)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((WHERE, "four"), "'four' is not a value of key column 'id' (bigint). Give a whole number."),
        ((WHERE, str(1 << 70)), "Key column 'id' of the store has type bigint; "),
        ((WHERE,), "has 0 values; the store has the columns id"),
        ((WHERE, "1", "2"), "2 values are given; the store has 1 key columns: id bigint."),
        ((WHERE, "1", "--version", "9"), "it has no version 9; its versions are 2, 1"),
        (("box/stores/boats", "1"), "the store does not exist"),
        (("box/stores//boats", "1"), "stores//boats"),
        (("box", "1"), "No store is named in container box: give `container/store`."),
    ],
)
def test_what_cannot_be_looked_up_is_an_error(
    account: MemoryAccount, planes: BatchWriter, tmp_path: Path, arguments: tuple[str, ...], message: str
) -> None:
    result = run(account, "get", *arguments, *cache(tmp_path))
    assert ERROR == result.exit_code
    assert message in result.stderr


def test_a_store_without_a_version_for_readers_is_an_error(account: MemoryAccount, tmp_path: Path) -> None:
    new_store(account, tmp_path)
    result = run(account, "get", WHERE, "1", *cache(tmp_path))
    assert ERROR == result.exit_code
    assert "no version that readers get; its versions are none" in result.stderr


TYPES = pa.schema(
    [
        ("flag", pa.bool_()),
        ("small", pa.int8()),
        ("name", pa.string()),
        ("raw", pa.binary()),
        ("day", pa.date32()),
        ("at", pa.timestamp("us", "UTC")),
        ("local", pa.timestamp("us")),
    ]
)


def test_texts_become_values_of_the_key_columns() -> None:
    texts = ["TRUE", "-5", "007", "00ff", "2013-01-31", "2013-01-31T05:15:00+01:00", "2013-01-31T05:15"]
    found = typed_key(texts, TYPES)
    assert [
        True,
        -5,
        "007",
        b"\x00\xff",
        "2013-01-31",
        "2013-01-31T05:15:00+01:00",
        "2013-01-31T05:15:00",
    ] == [each.isoformat() if hasattr(each, "isoformat") else each for each in found]
    assert typed_key([*texts[:5], "2013-01-31T04:15:00Z"], TYPES)[5] == found[5]
    assert typed_key([*texts[:5], "2013-01-31T04:15:00"], TYPES)[5] == found[5]


@pytest.mark.parametrize(
    ("place", "text"),
    [(0, "yes"), (1, "1.5"), (3, "zz"), (4, "31.1.2013"), (5, "noon"), (6, "2013-01-31T05:15:00+00:00")],
)
def test_a_text_that_is_no_value_of_its_column_is_refused_with_the_form(place: int, text: str) -> None:
    with pytest.raises(ConfigurationError, match=f"not a value of key column '{TYPES[place].name}'.*Give "):
        typed_key([text], pa.schema([TYPES[place]]))


# --- verify -----------------------------------------------------------------------------------------------------------


def test_a_whole_store_is_verified_and_nothing_is_changed(account: MemoryAccount, planes: BatchWriter) -> None:
    container = account.container("box")
    before = {blob.name: blob.etag for blob in container.list("")}
    for deep in ([], ["--deep"]):
        found = document(account, "verify", WHERE, *deep)
        assert [(2, True, 2), (1, True, 2)] == [
            (each["version"], each["whole"], each["partitions"]) for each in found["versions"]
        ]
        assert [[9, 10] if deep else [None, None]] == [[each["entries"] for each in found["versions"]]]
    lines = run(account, "verify", WHERE, "--deep").stdout.splitlines()
    assert lines[0].startswith("Version 2 (generation 1, batch 1) is whole: 2 partitions, ")
    assert lines[0].endswith("all checksums match, 9 entries in the right places.")
    assert before == {blob.name: blob.etag for blob in container.list("")}


def test_a_lost_blob_is_found_without_deep(account: MemoryAccount, planes: BatchWriter) -> None:
    container = account.container("box")
    lost = next(name for name in blobs_of(account) if "/files/" in name)
    container.delete(lost)
    result = run(account, "verify", WHERE)
    assert ERROR == result.exit_code
    assert f"{lost}: it is gone" in result.stdout
    assert ERROR == run(account, "verify", WHERE, "--deep").exit_code


def test_a_lost_record_or_checkpoint_is_a_fault_of_each_version_that_needs_it(
    account: MemoryAccount, planes: BatchWriter
) -> None:
    account.container("box").delete(f"{StoreNames(STORE).state(1, 0)}/checkpoint.json")
    versions = document(account, "verify", WHERE, code=ERROR)["versions"]
    assert [False, False] == [each["whole"] for each in versions]
    assert all(each["faults"][0].startswith("partition 0: ") for each in versions)


def test_damaged_bytes_are_found_by_deep_only(account: MemoryAccount, planes: BatchWriter) -> None:
    container = account.container("box")
    largest = max((blob for blob in container.list(f"{STORE}/g1/") if "/files/" in blob.name), key=lambda b: b.size)
    data = bytearray(container.get(largest.name).data)
    data[len(data) // 2] ^= 1
    container.put(largest.name, bytes(data))
    assert 0 == run(account, "verify", WHERE).exit_code
    faults = [
        fault for each in document(account, "verify", WHERE, "--deep", code=ERROR)["versions"]
        for fault in each["faults"]
    ]  # fmt: skip
    assert any("checksum" in fault for fault in faults)


def test_keys_in_another_partition_than_their_hash_gives_are_found_by_deep(
    account: MemoryAccount, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As if the shuffle and the look-up did not agree: nobody would find these keys."""
    monkeypatch.setattr(tasks, "partition_of", lambda keys, partitions: 1 - partition_of(keys, partitions))
    new_store(account, tmp_path).run(0, {key: {"model": "A", "seats": 1} for key in range(10)}, order=1)
    assert 0 == run(account, "verify", WHERE).exit_code
    [version] = document(account, "verify", WHERE, "--deep", code=ERROR)["versions"]
    assert [True, True] == ["keys belong to other partitions" in fault for fault in version["faults"]]


@pytest.mark.parametrize(
    ("key", "record", "fault"),
    [
        (b"\x01" + bytes(8), b"\x01" + bytes(8), "cannot be decoded"),
        (b"\x01" + bytes(8), b"\x01", "neither value nor deleted"),
        (b"\x01" + bytes(8), b"\x07" + bytes(9), "neither value nor deleted"),
        (b"\x01" + bytes(3), b"\x00" + bytes(8), "not encoded as they should be"),
    ],
    ids=["a datum that ends early", "a record that ends early", "an unknown kind", "a key that ends early"],
)
def test_entries_that_cannot_be_read_are_found_by_deep(
    account: MemoryAccount, tmp_path: Path, key: bytes, record: bytes, fault: str
) -> None:
    writer = new_store(account, tmp_path)
    with PartitionStore(tmp_path / "rocks", SCHEMA) as store:
        store._database.rdict[key] = record
        state = open_state(
            Location.in_container(account.container("box"), StoreNames(STORE).state(1, 0)), TaskIdentity("test")
        )
        with store.checkpoint() as directory:
            checkpoint = str(state.back_up({"store": directory}).id)
    writer.fill.publish(Publication(0, {0: checkpoint}, 1, 100))
    [version] = document(account, "verify", WHERE, "--deep", code=ERROR)["versions"]
    assert any(fault in each for each in version["faults"]), version["faults"]
    assert any("it has no position" in each for each in version["faults"])


def test_counts_that_differ_from_the_manifest_are_found_by_deep(account: MemoryAccount, tmp_path: Path) -> None:
    writer = new_store(account, tmp_path)
    reports = writer.write(0, {key: {"model": "A", "seats": 1} for key in range(10)}, order=1)
    writer.fill.publish(Publication(0, {each.partition: each.checkpoint for each in reports}, 11, 100))
    assert 0 == run(account, "verify", WHERE).exit_code
    [version] = document(account, "verify", WHERE, "--deep", code=ERROR)["versions"]
    assert ["it has 10 entries, and its manifest says 11"] == version["faults"]


def test_verify_of_what_is_no_store_is_an_error(account: MemoryAccount, tmp_path: Path) -> None:
    result = run(account, "verify", WHERE)
    assert ERROR == result.exit_code
    assert "it has no manifest" in result.stderr
    new_store(account, tmp_path)
    assert f"Store {STORE} has no version yet.\n" == run(account, "verify", WHERE).stdout


# --- clean-cache ------------------------------------------------------------------------------------------------------


def test_clean_cache_frees_what_no_process_has_open(
    account: MemoryAccount, planes: BatchWriter, tmp_path: Path
) -> None:
    directory = tmp_path / "cache"
    run(account, "get", WHERE, "4", *cache(tmp_path))
    with exclusive(next(directory.glob("*/g1/p*")) / "lock"):
        kept = document(account, "clean-cache", *cache(tmp_path))
        assert (str(directory), 0) == (kept["cacheDir"], kept["freedBytes"])
        size = size_text(kept["leftBytes"])
        assert f"Freed 0 B in {directory}; {size} are in use.\n" == run(account, "clean-cache", *cache(tmp_path)).stdout
    result = run(account, "clean-cache", *cache(tmp_path))
    assert (0, f"Freed {size} in {directory}; nothing is left.\n") == (result.exit_code, result.stdout)
    assert [] == list(directory.iterdir())
    assert 0 == run(account, "get", WHERE, "4", *cache(tmp_path)).exit_code


# --- all --------------------------------------------------------------------------------------------------------------


def test_errors_of_the_account_are_one_message(account: MemoryAccount, planes: BatchWriter) -> None:
    refused = account.restarted(FaultInjector(on("list", Refuse())))
    result = run(refused, "ls", "box")
    assert ERROR == result.exit_code
    assert 1 == len(result.stderr.strip().splitlines())


def test_a_container_that_cannot_be_is_refused(account: MemoryAccount) -> None:
    result = run(account, "ls", "Not_A_Container")
    assert ERROR == result.exit_code
    assert "Not_A_Container" in result.stderr


WITHOUT_ROCKSDB = """
import runpy, sys
sys.modules["rocksdict"] = None
sys.argv = ["adjunct_store", "ls", "box"]
runpy.run_module("adjunct_store", run_name="__main__")
"""


def test_a_missing_extra_is_named() -> None:
    ended = subprocess.run([sys.executable, "-c", WITHOUT_ROCKSDB], capture_output=True, text=True, check=False)
    assert (1, "") == (ended.returncode, ended.stdout)
    assert 'Adjunct stores need the extra `rocksdb`: pip install "pyspark-azureblob[rocksdb]".\n' == ended.stderr
