"""`status` on an account in memory."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import TYPE_CHECKING, TypeVar

import pytest

from azure_account.cli.commands import ERROR, INTERRUPTED
from azure_account.memory.account import MemoryAccount
from azure_account.memory.faults import FaultInjector, Refuse, Reset, on
from azure_account.retrying.retry_loop import Intercept, Request
from coordination.cli.app import app
from coordination.leadership.election import Election
from coordination.leadership.lease import Lease
from coordination.names import names_of
from coordination.processors.participant import Participant
from coordination.processors.processor_table import ProcessorTable
from coordination.timing import JOB_LEASE, CoordinatorTiming, LeaseTiming
from foundation.clock import ManualClock
from foundation.errors import NotFoundError
from tests.command_lines import CommandLine
from tests.scripted_clock import ScriptedClock

if TYPE_CHECKING:
    from collections.abc import Mapping

    from typer.testing import Result

T = TypeVar("T")
JOB = "shared flights"
LAST_GET = 4
"""The number of the request that reads the document for the second time; that of its age follows."""
TASKS = ["EWR", "JFK", "LGA"]


class Idle:
    """A listener whose tasks do nothing."""

    def on_new_job_model(self, tasks: Mapping[str, int]) -> None: ...

    def on_job_model_expired(self, tasks: Mapping[str, int]) -> None: ...


class Job:
    """Processors of a job that a test moves on."""

    def __init__(self, account: MemoryAccount, *names: str) -> None:
        self.account, of = account, names_of("box", JOB)
        table = ProcessorTable(account.table(of.processors))
        table.create()
        self.members = {name: self._member(name, table, of.blob) for name in names}

    def _member(self, name: str, table: ProcessorTable, blob: str) -> tuple[Election, Participant]:
        ids = iter(range(1, 1000))
        lease_ids = (f"00000000-0000-0000-0000-{number:012x}" for number in range(hash(name) % 2**32, 2**40))
        lease = Lease(
            self.account.container("box"), blob, name, JOB_LEASE, clock=self.account.clock,
            new_id=lambda: next(lease_ids),
        )  # fmt: skip
        election = Election(lease)
        new_id = lambda: f"{name}-{next(ids):08}"  # noqa: E731
        return election, Participant(election, table, Idle(), lambda: TASKS, CoordinatorTiming(), new_id=new_id)

    def go_on(self, seconds: float = 3, times: int = 1, *, without: str = "") -> None:
        """Let time pass, and the processors look."""
        for _ in range(times):
            self.account.clock.sleep(seconds)
            for name, (_, participant) in self.members.items():
                if name != without:
                    participant.elect()
                    participant.list_tasks()
                    participant.poll()
                    participant.beat()


@pytest.fixture
def account() -> MemoryAccount:
    account = MemoryAccount()
    account.container("box").create()
    return account


@pytest.fixture(autouse=True)
def columns(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "100")


def run(account: MemoryAccount, *arguments: str, clock: ManualClock | None = None) -> Result:
    return CommandLine(app)(account, "status", *arguments, clock=clock or ManualClock())


def test_a_job_is_shown(account: MemoryAccount) -> None:
    job = Job(account, "one", "two")
    job.go_on(times=6)
    document = json.loads(run(account, f"box/{JOB}", "--json").stdout)
    assert "one" == document["leader"]["holder"]
    assert document["leader"]["leaseHeld"]
    assert [("one-00000001", True, False), ("two-00000001", False, False)] == [
        (each["processor"], each["isLeader"], each["silent"]) for each in document["processors"]
    ]
    assert TASKS == [each["task"] for each in document["tasks"]]
    assert ["All 3 tasks run."] == document["notes"]
    shown = run(account, f"box/{JOB}").stdout
    assert "All 3 tasks run." in shown
    assert all(len(line) <= 100 for line in shown.splitlines())


def test_ages_are_measured_by_the_clock_of_the_service(account: MemoryAccount) -> None:
    job = Job(account, "one", "two")
    job.go_on(times=6)
    job.go_on(seconds=4, times=2, without="two")
    ages = [each["ageSeconds"] for each in json.loads(run(account, f"box/{JOB}", "--json").stdout)["processors"]]
    assert 8 == ages[1], "the clock of the command stands at another time"
    assert [False, True] == [
        each["silent"] for each in json.loads(run(account, f"box/{JOB}", "--json", "--death", "8").stdout)["processors"]
    ]


class Meanwhile(Intercept):
    """Acts before a request."""

    def __init__(self, number: int, act: Callable[[], object]) -> None:
        self.number, self.act = number, act

    def attempt(self, request: Request, send: Callable[[], T]) -> T:
        self.number -= 1
        if self.number == 0:
            self.act()
        return send()


@pytest.mark.parametrize("request_number", range(1, 6))
def test_document_and_rows_are_of_one_moment(account: MemoryAccount, request_number: int) -> None:
    job = Job(account, "one", "two")
    job.go_on(times=6)
    before = json.loads(run(account, f"box/{JOB}", "--json").stdout)["jobModel"]["version"]
    changing = account.restarted(Meanwhile(request_number, lambda: job.go_on(times=10, without="two")))
    document = json.loads(run(changing, f"box/{JOB}", "--json").stdout)
    version = document["jobModel"]["version"]
    assert (before if request_number > LAST_GET else before + 1) == version
    assert {version} == {each["confirmed"] for each in document["processors"]}


def test_status_makes_no_request_that_writes(account: MemoryAccount) -> None:
    Job(account, "one").go_on(times=3)
    requests = FaultInjector()
    watched = account.restarted(requests)
    run(watched, f"box/{JOB}")
    run(watched, "box/nobody")
    run(watched, f"box/{names_of('box', JOB).blob}", "--blob")
    assert {"get", "age", "query_entities", "list"} >= {each.operation for each in requests.attempts}
    with pytest.raises(NotFoundError):
        list(account.table(names_of("box", "nobody").processors).query())


def test_a_job_that_does_not_exist_is_an_error_that_names_the_others(account: MemoryAccount) -> None:
    result = run(account, "box/flights")
    assert (ERROR, "") == (result.exit_code, result.stdout)
    failed = "Read the status of job flights in memory://memory/box failed: it does not exist. "
    assert failed + "No process has started yet, or it uses another container or name.\n" == result.stderr
    Job(account, "one").go_on(times=2)
    account.container("box").put("coordination/x/other", b"")
    assert f"{failed}Its jobs are {JOB}.\n" == run(account, "box/flights").stderr


def test_a_container_that_does_not_exist_is_named(account: MemoryAccount) -> None:
    result = run(account, "nobox/flights")
    assert ERROR == result.exit_code
    assert "Container nobox does not exist" in result.stderr


def test_foreign_content_is_an_error(account: MemoryAccount) -> None:
    account.container("box").put(names_of("box", JOB).blob, b"{}")
    result = run(account, f"box/{JOB}")
    assert ERROR == result.exit_code
    assert "is no lease blob" in result.stderr


def test_a_job_whose_table_is_missing_is_shown(account: MemoryAccount) -> None:
    names = names_of("box", JOB)
    lease_id = "00000000-0000-0000-0000-000000000001"
    timing = LeaseTiming()
    Lease(account.container("box"), names.blob, "one", timing, clock=account.clock, new_id=lambda: lease_id).acquire()
    assert "There is no processor table: no processor of this job has started." in run(account, f"box/{JOB}").stdout


def test_a_blob_of_an_election_is_shown(account: MemoryAccount) -> None:
    lease_id = "00000000-0000-0000-0000-000000000001"
    lease = Lease(
        account.container("box"), "locks/x", "one", LeaseTiming(), clock=account.clock, new_id=lambda: lease_id
    )
    lease.acquire()
    leader = json.loads(run(account, "box/locks/x", "--blob", "--json").stdout)["leader"]
    assert ("one", True) == (leader["holder"], leader["leaseHeld"])
    account.clock.sleep(30)
    assert "Nobody leads: the lease of box/locks/x is not held." in " ".join(
        run(account, "box/locks/x", "--blob").stdout.split()
    )
    account.container("box").put("leaders/report", b"")
    assert "Below leaders/ are leaders/report." in run(account, "box/locks/y", "--blob").stderr


def test_a_job_or_a_blob_is_named(account: MemoryAccount) -> None:
    for arguments in (["box"], ["box/"], ["box", "--blob"]):
        result = run(account, *arguments)
        assert 2 == result.exit_code
        assert "name a job: CONTAINER/JOB" in result.stderr


def test_wrong_options_are_named(account: MemoryAccount) -> None:
    assert "it must be KEY=VALUE" in run(account, f"box/{JOB}", "-o", "accountName").stderr
    assert "Did you mean accountName?" in run(account, f"box/{JOB}", "-o", "acountName=x").stderr
    assert "1 to 200, not only spaces" in run(account, "box/ ").stderr


def test_text_of_others_commands_nothing(account: MemoryAccount) -> None:
    lease_id = "00000000-0000-0000-0000-000000000001"
    holder = "[red]\x1b[2Jone"
    Lease(account.container("box"), "x", holder, LeaseTiming(), clock=account.clock, new_id=lambda: lease_id).acquire()
    assert "[red]\\x1b[2Jone" in run(account, "box/x", "--blob").stdout


# --- --watch ----------------------------------------------------------------------------------------------------------


def test_watch_prints_a_line_for_each_change(account: MemoryAccount) -> None:
    job = Job(account, "one", "two")
    job.go_on(times=6)
    clock = ScriptedClock(
        lambda: None, lambda: job.go_on(times=8, without="two"), lambda: job.go_on(times=3, without="two")
    )
    result = run(account, f"box/{JOB}", "--watch", "--every", "3", clock=clock)
    assert INTERRUPTED == result.exit_code
    lines = [line[20:] for line in result.stdout.splitlines()]
    versions = [line for line in lines if line.startswith("barrier")]
    assert ["END", "END"] == [line.split()[1] for line in versions]
    assert 1 == int(versions[1].split()[2]) - int(versions[0].split()[2])
    assert "two-00000001: gone" in lines
    assert "one-00000001: leader, runs EWR, JFK, LGA" in lines
    assert 1 == sum(line.startswith("leader ") for line in lines), "what has not changed is not repeated"


def test_watch_prints_a_json_document_for_each_look(account: MemoryAccount) -> None:
    Job(account, "one").go_on(times=3)
    result = run(account, f"box/{JOB}", "--watch", "--json", clock=ScriptedClock(lambda: None, lambda: None))
    assert (INTERRUPTED, "") == (result.exit_code, result.stderr)
    assert [JOB] * 3 == [json.loads(line)["job"] for line in result.stdout.splitlines()]


def test_watch_goes_on_when_storage_gives_no_answer(account: MemoryAccount) -> None:
    Job(account, "one").go_on(times=3)
    lost = account.restarted(FaultInjector(on("get", Reset(), skip=2, times=12)))
    result = run(lost, f"box/{JOB}", "--watch", clock=ScriptedClock(lambda: None, lambda: None))
    assert INTERRUPTED == result.exit_code
    assert 1 == len([line for line in result.stderr.splitlines() if "attempts" in line])


def test_watch_redraws_on_a_terminal(account: MemoryAccount, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    job = Job(account, "one")
    job.go_on(times=2)
    faults = FaultInjector(on("age", Reset(), skip=4, times=12))
    clock = ScriptedClock(lambda: job.go_on(times=5), lambda: None)
    result = run(account.restarted(faults), f"box/{JOB}", "--watch", clock=clock)
    assert INTERRUPTED == result.exit_code
    screens = [screen for screen in result.stdout.split("\x1b[H") if "shared flights" in screen]
    assert [False, True, True] == ["All 3 tasks run." in screen for screen in screens]
    assert [False, False, True] == ["connection was reset" in screen for screen in screens]
    assert "" == result.stderr


def test_watch_ends_with_an_error_that_a_later_look_cannot_mend(account: MemoryAccount) -> None:
    Job(account, "one").go_on(times=3)
    refused = account.restarted(FaultInjector(on("get", Refuse(), skip=2)))
    result = run(refused, f"box/{JOB}", "--watch", clock=ScriptedClock(lambda: None))
    assert ERROR == result.exit_code
    assert "AuthorizationPermissionMismatch" in result.stderr
