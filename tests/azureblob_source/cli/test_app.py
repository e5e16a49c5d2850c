from __future__ import annotations

import json
import subprocess
import sys
import time
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from typer.testing import CliRunner

from azure_account import connect
from azure_account.cli.commands import FINDINGS, INTERRUPTED, UNCONFIRMED
from azure_account.cli.shell import CommandContext
from azure_account.memory.account import MemoryAccount
from azure_account.memory.faults import Crash, Fault, FaultInjector, ProcessDied
from azure_account.memory.service import MemoryService
from azure_account.values import BlobAttributes
from azureblob_source.cli.app import app
from azureblob_source.cli.output import rows_table
from azureblob_source.log.commit_log import CommitLog
from azureblob_source.log.entry import Draft, Transaction
from azureblob_source.log.publishing.publish import Publisher
from azureblob_source.log.relocating.restore import restore
from azureblob_source.maintenance.reverting import carry_out, plan_revert
from azureblob_source.write.options import sink_options
from azureblob_source.write.planning import plan_for_rows
from foundation.clock import ManualClock
from tests.azureblob_source.write.sink_rows import committer, plan_of, put_anyway, stage_rows
from tests.command_lines import SECRET, CommandLine
from tests.scripted_clock import ScriptedClock

if TYPE_CHECKING:
    from typer.testing import Result

    from azure_account.retrying.retry_loop import Request
    from tools.azurite import Azurite

DAY = 24 * 3600.0
ROWS = pa.schema([("origin", pa.string()), ("n", pa.int64())])
QUERY = "3f2a91c0-5b7e-4d0a-9d1c-6f1f0c7ad6d4"
run = CommandLine(app)


def write(account: MemoryAccount, batch: int, numbers: range, *, stream: str = "flights", **options: Any) -> None:
    container = account.container("demo")
    container.create()
    plan = plan_of(ROWS, f"demo/{stream}", **options)
    rows = pa.record_batch([["EWR"] * len(numbers), list(numbers)], schema=ROWS)
    staged = stage_rows(container, plan, [rows], seed=batch)
    committer(container, plan, batch).commit([staged], Transaction(QUERY, batch))


@pytest.fixture
def account() -> MemoryAccount:
    """Three versions of ten rows, a day apart, the newest a day old."""
    account = MemoryAccount(MemoryService(clock=ManualClock()))
    for batch in range(3):
        write(account, batch, range(10 * batch, 10 * batch + 10))
        account.clock.sleep(DAY)
    return account


@pytest.fixture(autouse=True)
def columns(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")


def error_of(result: Result) -> tuple[int, str]:
    """Exit code and standard error of a command that printed nothing to standard output."""
    assert result.stdout == ""
    return result.exit_code, result.stderr.strip()


# --- ls ---------------------------------------------------------------------------------------------------------------


def test_ls_lists_streams_and_folders_without_a_log(account: MemoryAccount) -> None:
    container = account.container("demo")
    write(account, 0, range(5), stream="a/b")
    for name in ("old/2013/01/31/12/05-07.avro", "old/2013/01/31/13/05-07.avro", "x.avro", "x.txt", "old/_h/y.avro"):
        container.put(name, b"12345")
    streams = json.loads(run(account, "ls", "demo", "--json").stdout)["streams"]
    assert [("", None, 1, None, 5), ("a/b", 0, 1, 5), ("flights", 2, 3, 30), ("old", None, 2, None, 10)] == [
        (each["name"], each["version"], each["blobs"], each["rows"], *([] if each["log"] else [each["bytes"]]))
        for each in streams
    ]
    lines = run(account, "ls", "demo").stdout.splitlines()
    assert ["stream", "(top level) (no log)", "a/b", "flights", "old (no log)"] == [
        line[:22].strip() for line in (lines[0], *lines[2:])
    ]
    assert all(len(line) <= 80 for line in lines)


def test_ls_takes_a_prefix(account: MemoryAccount) -> None:
    write(account, 0, range(5), stream="a/b")
    assert ["a/b"] == [each["name"] for each in json.loads(run(account, "ls", "demo/a", "--json").stdout)["streams"]]


def test_ls_counts_live_blobs(account: MemoryAccount) -> None:
    container, plan = account.container("demo"), plan_of(ROWS, "demo/flights")
    staged = stage_rows(container, plan, [pa.record_batch([["JFK"], [1]], schema=ROWS)], seed=9)
    committer(container, plan, 9).commit([staged], Transaction(QUERY, 9), overwrite=True)
    [flights] = json.loads(run(account, "ls", "demo", "--json").stdout)["streams"]
    assert (1, 1, 0, 3) == (flights["blobs"], flights["rows"], flights["firstVersion"], flights["version"])


def test_ls_and_repair_name_files_of_other_programs_in_a_stream(account: MemoryAccount) -> None:
    container = account.container("demo")
    for name in ("flights/part-0.avro", "flights/EWR/part-1.avro", "flights/_tmp/a.avro", "flights/a.txt"):
        container.put(name, b"x")
    [flights] = json.loads(run(account, "ls", "demo", "--json").stdout)["streams"]
    assert (3, ["flights/EWR/part-1.avro", "flights/part-0.avro"]) == (flights["blobs"], flights["strangers"])
    sentence = "flights: 2 Avro blobs of another program, which no version names"
    for command in (("ls", "demo"), ("repair", "demo", "--dry-run")):
        assert sentence in run(account, *command).stdout
    assert {"flights": flights["strangers"]} == json.loads(run(account, "repair", "demo", "--json").stdout)["strangers"]


def test_repair_says_how_a_stream_with_two_types_in_a_column_is_read(account: MemoryAccount) -> None:
    container, rows = account.container("demo"), pa.RecordBatch.from_pydict({"n": ["x"]})
    put_anyway(container, plan_of(rows.schema, "demo/flights"), rows)
    [line] = [each for each in run(account, "repair", "demo", "--dry-run").stdout.splitlines() if "as a whole" in each]
    assert "column 'n' is long in one and string in the other" in line
    assert "Reads succeed that leave the column out, by option `columns` or `avroSchema`" in line
    assert ["flights"] == list(json.loads(run(account, "repair", "demo", "--json").stdout)["unreadable"])
    shown = run(account, "tail", "demo/flights", "-n", "2", "--columns", "origin", "--json").stdout.splitlines()
    assert ["EWR", None] == [json.loads(each)["origin"] for each in shown], "the advice, followed"


def test_ls_of_an_empty_container_reports_that_it_is_empty(account: MemoryAccount) -> None:
    account.container("empty").create()
    assert (0, "Container empty has no stream and no Avro blob.") == error_of(run(account, "ls", "empty"))
    assert {"container": "empty", "streams": []} == json.loads(run(account, "ls", "empty", "--json").stdout)


# --- log --------------------------------------------------------------------------------------------------------------


def test_log_lists_the_newest_versions(account: MemoryAccount) -> None:
    document = json.loads(run(account, "log", "demo/flights", "-n", "2", "--json").stdout)
    assert [(1, 10, {"id": QUERY, "version": 1}), (2, 10, {"id": QUERY, "version": 2})] == [
        (entry["version"], entry["rows"], entry["transaction"]) for entry in document["entries"]
    ]
    shown = run(account, "log", "demo/flights").stdout.splitlines()
    assert 5 == len(shown)
    assert "3f2a91c0:2" in shown[-1]
    assert all(len(line) <= 80 for line in shown)


def test_log_shows_what_writers_say_of_their_versions(account: MemoryAccount) -> None:
    info = "back-fill of January, after the outage in Zürich: the rows of the two gates that were missing"
    write(account, 3, range(5), commitInfo=info)
    entries = json.loads(run(account, "log", "demo/flights", "-n", "2", "--json").stdout)["entries"]
    assert [None, info] == [entry["commitInfo"] for entry in entries]
    lines = run(account, "log", "demo/flights").stdout.splitlines()
    assert lines[0].split()[-1].startswith("info") and lines[-2].rstrip().endswith("–") and "back-fill" in lines[-1]
    assert all(len(line) <= 80 for line in lines) and 6 == len(lines)
    assert info in " ".join(run(account, "log", "demo/flights", "--version", "3").stdout.split())


def test_log_shows_overwrites_of_partitions(account: MemoryAccount) -> None:
    container, plan = account.container("demo"), plan_of(ROWS, "demo/flights", partitionColumn="origin")
    staged = stage_rows(container, plan, [pa.record_batch([["EWR"], [1]], schema=ROWS)], seed=3)
    writer = committer(container, plan, 3)
    writer = replace(writer, plan=replace(writer.plan, overwrite_partitions=True))
    writer.commit([staged], Transaction(QUERY, 3), overwrite=True)
    lines = run(account, "log", "demo/flights").stdout.splitlines()
    assert "overwrite-p…" == lines[-1].split()[3] and all(len(line) <= 80 for line in lines)
    entries = json.loads(run(account, "log", "demo/flights", "-n", "1", "--json").stdout)["entries"]
    assert ["overwrite-partitions"] == [entry["operation"] for entry in entries]


def test_log_shows_one_entry_in_full(account: MemoryAccount) -> None:
    entry = json.loads(run(account, "log", "demo/flights", "--version", "1", "--json").stdout)
    assert (1, 10, 10) == (entry["version"], entry["blobs"][0]["rows"], entry["writers"][0]["metrics"]["messagesSent"])
    shown = run(account, "log", "demo/flights", "--version", "1").stdout
    for part in ("writers", "blobs", "flights/2013/01/31/12/", "messagesSent"):
        assert part in shown


def test_log_follows_new_versions(account: MemoryAccount) -> None:
    clock = ScriptedClock(lambda: write(account, 3, range(5)), lambda: None, lambda: write(account, 4, range(6)))
    result = run(account, "log", "demo/flights", "-n", "1", "--follow", "--json", clock=clock)
    assert INTERRUPTED == result.exit_code
    lines = [json.loads(line) for line in result.stdout.splitlines()]
    assert [(2, 10), (3, 5), (4, 6)] == [(line["version"], line["rows"]) for line in lines]
    assert "" == result.stderr


# --- tail -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("count", "first"), [(3, 27), (10, 20), (15, 15), (100, 0)])
def test_tail_prints_the_last_rows_in_order(account: MemoryAccount, count: int, first: int) -> None:
    lines = run(account, "tail", "demo/flights", "-n", str(count), "--json").stdout.splitlines()
    assert [{"origin": "EWR", "n": n} for n in range(first, 30)] == [json.loads(line) for line in lines]


def test_tail_follows_published_versions(account: MemoryAccount) -> None:
    clock = ScriptedClock(
        lambda: write(account, 3, range(100, 103)), lambda: None, lambda: write(account, 4, range(200, 202))
    )
    result = run(account, "tail", "demo/flights", "-n", "1", "-f", "--columns", "n", "--json", clock=clock)
    assert INTERRUPTED == result.exit_code
    assert [29, 100, 101, 102, 200, 201] == [json.loads(line)["n"] for line in result.stdout.splitlines()]


def test_tail_on_a_terminal_shows_the_last_rows_of_each_batch(account: MemoryAccount) -> None:
    clock = ScriptedClock(lambda: write(account, 3, range(100, 200)))
    result = run(account, "tail", "demo/flights", "-n", "2", "-f", clock=clock)
    cells = [line.split()[-1] for line in result.stdout.splitlines() if line.startswith("EWR")]
    assert ["28", "29", "198", "199"] == cells
    assert "the last 2 of 100 rows, version 3" in result.stderr


def test_text_of_others_neither_steers_the_terminal_nor_is_read_as_markup(account: MemoryAccount) -> None:
    hostile = "\x1b]0;owned\x07[red]\x9b2J[/red]"
    container = account.container("demo")
    plan = plan_of(ROWS, "demo/hostile")
    rows = pa.record_batch([[hostile], [1]], schema=ROWS)
    entries = committer(container, plan, 9).commit([stage_rows(container, plan, [rows])], Transaction(hostile, 0))
    for command, shown in (
        (["tail", "demo/hostile"], r"\x1b]0;owned\x07[red]\x9b2J[/red]"),
        (["log", "demo/hostile"], r"\x1b]0;owned\x07[red]"),
        (["log", "demo/hostile", "--version", "0"], r"\u001b]0;owned\u0007[red]\x9b2J[/red]"),
    ):
        printed = run(account, *command).output
        assert shown in printed, command
        assert [] == [character for character in printed if ord(character) < 32 and character != "\n"]
    assert 1 == len(entries)


def test_tail_reads_rows_of_several_schemas_as_one_table(account: MemoryAccount) -> None:
    write(account, 3, range(30, 32), dropRoutingColumns=True, partitionColumn="origin")
    lines = run(account, "tail", "demo/flights", "-n", "3", "--json").stdout.splitlines()
    assert [("EWR", 29), (None, 30), (None, 31)] == [(row["origin"], row["n"]) for row in map(json.loads, lines)]


def test_tail_reads_a_stream_whose_old_versions_were_vacuumed(account: MemoryAccount) -> None:
    run(account, "vacuum", "demo/flights", "--older-than", "36h", "--yes")
    lines = run(account, "tail", "demo/flights", "-n", "100", "--json").stdout.splitlines()
    assert 10 == len(lines)


# --- repair and vacuum ------------------------------------------------------------------------------------------------


def test_vacuum_removes_old_versions_after_a_question(account: MemoryAccount) -> None:
    result = run(account, "vacuum", "demo/flights", "--older-than", "36h", answer="y\n")
    assert "versions 0 to 1 will be removed" in result.stdout
    assert "Also removed: 2 blobs, 20 rows, " in result.stdout
    assert "Removed 1 entry and 2 blobs." in result.stdout, "version 0 lists the transactions: it stays"
    assert (0, 1) == (result.exit_code, len(visible(account)))


@pytest.mark.parametrize(
    ("arguments", "answer", "code", "message"),
    [
        ((), "n\n", UNCONFIRMED, "Nothing was done."),
        ((), None, UNCONFIRMED, "Nothing was done: confirm with --yes, or run it on a terminal."),
        (("--json",), "y\n", UNCONFIRMED, "Nothing was done"),
        (("--dry-run",), "y\n", 0, ""),
        (("--dry-run", "--yes"), None, 0, ""),
    ],
)
def test_nothing_is_removed_without_confirmation(
    account: MemoryAccount, arguments: tuple[str, ...], answer: str | None, code: int, message: str
) -> None:
    before = account.service.contents("demo")
    result = run(account, "vacuum", "demo/flights", "--older-than", "36h", *arguments, answer=answer)
    assert code == result.exit_code
    assert message in result.stderr
    assert before == account.service.contents("demo")


def test_vacuum_prints_one_json_document(account: MemoryAccount) -> None:
    document = json.loads(run(account, "vacuum", "demo/flights", "--older-than", "36h", "--yes", "--json").stdout)
    done = {"entries": 1, "blobs": 2, "foreign": [], "checkpoints": 0, "copies": 0}
    assert {"stream": "flights", "entries": 2, "done": done} == {
        "stream": document["stream"], "entries": document["plan"]["entries"], "done": document["done"]
    }  # fmt: skip
    assert (0, 2) == (document["plan"]["firstVersion"], document["plan"]["newFirstVersion"])


def test_vacuum_of_young_versions_has_nothing_to_do(account: MemoryAccount) -> None:
    result = run(account, "vacuum", "demo/flights", "--older-than", "30d")
    assert (0, "flights: nothing to remove, versions 0 to 2 stay. The newest version always stays.\n") == (
        result.exit_code, result.stdout
    )  # fmt: skip


def test_vacuum_shows_and_deletes_old_checkpoints(account: MemoryAccount) -> None:
    for batch in range(3, 8):
        write(account, batch, range(10), checkpointInterval=2)
        account.clock.sleep(DAY)
    command = ("vacuum", "demo/flights", "--older-than", "36h")
    [line] = [each for each in run(account, *command, "--dry-run").stdout.splitlines() if "checkpoints" in each]
    assert "flights: old checkpoints of the log will be deleted: 4 blobs, " in line
    document = json.loads(run(account, *command, "--dry-run", "--json").stdout)
    assert 4 == document["plan"]["checkpoints"]
    assert "Removed 6 entries and 7 blobs, and 4 blobs of old checkpoints.\n" in run(account, *command, "--yes").stdout
    assert 4_000 < document["plan"]["checkpointBytes"] < 40_000
    assert (0, 0) == tuple(
        json.loads(run(account, *command, "--json").stdout)["plan"][each] for each in ("checkpoints", "entries")
    )


def test_checkpoint_makes_one_and_verify_compares_it(account: MemoryAccount) -> None:
    command = ("checkpoint", "demo/flights")
    assert "there is no checkpoint" in run(account, *command, "--verify").stdout
    made = {"stream": "flights", "version": 2, "blobs": 3, "manifests": 1}
    assert made | {"made": True} == json.loads(run(account, *command, "--json").stdout)
    assert made | {"made": False} == json.loads(run(account, *command, "--json").stdout)
    assert "flights: made at version 2, 3 live blobs in 1 manifest.\n" == run(account, *command, "--rebuild").stdout
    whole = {"version": 2, "blobs": 3, "whole": True, "faults": []}
    for of in ((), ("--all",)):
        document = json.loads(run(account, *command, "--verify", *of, "--json").stdout)
        assert {"stream": "flights", "checkpoints": [whole]} == document


def test_a_checkpoint_that_differs_ends_verify_with_exit_code_1(account: MemoryAccount) -> None:
    run(account, "checkpoint", "demo/flights")
    container = account.container("demo")
    [manifest] = [blob.name for blob in container.list("flights/_iceberg/metadata/m-")]
    container.delete(manifest)
    result = run(account, "checkpoint", "demo/flights", "--verify")
    assert (1, "") == (result.exit_code, result.stderr)
    assert "flights: the checkpoint at version 2 is not whole: 1 fault." in result.stdout
    assert 0 == run(account, "checkpoint", "demo/flights", "--rebuild").exit_code
    assert 0 == run(account, "checkpoint", "demo/flights", "--verify").exit_code


@pytest.mark.parametrize(
    ("given", "error"),
    [(("--verify", "--rebuild"), "give --rebuild or --verify, not both"), (("--all",), "--all needs --verify")],
)
def test_checkpoint_refuses_options_that_exclude_each_other(
    account: MemoryAccount, given: tuple[str, ...], error: str
) -> None:
    result = run(account, "checkpoint", "demo/flights", *given)
    assert (2, True) == (result.exit_code, error in result.stderr)


def test_no_command_takes_checkpoints_for_data(account: MemoryAccount) -> None:
    before = [json.loads(run(account, *command, "--json").stdout) for command in (("ls", "demo"), ("repair", "demo"))]
    run(account, "checkpoint", "demo/flights")
    assert before == [json.loads(run(account, *each, "--json").stdout) for each in (("ls", "demo"), ("repair", "demo"))]
    account.clock.sleep(2 * DAY)
    done = json.loads(run(account, "repair", "demo", "--leftovers", "--yes", "--json").stdout)
    assert ([], {}) == (done["leftovers"], done["strangers"])
    for name in ("_log", "_schemas"):
        for blob in account.container("demo").list(f"flights/{name}/"):
            account.container("demo").delete(blob.name)
    [folder] = json.loads(run(account, "ls", "demo", "--json").stdout)["streams"]
    assert ("flights", False, 3) == (folder["name"], folder["log"], folder["blobs"])


def test_vacuum_clears_batch_logs(account: MemoryAccount) -> None:
    assert "has no batch log" in run(account, "vacuum", "demo/_batches", "--older-than", "1d").stdout
    container, plan = account.container("demo"), plan_of(ROWS, "demo", streamColumn="origin")
    for batch in range(3):
        rows = pa.record_batch([["x", "y"], [batch, batch]], schema=ROWS)
        committer(container, plan, batch).commit(
            [stage_rows(container, plan, [rows], seed=batch)], Transaction("q", batch)
        )
        account.clock.sleep(DAY)
    blobs = visible(account)
    result = run(account, "vacuum", "demo/_batches", "--older-than", "36h", "--yes", "--json")
    assert [1] == [log["done"]["entries"] for log in json.loads(result.stdout)["logs"]]
    assert blobs == visible(account)
    result = run(account, "vacuum", "demo/_batches/q", "--older-than", "1h", "--yes", "--json")
    assert ("_batches/q", 0) == (json.loads(result.stdout)["stream"], result.exit_code)


def test_repair_shows_leftovers_and_removes_them_on_request(account: MemoryAccount) -> None:
    container, plan = account.container("demo"), plan_of(ROWS, "demo/flights")
    stage_rows(container, plan, [pa.record_batch([["JFK"], [1]], schema=ROWS)], seed=77)
    account.clock.sleep(2 * DAY)
    result = run(account, "repair", "demo")
    assert "1 stream: everything that is committed is published." in result.stdout
    assert "expire within seven days (--leftovers removes them)" in result.stdout
    assert 0 == result.exit_code
    assert UNCONFIRMED == run(account, "repair", "demo", "--leftovers").exit_code
    assert 1 == len(account.service.staged("demo"))
    result = run(account, "repair", "demo/flights", "--leftovers", "--yes", "--json")
    assert {"published": 0, "voided": 0, "removed": 1, "revived": 0} == json.loads(result.stdout)["done"]
    assert {} == account.service.staged("demo")


def test_repair_removes_blobs_that_were_deleted_by_hand_from_the_log(account: MemoryAccount) -> None:
    whole = run(account, "repair", "demo/flights", "--leave-out-missing")
    assert "No blob of the stream is missing." in whole.stdout
    first = min(name for name in visible(account) if name.startswith("flights/"))
    account.container("demo").delete(first)
    result = run(account, "repair", "demo/flights", "--leave-out-missing")
    assert (UNCONFIRMED, True) == (result.exit_code, "Missing from the stream: 1 blob with 10 rows" in result.stdout)
    done = json.loads(run(account, "repair", "demo/flights", "--leave-out-missing", "--yes", "--json").stdout)
    assert ("flights", [first]) == (done["stream"], done["missing"])
    assert 0 == run(account, "tail", "demo/flights", "-n", "1000").exit_code


def test_revert_shows_what_it_takes_back_and_asks(account: MemoryAccount) -> None:
    command = ("revert", "demo/flights", "--query", QUERY, "--after", "0")
    shown = run(account, *command)
    assert UNCONFIRMED == shown.exit_code
    words = " ".join(shown.stdout.split())
    assert f"2 batches of {QUERY} will be taken back, batches 1 to 2:" in words
    assert "flights: versions 1 to 2, 20 rows in 2 blobs, committed up to 2013-01-31 12:00:05 UTC." in words
    assert 0 == run(account, *command, "--dry-run").exit_code
    assert 3 == len(visible(account))

    done = json.loads(run(account, *command, "--yes", "--json").stdout)
    streams = {"flights": {"versions": [1, 2], "rows": 20, "blobs": 2}}
    assert {"query": QUERY, "after": 0, "batches": [1, 2], "streams": streams, "done": True} == done
    assert 1 == len(visible(account))
    again = run(account, *command, "--yes")
    assert (0, True) == (again.exit_code, "nothing is to be taken back" in " ".join(again.stdout.split()))
    log = run(account, "log", "demo/flights").stdout
    assert "revert 1, 2" in log
    assert 2 == run(account, "revert", "demo/flights", "--query", QUERY).exit_code
    assert (
        "there is no commit log" in error_of(run(account, "revert", "demo/flight", "--query", "q", "--after", "0"))[1]
    )


def test_revert_deletes_what_one_that_was_killed_has_left(account: MemoryAccount) -> None:
    def dies_before_it_deletes(request: Request) -> Fault | None:
        return Crash() if request.operation == "delete" and request.name.startswith("flights/20") else None

    killed = account.restarted(FaultInjector(dies_before_it_deletes)).container("demo")
    plan = plan_revert(killed, "flights", Transaction(QUERY, 0))
    with pytest.raises(ProcessDied):
        carry_out(killed, plan, lambda: Draft("w", "2013-01-31T12:00:05+00:00"), Publisher(killed))
    assert 3 == len(visible(account))
    command = ("revert", "demo/flights", "--query", QUERY, "--after", "0")
    assert UNCONFIRMED == run(account, *command).exit_code
    assert 0 == run(account, *command, "--yes").exit_code
    assert 1 == len(visible(account))


def test_restore_shows_what_it_deletes_and_asks(account: MemoryAccount) -> None:
    command = ("restore", "demo/flights", "--to-version", "0")
    shown = run(account, *command)
    assert UNCONFIRMED == shown.exit_code
    words = " ".join(shown.stdout.split())
    assert "flights: version 0, committed 2013-01-31 12:00:05 UTC, will be restored: 10 rows stay." in words
    assert "20 rows that have come since will be deleted." in words
    assert 0 == run(account, *command, "--dry-run").exit_code
    assert 3 == len(visible(account))

    done = json.loads(run(account, *command, "--yes", "--json").stdout)
    rows = {"rowsKept": 10, "rowsCopiedBack": 0, "rowsRemoved": 20, "blobsRemoved": 2}
    expected = {"stream": "flights", "restores": 0, **rows, "version": 3, "done": True}
    assert expected == done
    assert 1 == len(visible(account))
    again = run(account, *command, "--yes")
    assert (0, True) == (
        again.exit_code,
        "all that is live was live at version 0 too" in " ".join(again.stdout.split()),
    )
    assert "restore 0" in run(account, "log", "demo/flights").stdout
    assert 0 == json.loads(run(account, "log", "demo/flights", "--version", "3", "--json").stdout)["restores"]
    refused = error_of(run(account, "restore", "demo/flights", "--to-version", "1"))[1]
    assert "version 3 has deleted rows that it has" in " ".join(refused.split())


def test_restore_takes_a_time_and_finishes_what_was_interrupted(account: MemoryAccount) -> None:
    def dies_before_it_deletes(request: Request) -> Fault | None:
        return Crash() if request.operation == "delete" and request.name.startswith("flights/20") else None

    times = [each["timestamp"] for each in json.loads(run(account, "log", "demo/flights", "--json").stdout)["entries"]]
    command = ("restore", "demo/flights", "--to-time", times[1], "--yes")
    killed = account.restarted(FaultInjector(dies_before_it_deletes)).container("demo")
    with pytest.raises(ProcessDied):
        restore(CommitLog(killed, "flights"), 1, Draft("w", "2013-01-31T12:00:05+00:00"), Publisher(killed))
    assert 3 == len(visible(account))
    done = " ".join(run(account, *command).stdout.split())
    assert "What an interrupted restore has left will be deleted. Version 1 is restored." in done
    assert 2 == len(visible(account))
    for wrong in (("--to-time", "soon"), ()):
        assert run(account, "restore", "demo/flights", *wrong).exit_code in (1, 2)


def test_repair_voids_a_version_only_if_it_cannot_be_published(account: MemoryAccount) -> None:
    result = run(account, "repair", "demo/flights", "--void", "0", "--yes")
    assert 1 == result.exit_code
    assert "it is published. There is nothing to void." in result.stderr


def visible(account: MemoryAccount) -> list[str]:
    return [name for name in account.service.contents("demo") if not any(x.startswith("_") for x in name.split("/"))]


# --- errors -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (("log", "demo/none"), 1, "demo/none failed: there is none. Check container and stream"),
        (("tail", "demo/none"), 1, "there is no commit log"),
        (("vacuum", "demo/none", "--older-than", "1d"), 1, "there is no commit log"),
        (("ls", "nowhere"), 1, "nowhere"),
        (("log", "demo"), 1, "No stream is named in container demo"),
        (("log", "demo/flights", "--version", "9"), 1, "the oldest entry kept is 0, the newest 2"),
        (("tail", "demo/flights", "--columns", "x"), 1, "there is no column x among origin, n"),
        (("ls", "demo", "-o", "acountKey=abc"), 1, "Did you mean accountKey"),
        (("ls", "demo", "-o", f"accountKey{SECRET[:5]}"), 2, "it must be KEY=VALUE"),
        (("ls", "demo", "-o", "accountKey=%hunter2"), 1, "accountKey"),
        (("ls", "Demo_1"), 1, "Container name 'Demo_1' is not valid"),
        (("ls", "https://x.blob.core.windows.net/demo?sig=abc"), 1, "contains a query or credentials"),
        (("ls",), 2, "Missing argument"),
        (("vacuum", "demo/flights"), 2, "--older-than"),
        (("vacuum", "demo/flights", "--older-than", "soon"), 2, "such as 30d, 12h or 90m"),
        (("vacuum", "demo/flights", "--older-than", "59m"), 1, "shorter than an hour"),
        (("frobnicate",), 2, "No such command"),
    ],
)
def test_an_error_is_one_message_on_standard_error(
    account: MemoryAccount, arguments: tuple[str, ...], code: int, message: str
) -> None:
    found, error = error_of(run(account, *arguments))
    assert code == found
    assert message in " ".join(error.replace("│", " ").split())
    assert "Traceback" not in error
    assert "sig=abc" not in error
    assert "hunter2" not in error
    assert code == 2 or 1 == len(error.splitlines())


def test_the_account_is_found_in_the_environment(azurite: Azurite, container_name: str) -> None:
    result = subprocess.run(
        [sys.executable, "-m", "azureblob_source", "ls", container_name],
        capture_output=True, text=True, check=False,
        env={"AZURE_STORAGE_CONNECTION_STRING": azurite.connection_string, "PATH": ""},
    )  # fmt: skip
    assert (1, "") == (result.returncode, result.stdout)
    assert "ContainerNotFound" in result.stderr
    assert azurite.account_key not in result.stderr


def test_all_commands_on_the_emulator(azurite: Azurite, container_name: str) -> None:
    options = {"path": f"{container_name}/flights", "connectionString": azurite.connection_string}
    plan = plan_for_rows(sink_options(options, {}), ROWS)
    account = connect(plan.options.account)
    container = account.container(container_name)
    container.create()
    for batch in range(4):
        staged = stage_rows(container, plan, [pa.record_batch([["EWR"], [batch]], schema=ROWS)], seed=batch)
        if batch < 3:
            committer(container, plan, batch).commit([staged], Transaction(QUERY, batch))
    shell = CommandContext(
        connect=lambda _: account, env={"AZURE_STORAGE_CONNECTION_STRING": azurite.connection_string}
    )

    def document(*arguments: str) -> Any:
        result = CliRunner().invoke(app, [*arguments, "--json"], obj=shell)
        assert (0, None) == (result.exit_code, result.exception)
        return json.loads(result.stdout)

    def documents_of(*arguments: str) -> list[Any]:
        result = CliRunner().invoke(app, [*arguments, "--json"], obj=shell)
        return [json.loads(line) for line in result.stdout.splitlines()]

    in_future = ScriptedClock()
    in_future.advance(time.time() + 10 - in_future.now())
    shell = replace(shell, clock=in_future)
    where = f"{container_name}/flights"
    done = document("vacuum", where, "--older-than", "1s", "--force", "--yes")["done"]
    assert {"entries": 1, "blobs": 2, "foreign": [], "checkpoints": 0, "copies": 0} == done
    repaired = document("repair", container_name, "--leftovers", "--older-than", "1s", "--yes")["done"]
    assert {"published": 0, "voided": 0, "removed": 1, "revived": 0} == repaired
    [stream] = document("ls", container_name)["streams"]
    assert (2, 2, 1, 1) == (stream["firstVersion"], stream["version"], stream["blobs"], stream["rows"])
    assert {"origin": "EWR", "n": 2} == document("tail", where, "-n", "9")
    for batch in (3, 4, 5):
        staged = stage_rows(container, plan, [pa.record_batch([["EWR"], [batch]], schema=ROWS)], seed=10 + batch)
        committer(container, plan, batch).commit([staged], Transaction(QUERY, batch))
    assert 1 == document("compact", where, "--yes")["done"]["made"]
    restored = document("restore", where, "--to-version", "3", "--yes")
    assert (2, 2) == (restored["rowsKept"], restored["rowsRemoved"])
    assert [2, 3] == sorted(row["n"] for row in documents_of("tail", where, "-n", "9"))
    assert [] == [blob.name for blob in container.list(uncommitted=True) if not blob.committed or not blob.size]


# --- text -------------------------------------------------------------------------------------------------------------


def test_columns_beyond_the_width_are_named() -> None:
    rows = [{f"column{number}": "x" * 10 for number in range(20)}]
    table, hidden = rows_table(rows, 40)
    assert [f"column{number}" for number in range(3, 20)] == hidden
    assert 3 == len(table.columns)
    assert 1 == len(rows_table(rows, 5)[0].columns)


# --- iceberg ----------------------------------------------------------------------------------------------------------


def test_iceberg_makes_a_table_which_a_vacuum_brings_up_to_date(account: MemoryAccount) -> None:
    location = "wasbs://demo@memory/flights/_iceberg"
    result = run(account, "iceberg", "demo/flights", "--paths", "wasbs")
    assert (0, f"{location} is at version 2.\n") == (result.exit_code, result.stdout)
    run(account, "vacuum", "demo/flights", "--older-than", "36h", "--yes")
    document = json.loads(run(account, "iceberg", "demo/flights", "--paths", "wasbs", "--json").stdout)
    assert {"stream": "flights", "table": location, "version": 2} == document
    tables = [
        blob.name for blob in account.container("demo").list("flights/_iceberg/metadata/v") if "json" in blob.name
    ]
    assert [f"flights/_iceberg/metadata/v{number}.metadata.json" for number in (1, 2)] == tables


def test_iceberg_says_what_is_wrong(account: MemoryAccount) -> None:
    wrong = run(account, "iceberg", "demo/flights", "--paths", "s3")
    assert (2, True) == (wrong.exit_code, "s3 is not one of abfss, abfs, wasbs, wasb" in wrong.stderr)
    code, error = error_of(run(account, "iceberg", "demo/nothing"))
    assert code == 1 and "there is no commit log" in " ".join(error.split())


# --- audit ------------------------------------------------------------------------------------------------------------


def blob_names(account: MemoryAccount) -> list[str]:
    """The data blobs of the stream, by version."""
    log = json.loads(run(account, "log", "demo/flights", "--json").stdout)["entries"]
    entries = [json.loads(run(account, "log", "demo/flights", "--version", str(each["version"]), "--json").stdout)
               for each in log]  # fmt: skip
    return [blob["name"] for entry in entries for blob in entry["blobs"]]


def test_audit_of_a_sound_stream(account: MemoryAccount) -> None:
    result = run(account, "audit", "demo/flights")
    live = "Versions 0 to 2, published up to 2; 3 live blobs by entries alone, 30 rows, 873 B"
    assert [
        f"Looked at: 7 names and 3 entries, no data. {live}.",
        "flights is sound: each live blob is visible, unaltered, and no other data.",
    ] == result.stdout.splitlines()
    assert 0 == result.exit_code
    document = run.document(account, "audit", "demo/flights")
    assert (True, 0, 2, 2, 3, 30, {}, []) == tuple(
        document[key] for key in ("sound", "first", "version", "published", "blobs", "rows", "counts", "findings")
    )


def test_an_audit_that_cannot_look_ends_as_an_error_and_one_that_finds_something_does_not(
    account: MemoryAccount,
) -> None:
    code, message = error_of(run(account, "audit", "demo/nothing"))
    assert 1 == code
    assert "read the commit log of" in message
    account.container("demo").put("flights/x.avro", b"x")
    assert FINDINGS == run(account, "audit", "demo/flights").exit_code
    assert FINDINGS == run(account, "audit", "demo/flights", "--history", "--json").exit_code


def test_the_advice_of_an_audit_followed_makes_the_stream_sound(account: MemoryAccount) -> None:
    container, names = account.container("demo"), blob_names(account)
    content = container.get(names[1])
    container.delete(names[0])
    container.put(names[1], content.data + b"x", BlobAttributes(content.properties.metadata))
    container.put("flights/copy.avro", content.data, BlobAttributes(content.properties.metadata))
    container.put("flights/part-0.avro", b"x")
    result = run(account, "audit", "demo/flights")
    assert FINDINGS == result.exit_code
    unknown = "it has no attempt in its metadata, so another program has written it, and no entry names it"
    assert [
        f"missing: {names[0]} (version 0): it is not visible: 10 rows are gone.",
        f"altered: {names[1]} (version 1): it has 292 bytes, its entry 291.",
        f"doubled: flights/copy.avro (version 1): it is a copy of {names[1]}.",
        f"foreign: flights/part-0.avro: {unknown}.",
    ] == result.stdout.splitlines()[:4]
    assert "flights is not sound: 1 missing, 1 altered, 1 doubled, 1 foreign." == result.stdout.splitlines()[-1]
    for name in (names[1], "flights/copy.avro", "flights/part-0.avro"):  # "or delete this one", "Delete it", "Move it"
        container.delete(name)
    advice = "`python -m azureblob_source repair demo/flights --leave-out-missing`"
    assert advice in result.stdout
    assert 0 == run(account, *advice.strip("`").split()[3:], "--yes").exit_code
    after = run(account, "audit", "demo/flights")
    assert (0, "1 live blob") == (after.exit_code, after.stdout[after.stdout.index("1 live") :][:11])


def test_a_blob_that_is_back_is_deleted_as_an_audit_says(account: MemoryAccount) -> None:
    container, [first, *_] = account.container("demo"), blob_names(account)
    content = container.get(first)
    staged = stage_rows(
        container, plan_of(ROWS, "demo/flights"), [pa.record_batch([["JFK"], [1]], schema=ROWS)], seed=9
    )
    committer(container, plan_of(ROWS, "demo/flights"), 9).commit([staged], Transaction(QUERY, 9), overwrite=True)
    write(account, 10, range(5))
    assert 0 == run(account, "audit", "demo/flights").exit_code
    container.put(first, content.data, BlobAttributes(content.properties.metadata))
    result = run(account, "audit", "demo/flights")
    assert f"revoked: {first} (version 0): version 3 has revoked or removed it, and it is visible." in result.stdout
    assert "What to do if revoked: Delete it: `python -m azureblob_source repair demo/flights`." in result.stdout
    assert 0 == run(account, "repair", "demo/flights", "--yes").exit_code
    assert 0 == run(account, "audit", "demo/flights").exit_code


def test_audit_says_what_is_pending(account: MemoryAccount) -> None:
    committed = "flights/_log/00000000000000000003.json"
    faults = FaultInjector(
        lambda attempt: Crash(after_effect=True) if (attempt.operation, attempt.name) == ("put", committed) else None
    )
    with pytest.raises(ProcessDied):
        write(account.restarted(faults), 3, range(5))
    account.clock.sleep(90)
    result = run(account, "audit", "demo/flights")
    assert "Pending (version 3): 1 of its 1 blobs not visible yet, for 0:01:30 now." == result.stdout.splitlines()[0]
    assert 0 == result.exit_code
    account.clock.sleep(8 * DAY)
    result = run(account, "audit", "demo/flights", "--older-than", "9d")
    assert "not staged either, for 8 days, 0:01:30 now." in result.stdout.splitlines()[0]
    assert 0 == result.exit_code
    assert FINDINGS == run(account, "audit", "demo/flights").exit_code
