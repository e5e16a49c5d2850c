"""The command line on an account in memory, and once on the emulator."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest
from typer.testing import CliRunner

from azure_account.cli.commands import ERROR, INTERRUPTED, UNCONFIRMED, location_of
from azure_account.cli.progress import EVERY_SECONDS
from azure_account.cli.shell import CommandContext
from azure_account.location import Location
from azure_account.memory.account import MemoryAccount
from azure_account.memory.faults import FaultInjector, Refuse, on
from azure_account.memory.service import MemoryService
from azure_account.retrying.retry_loop import Intercept, Request
from foundation.clock import ManualClock
from state_backup.backup.settings import TaskIdentity
from state_backup.backup.writer import open_state
from state_backup.cli.app import app
from state_backup.cli.output import moment_text
from state_backup.index.checkpoint_id import CheckpointId
from state_backup.record.names import StateNames
from state_backup.record.store import record_store
from state_backup.record.ttl import WITH_TTL
from state_backup.restoring.restore import checkpoints
from tests.command_lines import CommandLine
from tests.state_backup.states import STATE, TREES, equal, state_in, write

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from azure_account.options.settings import AccountSettings
    from tools.azurite import Azurite

DAY = 24 * 3600.0
run = CommandLine(app)
document = run.document
WHERE = f"box/{STATE}"


@pytest.fixture
def account() -> MemoryAccount:
    account = MemoryAccount(MemoryService(clock=ManualClock(), soft_delete=DAY))
    account.container("box").create()
    return account


@pytest.fixture
def live(account: MemoryAccount, tmp_path: Path) -> Path:
    """A directory, of which there are two backups."""
    writer = open_state(state_in(account.container("box")), TaskIdentity("flights"))
    for number in (0, 1):
        writer.back_up({"store": write(tmp_path / "live", TREES[number])}, {"kafka.flights.0": str(number)})
    return tmp_path / "live"


@pytest.fixture(autouse=True)
def columns(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "120")


# --- backup and restore -----------------------------------------------------------------------------------------------


def test_a_backup_is_reported_by_store_and_restored(account: MemoryAccount, tmp_path: Path) -> None:
    a, b = write(tmp_path / "a", TREES[0]), write(tmp_path / "b", {"x": b"xx"})
    first = run(account, "backup", WHERE, f"a={a}", f"b={b}", "--offset", "kafka.flights.0=1042", "--offset", "y=a=b")
    assert 0 == first.exit_code
    lines = first.stdout.splitlines()
    assert "a: uploaded 3 files (5 B), retained 0 files (0 B)." == lines[0]
    assert "b: uploaded 1 file (2 B), retained 0 files (0 B)." == lines[1]
    assert lines[2].startswith("Committed checkpoint ")
    write(b, {"x": b"xx", "y": b"yyy"})
    second = document(account, "backup", WHERE, f"a={a}", f"b={b}")
    uploaded = {"uploadedFiles": 1, "uploadedBytes": 3, "retainedFiles": 1, "retainedBytes": 2}
    assert (["a", "b"], uploaded) == (second["stores"], second["transferred"]["b"])
    restored = document(account, "restore", WHERE, f"a={tmp_path / 'r'}")
    assert (second["checkpoint"], 3, 5, 0, {}, []) == (
        restored["checkpoint"], restored["downloadedFiles"], restored["downloadedBytes"], restored["keptFiles"],
        restored["passedOver"], restored["undeleted"],
    )  # fmt: skip
    assert equal(tmp_path / "r", TREES[0])
    [newest, older] = checkpoints(state_in(account.container("box")))
    assert {"kafka.flights.0": "1042", "y": "a=b"} == older.offsets
    assert second["checkpoint"] == str(newest.id)


@pytest.mark.parametrize("store", ["store", " ", "\udcff", "a b", "-", "ü"])
@pytest.mark.parametrize("options", [(), ("--task", ""), ("--job", " "), ("--job-id", "\udcff"), ("--offset", "2=5"),
    ("--offset", " =\udcff"), ("--offset", "a=None")])  # fmt: skip
def test_what_a_backup_acknowledges_is_restored_and_what_it_refuses_changes_nothing(
    account: MemoryAccount, live: Path, tmp_path: Path, store: str, options: tuple[str, ...]
) -> None:
    container = account.container("box")
    before = {blob.name: blob.etag for blob in container.list()}
    write(live, TREES[2])
    left_out = () if store == "store" else ("--leave-out", "store")
    done = run(account, "backup", WHERE, *left_out, *options, "--", f"{store}={live}")
    if done.exit_code:
        assert (ERROR, before) == (done.exit_code, {blob.name: blob.etag for blob in container.list()})
        assert "blank" in done.stderr
    else:
        assert 0 == run(account, "restore", WHERE, "--", f"{store}={tmp_path / 'r'}").exit_code
        assert equal(tmp_path / "r", TREES[2])
        assert (
            dict([options[1].split("=")] if "--offset" in options else [])
            == checkpoints(state_in(container))[0].offsets
        )
    assert (" " in {store, *options} or "" in options) == bool(done.exit_code)
    assert 0 == run(account, "ls", WHERE).exit_code


def test_job_and_task_are_in_the_snapshot_index_and_the_epoch_in_the_record(
    account: MemoryAccount, tmp_path: Path
) -> None:
    live = write(tmp_path / "live", TREES[0])
    options = ("--job", "flights", "--job-id", "7", "--task", "task-3", "--epoch", "5", "--keep", "3")
    assert 0 == run(account, "backup", WHERE, f"s={live}", *options).exit_code
    container = account.container("box")
    [checkpoint] = checkpoints(state_in(container))
    metadata = json.loads(container.get(checkpoint.indexes["s"]).data)["snapshot-metadata"]
    assert ("flights", "7", "task-3", "s") == tuple(
        metadata[key] for key in ("job-name", "job-id", "task-name", "store-name")
    )
    result = run(account, "backup", WHERE, f"s={live}", "--epoch", "4")
    assert ERROR == result.exit_code
    assert "epoch 5 has taken it over from epoch 4. Stop this writer" in result.stderr


def test_checkpoints_are_dropped_by_order_only(account: MemoryAccount, live: Path) -> None:
    for keep in (("--keep", "3"), (), ("--keep", "2")):
        done = run(account, "backup", WHERE, f"store={live}", *keep)
        assert 0 == done.exit_code
    assert "keeps 3 checkpoints, also in this run, which asks for 2. To keep fewer: set_keep(…, 2), or `keep`" in (
        done.stderr
    )
    assert (3, 3) == (
        document(account, "ls", WHERE)["keep"],
        len(checkpoints(state_in(account.container("box")))),
    )
    assert f"{STATE} keeps 2 checkpoints from its next backup on.\n" == run(account, "keep", WHERE, "2").stdout
    assert {"state": STATE, "keep": 2} == document(account, "keep", WHERE, "2")
    assert 0 == run(account, "backup", WHERE, f"store={live}").exit_code
    assert 2 == len(checkpoints(state_in(account.container("box"))))


def test_a_directory_that_has_become_empty_is_backed_up_on_request_only(account: MemoryAccount, live: Path) -> None:
    write(live, {})
    result = run(account, "backup", WHERE, f"store={live}")
    assert (ERROR, "") == (result.exit_code, result.stdout)
    assert "it has no files, and store store had 5 at checkpoint" in result.stderr
    assert "--may-be-empty" in result.stderr
    assert 2 == run(account, "backup", WHERE, f"store={live}", "--may-be-empty", "other").exit_code
    assert 0 == run(account, "backup", WHERE, f"store={live}", "--may-be-empty", "store").exit_code


def test_a_store_that_is_left_out_or_misspelt_is_dropped_on_request_only(account: MemoryAccount, live: Path) -> None:
    before = account.service.contents("box")
    result = run(account, "backup", WHERE, f"stroe={live}")
    assert (ERROR, "") == (result.exit_code, result.stdout)
    assert "has store store, which is not given" in result.stderr
    assert "--leave-out store" in result.stderr
    assert before == account.service.contents("box"), "the writer was not replaced"
    assert 0 == run(account, "backup", WHERE, f"stroe={live}", "--leave-out", "store").exit_code
    assert 0 == run(account, "backup", WHERE, f"stroe={live}", "--leave-out", "store").exit_code


def test_a_wrong_directory_does_not_replace_the_writer(account: MemoryAccount, live: Path, tmp_path: Path) -> None:
    before = account.service.contents("box")
    (tmp_path / "file").write_bytes(b"")
    for path, cause in ((tmp_path / "none", "it does not exist"), (tmp_path / "file", "it is no directory")):
        result = run(account, "backup", WHERE, f"store={live}", f"other={path}")
        assert (ERROR, "") == (result.exit_code, result.stdout)
        assert cause in result.stderr
    assert before == account.service.contents("box")


def test_a_restore_asks_before_it_replaces_what_is_in_a_directory(account: MemoryAccount, live: Path) -> None:
    write(live, {"mine": b"mine"})
    for answer in (None, "n\n"):
        result = run(account, "restore", WHERE, f"store={live}", answer=answer)
        assert UNCONFIRMED == result.exit_code
        assert "Nothing was done" in result.stderr
        assert equal(live, {"mine": b"mine"})
    assert {"state": STATE, "checkpoint": None} == document(
        account, "restore", WHERE, f"store={live}", code=UNCONFIRMED
    )
    result = run(account, "restore", WHERE, f"store={live}", answer="y\n")
    assert 0 == result.exit_code
    assert f"Replace what is in {live}?" in result.stderr.replace("\n", "")
    assert equal(live, TREES[1])
    older = str(checkpoints(state_in(account.container("box")))[1].id)
    done = run(account, "restore", WHERE, f"store={live}", "--checkpoint", older, "--yes")
    assert 0 == done.exit_code
    assert f"Restored checkpoint {older}" in done.stdout
    assert "Its offsets: kafka.flights.0=0" in done.stdout
    assert equal(live, TREES[0])


def test_a_restore_reports_what_it_undeleted_and_passed_over(
    account: MemoryAccount, live: Path, tmp_path: Path
) -> None:
    container = account.container("box")
    newest = checkpoints(state_in(container))[0]
    index = newest.indexes["store"]
    container.delete(index)
    result = run(account, "restore", WHERE, f"store={tmp_path / 'r'}")
    assert "Undeleted: 1 blob that had been deleted." in result.stdout
    assert f"blob box/{index} was gone, and is undeleted" in result.stderr
    container.delete(index)
    account.clock.sleep(DAY)
    result = run(account, "restore", WHERE, f"store={tmp_path / 'r'}", "--yes")
    assert f"Checkpoint {newest.id} was passed over: " in result.stdout
    assert index in result.stdout
    assert equal(tmp_path / "r", TREES[0])
    assert live.exists()


def test_ctrl_c_during_an_upload_ends_the_command_and_commits_nothing(account: MemoryAccount, live: Path) -> None:
    class Interrupting(Intercept):
        def attempt(self, request: Request, send: Callable[[], Any]) -> Any:
            if request.operation == "put" and "/index/" in request.name:
                raise KeyboardInterrupt
            return send()

    before = checkpoints(state_in(account.container("box")))
    (live / "new").write_bytes(b"new")
    result = run(account.restarted(Interrupting()), "backup", WHERE, f"store={live}")
    assert (INTERRUPTED, "") == (result.exit_code, result.stdout)
    assert before == checkpoints(state_in(account.container("box")))


def test_a_long_transfer_without_a_terminal_shows_a_line_now_and_then(account: MemoryAccount, live: Path) -> None:
    class Slow(Intercept):
        def attempt(self, request: Request, send: Callable[[], Any]) -> Any:
            if request.operation == "put" and "/files/" in request.name:
                account.clock.sleep(EVERY_SECONDS)
            return send()

    write(live, {"a": b"new a", "b": b"new b"})
    result = run(account.restarted(Slow()), "backup", WHERE, f"store={live}")
    assert 0 == result.exit_code
    assert "uploading 2 files: " in result.stderr
    assert " of 10 B" in result.stderr


# --- ls ---------------------------------------------------------------------------------------------------------------


def test_ls_shows_the_checkpoints_of_a_state(account: MemoryAccount, live: Path) -> None:
    assert live.exists()
    found = document(account, "ls", WHERE)
    assert (STATE, 1, 0) == (found["state"], found["epoch"], found["condemned"])
    assert [(["store"], 5, 8, "1"), (["store"], 3, 5, "0")] == [
        (each["stores"], each["files"], each["bytes"], each["offsets"]["kafka.flights.0"])
        for each in found["checkpoints"]
    ]
    lines = run(account, "ls", f"{WHERE}/").stdout.splitlines()
    assert f"{STATE}: 2 checkpoints, epoch 1" == lines[0]
    newest = checkpoints(state_in(account.container("box")))[0].id
    assert f"{newest} {moment_text(newest)} store 5 8 B kafka.flights.0=1" == " ".join(lines[3].split())
    assert all(len(line) <= 120 for line in lines)


def test_ls_shows_the_states_below_a_folder_and_those_that_cannot_be_read(account: MemoryAccount, live: Path) -> None:
    container = account.container("box")
    open_state(Location.in_container(container, "flights/task-10"), TaskIdentity("flights"))
    open_state(Location.in_container(container, "other"), TaskIdentity("flights"))
    container.put("flights/task-4/checkpoint.json", b"{}")
    container.put("flightsX/checkpoint.json", b"{}")
    found = {each["state"]: each for each in document(account, "ls", "box/flights")["states"]}
    assert ["flights/task-10", STATE, "flights/task-4"] == list(found)
    assert (2, []) == (len(found[STATE]["checkpoints"]), found["flights/task-10"]["checkpoints"])
    assert "is damaged" in found["flights/task-4"]["error"]
    assert 5 == len(document(account, "ls", "box")["states"])
    result = run(account, "ls", "box/flights")
    assert 0 == result.exit_code
    assert ["flights/task-4", "–", "–", "unreadable", "–", "–"] == result.stdout.splitlines()[4].split()
    assert "flights/task-4: Record flights/task-4/checkpoint.json is damaged" in result.stderr
    nothing = run(account, "ls", "box/none")
    assert (0, "") == (nothing.exit_code, nothing.stdout)
    assert "Container box has no state in none." in nothing.stderr
    assert live.exists()


def test_ls_shows_a_state_whose_record_is_gone_and_what_to_do(
    account: MemoryAccount, live: Path, tmp_path: Path
) -> None:
    container = account.container("box")
    container.put("other/index/readme.json", b"{}")
    container.put("index/index/0a.json", b"{}")
    container.delete(f"{STATE}/checkpoint.json")
    for where in ("box", WHERE):
        (found,) = document(account, "ls", where)["states"]
        assert STATE == found["state"]
        assert f"its record, {STATE}/checkpoint.json, is gone. A restore undeletes it" in found["error"]
        result = run(account, "ls", where)
        assert [STATE, "–", "–", "record", "is", "gone", "–", "–"] == result.stdout.splitlines()[2].split()
        assert f"{STATE}: its record, {STATE}/checkpoint.json, is gone." in result.stderr
    assert 0 == run(account, "restore", WHERE, f"store={tmp_path / 'r'}").exit_code
    assert 2 == len(document(account, "ls", WHERE)["checkpoints"])
    assert live.exists()


def test_a_wrong_name_of_a_state_is_one_error_also_where_nothing_can_be_undeleted(
    account: MemoryAccount, live: Path, tmp_path: Path
) -> None:
    refusing = account.restarted(FaultInjector(on("undelete", Refuse("501 NotImplemented"), times=99)))
    result = run(refusing, "restore", f"{WHERE}0", f"store={tmp_path / 'r'}")
    assert (ERROR, "", 1) == (result.exit_code, result.stdout, len(result.stderr.strip().splitlines()))
    assert "there are: none. Check the name" in result.stderr
    assert live.exists()


def test_ls_shows_a_checkpoint_whose_index_is_gone(account: MemoryAccount, live: Path) -> None:
    container = account.container("box")
    newest = checkpoints(state_in(container))[0]
    container.delete(newest.indexes["store"])
    result = run(account, "ls", WHERE)
    assert 0 == result.exit_code
    assert ["–", "–"] == result.stdout.splitlines()[3].split()[4:6]
    assert f"Checkpoint {newest.id}: index {newest.indexes['store']} is gone" in result.stderr
    [first, second] = document(account, "ls", WHERE)["checkpoints"]
    assert (None, 3) == (first["files"], second["files"])
    assert live.exists()


# --- verify -----------------------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("no_packs")
def test_verify_says_which_checkpoints_are_whole_and_ends_with_an_error_if_one_is_not(
    account: MemoryAccount, live: Path
) -> None:
    container = account.container("box")
    assert 0 == run(account, "verify", WHERE).exit_code
    assert "all checksums match" in run(account, "verify", WHERE, "--deep").stdout
    newest, older = checkpoints(state_in(container))
    for blob in [blob.name for blob in container.list(f"{STATE}/files/")]:
        if container.get(blob).data == b"2":
            container.put(blob, b"9")
    assert 0 == run(account, "verify", WHERE).exit_code
    result = run(account, "verify", WHERE, "--deep")
    assert ERROR == result.exit_code
    first, fault, last = result.stdout.splitlines()
    assert first.startswith(f"Checkpoint {newest.id} ")
    assert first.endswith(" is not whole: 1 fault.")
    assert fault.startswith("  store/CURRENT: ")
    assert ": its bytes have another checksum than the file had: overwrite" in fault
    assert last.endswith(" is whole: 3 files (5 B), downloaded, all checksums match.")
    found = document(account, "verify", WHERE, "--deep", code=ERROR)
    assert [False, True] == [each["whole"] for each in found["checkpoints"]]
    assert ["CURRENT"] == [fault["path"] for fault in found["checkpoints"][0]["faults"]]
    assert 0 == run(account, "verify", WHERE, "--deep", "--checkpoint", str(older.id)).exit_code
    assert live.exists()


def test_verify_of_a_state_without_checkpoints(account: MemoryAccount) -> None:
    open_state(state_in(account.container("box")), TaskIdentity("flights"))
    result = run(account, "verify", WHERE)
    assert (0, f"State {STATE} has no checkpoint yet.\n") == (result.exit_code, result.stdout)


# --- sweep ------------------------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("no_packs")
def test_a_sweep_shows_its_plan_and_asks(account: MemoryAccount, live: Path) -> None:
    container = account.container("box")
    container.put(f"{STATE}/files/old", b"old", WITH_TTL)
    account.clock.sleep(2 * DAY)
    container.put(f"{STATE}/files/new", b"newer", WITH_TTL)
    container.stage_block(f"{STATE}/files/staged", "01", b"data")
    before = account.service.contents("box")
    for options, answer, code in ((["--dry-run"], None, 0), ([], None, UNCONFIRMED), ([], "n\n", UNCONFIRMED)):
        result = run(account, "sweep", WHERE, *options, answer=answer)
        assert code == result.exit_code
        assert [
            f"{STATE}: 7 blobs of 2 checkpoints stay.",
            "No checkpoint needs 1 blob (3 B): will be deleted.",
            "Younger than --min-age and left, because a backup may be at work: 2 blobs.",
        ] == result.stdout.splitlines()[:3]
        assert before == account.service.contents("box")
    result = run(account, "sweep", WHERE, answer="y\n")
    assert (0, "Deleted 1 blob.") == (result.exit_code, result.stdout.splitlines()[-1])
    assert "Delete them permanently?" in result.stderr
    assert f"{STATE}/files/old" not in account.service.contents("box")
    done = document(account, "sweep", WHERE, "--min-age", "0s", "--yes")
    assert ({"deleted": 2}, 2, 8) == (done["done"], done["plan"]["waste"], done["plan"]["wasteBytes"] + 3)
    assert "Nothing to delete." in run(account, "sweep", WHERE, "--min-age", "0s").stdout
    assert live.exists()


@pytest.mark.usefixtures("no_packs")
def test_explain_shows_who_holds_each_blob_and_when_it_goes(account: MemoryAccount, live: Path) -> None:
    container = account.container("box")
    container.put(f"{STATE}/files/old", b"old")
    records = record_store(container, StateNames(STATE), lambda: "id")
    stored = records.read()
    assert stored is not None
    records.write(replace(stored.document, condemned=(f"{STATE}/files/old",)), stored)
    account.clock.sleep(2 * DAY)
    container.put(f"{STATE}/files/new", b"new", WITH_TTL)
    container.stage_block(f"{STATE}/files/staged", "01", b"data")
    result = run(account, "sweep", WHERE, "--explain", "--dry-run")
    goes = {line.split()[0]: line for line in result.stdout.splitlines() if line.startswith(("files/", "index/"))}
    newest, older = checkpoints(state_in(container))
    assert goes["files/old"].endswith("now (condemned)") or "now (condemned)" in goes["files/old"]
    assert "; TTL 30 days" in goes["files/new"]
    assert "young until " in goes["files/new"]
    assert "staged only; Azure drops it in 7 days" in goes["files/staged"]
    assert 2 == sum(line.split()[3] == "all" for line in goes.values()), "1.sst and sub/a"
    assert 2 == sum(str(older.id) in line for line in goes.values()), "CURRENT and the index"
    assert 3 == sum(str(newest.id) in line for line in goes.values()), "2.sst, CURRENT and the index"
    found = {each["blob"]: each for each in document(account, "sweep", WHERE, "--explain", "--dry-run")["blobs"]}
    assert (True, True) == (found[f"{STATE}/files/old"]["condemned"], found[f"{STATE}/files/old"]["waste"])
    new = found[f"{STATE}/files/new"]
    assert (DAY, True, []) == (new["youngForSeconds"], new["ttl"], new["checkpoints"])
    assert found[f"{STATE}/files/staged"]["youngForSeconds"] is None
    assert [str(older.id)] == found[older.indexes["store"]]["checkpoints"]
    assert live.exists()


def test_a_sweep_says_what_could_not_be_deleted(account: MemoryAccount, live: Path) -> None:
    container = account.container("box")
    container.put(f"{STATE}/files/leased", b"x")
    container.acquire_lease(f"{STATE}/files/leased", "00000000-0000-0000-0000-000000000001", 60)
    result = run(account, "sweep", WHERE, "--min-age", "0s", "--yes")
    assert ERROR == result.exit_code
    assert "1 blob could not be deleted: a lease or a policy protects them. They stay condemned" in result.stderr
    assert live.exists()


# --- lifecycle-policy -------------------------------------------------------------------------------------------------


def test_the_policy_is_on_standard_output_alone(account: MemoryAccount) -> None:
    result = run(account, "lifecycle-policy", "box/flights", "other")
    [rule] = json.loads(result.stdout)["rules"]
    assert ["box/flights/", "other/"] == rule["definition"]["filters"]["prefixMatch"]
    assert "az storage account management-policy create" in result.stderr
    assert "This replaces the account's policy" in result.stderr


# --- places ---------------------------------------------------------------------------------------------------------


def test_a_url_names_the_account_and_the_place() -> None:
    asked: list[AccountSettings] = []

    def connect(settings: AccountSettings) -> MemoryAccount:
        asked.append(settings)
        account = MemoryAccount()
        account.container("box").create()
        return account

    shell = CommandContext(connect=connect, env={})
    result = CliRunner().invoke(app, ["ls", "https://planes.blob.core.windows.net/box"], obj=shell)
    assert 0 == result.exit_code
    assert ["planes"] == [settings.account for settings in asked]


# --- errors and names -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (("ls", "nowhere"), 1, "nowhere"),
        (("ls", "Box"), 1, "Container name 'Box' is not valid"),
        (("ls", "box/../other"), 1, "cannot be segments"),
        (("ls", "box", "-o", "acountKey=abc"), 1, "Did you mean accountKey"),
        (("ls", "https://x.blob.core.windows.net/box?sig=abc"), 1, "option `sasToken`"),
        (("verify", "box"), 1, "No state is named in container box"),
        (("verify", "box/none"), 1, "it has no checkpoint record. Check the name"),
        (("verify", "box/none", "--checkpoint"), 2, "requires an argument"),
        (("sweep", "box/none"), 1, "it has no checkpoint record"),
        (("sweep", "box/none", "--min-age", "soon"), 2, "such as 30d, 12h or 90m"),
        (("restore", "box/none", "store=/tmp/state-backup-none"), 1, "there are: none. Check the name"),
        (("restore", "box/none"), 2, "Missing argument"),
        (("restore", "box/none", "store"), 2, "store must be STORE=DIR"),
        (("backup", "box/none", "a=/", "a=/"), 2, "a is given twice"),
        (("backup", "box/none", "a=/", "--offset", "x"), 2, "x must be KEY=VALUE"),
        (("backup", "box/files/a", "a=/proc/self/fd"), 1, "no level may be"),
        (("lifecycle-policy", "Box"), 1, "Container name 'Box' is not valid"),
        (("lifecycle-policy",), 2, "Missing argument"),
        (("frobnicate",), 2, "No such command"),
    ],
)
def test_an_error_is_one_message_on_standard_error(
    account: MemoryAccount, arguments: tuple[str, ...], code: int, message: str
) -> None:
    result = run(account, *arguments)
    assert (code, "") == (result.exit_code, result.stdout)
    assert message in " ".join(result.stderr.replace("│", " ").split())
    assert "Traceback" not in result.stderr
    assert "sig=abc" not in result.stderr
    assert code == 2 or 1 == len(result.stderr.strip().splitlines())
    assert {} == account.service.contents("box")


def test_a_refused_request_is_an_error_without_a_traceback(account: MemoryAccount, live: Path) -> None:
    refusing = account.restarted(FaultInjector(on("put", Refuse(), times=99)))
    result = run(refusing, "backup", WHERE, f"store={live}")
    assert (ERROR, 1) == (result.exit_code, len(result.stderr.strip().splitlines()))
    assert "403 AuthorizationPermissionMismatch" in result.stderr


def test_names_that_others_wrote_command_nothing(account: MemoryAccount, tmp_path: Path) -> None:
    nasty = "[red]x\x1b[2J\n[b]"
    live = write(tmp_path / "live", {nasty: b"data"})
    (live / b"caf\xe9".decode("utf-8", "surrogateescape")).write_bytes(b"more")
    writer = open_state(state_in(account.container("box")), TaskIdentity("flights"))
    checkpoint = writer.back_up({nasty: live}, {nasty: nasty})
    shown = "[red]x\\x1b[2J⏎[b]"
    listed = run(account, "ls", WHERE).stdout
    assert listed.count(shown) == 3
    for blob in list(account.service.contents("box")):
        if "/files/" in blob:
            account.container("box").delete(blob)
    account.clock.sleep(DAY)
    verified = run(account, "verify", WHERE)
    assert f"{shown}/{shown}: " in verified.stdout
    assert f"{shown}/caf\\udce9: " in verified.stdout
    faults = document(account, "verify", WHERE, code=ERROR)["checkpoints"][0]["faults"]
    assert {nasty, b"caf\xe9".decode("utf-8", "surrogateescape")} == {fault["path"] for fault in faults}
    account.container("box").delete(checkpoint.indexes[nasty])
    restored = ("restore", WHERE, f"{nasty}={tmp_path / 'r'}")
    commands = (("ls", "box"), ("ls", WHERE), ("sweep", WHERE), restored)
    outputs = [listed, verified.stdout, *(run(account, *arguments).output for arguments in commands)]
    assert not [text for text in outputs if "\x1b" in text]


def test_an_id_that_is_no_time_is_shown_as_it_is() -> None:
    assert "9999999999999999999" == moment_text(CheckpointId(9999999999999999999, 0))
    assert "2023-11-14 22:13:20" == moment_text(CheckpointId(1700000000000, 5))


def test_all_commands_on_the_emulator(azurite: Azurite, container_name: str, tmp_path: Path) -> None:
    live, back = write(tmp_path / "live", TREES[0]), tmp_path / "back"
    env = {"AZURE_STORAGE_CONNECTION_STRING": azurite.connection_string, "PATH": ""}

    command = [sys.executable, "-m", "state_backup", "backup", f"{container_name}/a", f"s={live}"]
    result = subprocess.run(command, capture_output=True, text=True, check=False, env=env)
    assert (0, True) == (result.returncode, "Committed checkpoint" in result.stdout)
    assert azurite.account_key not in result.stderr
    shell = CommandContext(env=env)
    location_of(shell, container_name, None).open().create()

    def program(*arguments: str) -> str:
        result = CliRunner().invoke(app, list(arguments), obj=shell)
        assert (0, None) == (result.exit_code, result.exception), result.output
        return result.stdout

    where = f"{container_name}/a"
    first = json.loads(program("backup", where, f"s={live}", "--offset", "x=1", "--json"))
    write(live, TREES[1])
    program("backup", where, f"s={live}", "--offset", "x=2")
    assert [{"x": "2"}, {"x": "1"}] == [
        each["offsets"] for each in json.loads(program("ls", where, "--json"))["checkpoints"]
    ]
    assert ["a"] == [each["state"] for each in json.loads(program("ls", container_name, "--json"))["states"]]
    assert 2 == program("verify", where, "--deep").count("is whole")
    program("restore", where, f"s={back}")
    assert equal(back, TREES[1])
    program("restore", where, f"s={back}", "--checkpoint", first["checkpoint"], "--yes")
    assert equal(back, TREES[0])
    assert "Nothing to delete." in program("sweep", where, "--min-age", "0s", "--explain")
