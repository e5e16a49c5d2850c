"""The lease of one blob: its document, its answers, and what is in the way."""

from __future__ import annotations

import itertools
import json
from typing import TYPE_CHECKING

import pytest

from azure_account.memory.account import MemoryAccount
from azure_account.memory.faults import FaultInjector, LateEffect, LostAnswer, Refuse, TimeOut, on
from azure_account.values import Done, Unknown
from coordination.leadership.lease import Lease, Lost, NotAcquired, Term
from coordination.leadership.lease_document import LeaseDocument, from_json
from coordination.timing import LeaseTiming
from foundation.errors import AzureBlobError, ConfigurationError, CorruptError, NotFoundError
from tests.coordination.leadership.contenders import OwnClock

if TYPE_CHECKING:
    from azure_account.values import BlobProperties
    from foundation.clock import Clock, ManualClock

BLOB = "jobs/flights"
numbers = itertools.count(1)


def lease_of(
    account: MemoryAccount, holder: str = "one", timing: LeaseTiming | None = None, clock: Clock | None = None
) -> Lease:
    def new_id() -> str:
        return f"20000000-0000-0000-0000-{next(numbers):012}"

    container = account.container("box")
    return Lease(container, BLOB, holder, timing or LeaseTiming(), clock=clock or account.clock, new_id=new_id)


@pytest.fixture
def account() -> MemoryAccount:
    account = MemoryAccount()
    account.container("box").create()
    return account


def pass_time(account: MemoryAccount, seconds: float) -> None:
    clock: ManualClock = account.clock  # type: ignore[assignment]
    clock.advance(seconds)


def begun(lease: Lease) -> Term:
    term = lease.acquire()
    assert isinstance(term, Term), term
    return term


def test_each_term_has_a_higher_epoch_also_when_the_blob_was_deleted(account: MemoryAccount) -> None:
    one, other = lease_of(account), lease_of(account, "other")
    first = begun(one)
    assert isinstance(other.acquire(), NotAcquired)
    one.release(first)
    second = begun(other)
    assert first.epoch + 1 == second.epoch
    pass_time(account, 100)
    account.container("box").delete(BLOB)
    third = begun(one)
    assert third.epoch > second.epoch
    found = one.read()
    assert found is not None
    assert ("one", third.epoch, third.lease_id) == (found[0].holder, found[0].epoch, found[0].lease_id)


def test_the_holder_keeps_content_beside_the_epoch_and_the_next_one_finds_it(account: MemoryAccount) -> None:
    one, other = lease_of(account), lease_of(account, "other")
    term = begun(one)
    found = one.read()
    assert found is not None
    assert isinstance(one.write(term, {"jobModel": {"version": 3}}, found[1]), Done)
    assert not isinstance(one.write(term, {}, found[1]), Done), "the ETag is of an earlier document"
    one.release(term)
    begun(other)
    after = other.read()
    assert after is not None
    assert {"jobModel": {"version": 3}} == after[0].content
    assert not isinstance(one.write(term, {}, after[1]), Done), "the term is over"


def test_a_blob_that_is_created_late_does_not_bring_an_earlier_epoch_back(account: MemoryAccount) -> None:
    faults = FaultInjector(on("put", LateEffect(1000)))
    begun(lease_of(account.restarted(faults)))  # its second request creates the blob; the first one is on its way
    pass_time(account, 100)
    container = account.container("box")
    container.break_lease(BLOB)
    container.delete(BLOB)
    second = begun(lease_of(account, "other"))
    container.break_lease(BLOB)
    container.delete(BLOB)
    pass_time(account, 100)
    faults.apply_late_effects()
    found = lease_of(account).read()
    assert found is not None
    assert found[0].epoch < second.epoch, "the creation has come late"
    assert begun(lease_of(account)).epoch > second.epoch


def test_what_the_error_of_a_damaged_blob_advises_gives_no_epoch_a_second_time(account: MemoryAccount) -> None:
    container, lease, epochs = account.container("box"), lease_of(account), list[int]()
    for _ in range(3):
        term = begun(lease)
        epochs.append(term.epoch)
        lease.release(term)
    container.put(BLOB, b'{"formatVersion":1,"epoch":"7"}')
    with pytest.raises(CorruptError, match="Delete it; do not restore an earlier version"):
        lease.acquire()
    pass_time(account, 60)
    container.delete(BLOB)
    assert begun(lease_of(account, "other")).epoch > epochs[-1]


def test_epochs_rise_whatever_the_clocks_of_the_hosts_show(account: MemoryAccount) -> None:
    service, epochs = account.clock, list[int]()
    for hours in (3, -2, 0, -48, 1):
        lease = lease_of(account, clock=OwnClock(service, 1.0, 0.0, 3600 * hours))
        for _ in range(2):
            term = begun(lease)
            epochs.append(term.epoch)
            lease.release(term)
            pass_time(account, 1)
        account.container("box").delete(BLOB)
        pass_time(account, 5)
    assert sorted(set(epochs)) == epochs
    assert int(service.now()) - 60 < epochs[0] < epochs[-1] < service.now(), "they are the service's time in seconds"


def test_epochs_rise_also_if_a_blob_is_deleted_in_the_second_in_which_it_was_created(account: MemoryAccount) -> None:
    first = begun(lease_of(account))
    account.container("box").break_lease(BLOB)
    account.container("box").delete(BLOB)
    second = begun(lease_of(account, "other"))
    assert first.epoch < second.epoch


def test_epochs_rise_also_if_a_blob_is_deleted_that_has_had_many_terms_in_a_second(account: MemoryAccount) -> None:
    epochs = list[int]()
    for _ in range(3):
        for _ in range(5):
            lease = lease_of(account)
            term = begun(lease)
            epochs.append(term.epoch)
            lease.release(term)
        account.container("box").delete(BLOB)
    assert sorted(set(epochs)) == epochs


def test_only_terms_that_would_overtake_the_clock_of_the_service_wait(account: MemoryAccount) -> None:
    waits = list[float]()
    for idle in (0, 0, 100, 0, 0):
        lease = lease_of(account)
        pass_time(account, idle)
        begin = account.clock.monotonic()
        term = begun(lease)
        waits.append(account.clock.monotonic() - begin)
        found = lease.read()
        assert found is not None
        assert isinstance(lease.write(term, {"jobModel": idle}, found[1]), Done)
        lease.release(term)
    assert [1.25, 1.25, 1.25, 0, 0] == waits, "the third one does not know yet how much time has passed"


def test_a_document_is_parsed_once_for_each_version(account: MemoryAccount) -> None:
    one, other = lease_of(account), lease_of(account, "other")
    term = begun(one)
    first, again = other.read(), other.read()
    assert first is not None
    assert again is not None
    assert first[0] is again[0]
    assert isinstance(one.write(term, {"jobModel": 1}, first[1]), Done)
    found = other.read()
    assert found is not None
    assert {"jobModel": 1} == found[0].content
    account.container("box").break_lease(BLOB)
    account.container("box").delete(BLOB)
    assert other.read() is None


def test_the_deadline_is_a_margin_before_the_expiry_and_counted_from_before_the_request(account: MemoryAccount) -> None:
    begin = account.clock.monotonic()
    term = begun(lease_of(account, timing=LeaseTiming(duration=40, margin=6)))
    assert begin + 34 == term.deadline
    pass_time(account, 10)
    begin = account.clock.monotonic()
    renewed = lease_of(account).renew(term)
    assert isinstance(renewed, Term)
    assert begin + 30 - 5 == renewed.deadline


def test_an_answer_that_is_lost_is_unknown_and_a_lease_of_another_is_lost(account: MemoryAccount) -> None:
    term = begun(lease_of(account))
    for fault in (LostAnswer(), TimeOut()):
        assert isinstance(lease_of(account.restarted(FaultInjector(on("renew_lease", fault)))).renew(term), Unknown)
    pass_time(account, 31)
    begun(lease_of(account, "other"))
    assert isinstance(lease_of(account).renew(term), Lost)


@pytest.mark.parametrize("operation", ["acquire_lease", "put", "get"])
@pytest.mark.parametrize("fault", [LostAnswer(), TimeOut()])
def test_a_lost_answer_at_any_request_does_not_hinder_the_term(
    account: MemoryAccount, operation: str, fault: LostAnswer | TimeOut
) -> None:
    for skip in range(3):
        lease = lease_of(account.restarted(FaultInjector(on(operation, fault, skip=skip))))
        term = begun(lease)
        found = lease.read()
        assert found is not None
        assert term.epoch == found[0].epoch
        lease.release(term)
        account.container("box").delete(BLOB) if skip == 0 else None


def test_a_term_that_begins_too_slowly_is_given_up(account: MemoryAccount) -> None:
    lease = lease_of(account)
    read = lease._read

    def slow() -> tuple[LeaseDocument, BlobProperties] | None:
        pass_time(account, 26)
        return read()

    lease._read = slow  # type: ignore[method-assign]
    assert isinstance(lease.acquire(), NotAcquired)
    begun(lease_of(account, "other"))


def test_a_container_that_is_deleted_is_an_error(account: MemoryAccount) -> None:
    lease = lease_of(MemoryAccount(account.service))
    term = begun(lease)
    account.service._containers.clear()
    for request in (lease_of(account).acquire, lambda: lease.renew(term)):
        with pytest.raises(NotFoundError, match="box"):
            request()


def test_a_missing_permission_is_an_error_that_says_so(account: MemoryAccount) -> None:
    with pytest.raises(ConfigurationError, match="AuthorizationPermissionMismatch"):
        lease_of(account.restarted(FaultInjector(on("acquire_lease", Refuse())))).acquire()


@pytest.mark.parametrize(
    ("data", "error", "message"),
    [
        (b"", ConfigurationError, "holds no JSON"),
        (b"\xff", ConfigurationError, "holds no JSON"),
        (b"[1]", ConfigurationError, "is no lease blob"),
        (b'{"epoch":3}', ConfigurationError, "is no lease blob"),
        (
            b'{"formatVersion":2,"epoch":3}',
            ConfigurationError,
            "format version 2; this release reads up to 1, so it needs a newer",
        ),
        (b'{"formatVersion":1,"epoch":3}', CorruptError, "is absent or of a wrong type"),
        (b'{"formatVersion":1,"epoch":"3","holder":"","leaseId":""}', CorruptError, "wrong type"),
        (b'{"formatVersion":1,"epoch":true,"holder":"","leaseId":""}', CorruptError, "wrong type"),
        (b'{"formatVersion":1,"epoch":3,"holder":7,"leaseId":""}', CorruptError, "wrong type"),
    ],
)
def test_a_blob_with_other_content_is_refused(
    account: MemoryAccount, data: bytes, error: type[AzureBlobError], message: str
) -> None:
    account.container("box").put(BLOB, data)
    with pytest.raises(error, match=rf"[Bb]lob box/{BLOB} .*{message}"):
        lease_of(account).acquire()
    assert data == account.container("box").get(BLOB).data


def test_a_document_is_read_back_equal() -> None:
    document = LeaseDocument(7, "höst", "id", {"more": [1, {"a": None}]})
    assert document == from_json(document.to_json(), "box/b")
    assert ["formatVersion", "epoch", "holder", "leaseId", "more"] == list(json.loads(document.to_json()))


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"duration": 14}, "duration of LeaseTiming is 14: give a whole number from 15 to 60"),
        ({"duration": 61}, "is 61"),
        ({"duration": 20.5}, r"is 20\.5"),
        ({"margin": 0}, "margin of LeaseTiming is 0: give a number of seconds above 0"),
        ({"renew_every": -1}, "renew_every of LeaseTiming is -1"),
        ({"renew_every": 11}, r"2 x renew_every \(11\) .* is 32.* more than the lease of 30: one failed renewal would"),
    ],
)
def test_durations_that_would_lose_the_lease_are_refused_with_the_rule(given: dict[str, float], message: str) -> None:
    with pytest.raises(ConfigurationError, match=message):
        LeaseTiming(**given)  # type: ignore[arg-type]


@pytest.mark.parametrize(("how", "known"), [("expires", True), ("is released", False), ("is broken", False)])
def test_a_term_knows_whether_the_lease_of_the_one_before_has_expired(
    account: MemoryAccount, how: str, known: bool
) -> None:
    one, other = lease_of(account), lease_of(account, "other")
    first = begun(one)
    assert (False, None) == (other.free, first.expired)
    other.read()
    assert not other.free
    if how == "expires":
        pass_time(account, 31)
    elif how == "is released":
        one.release(first)
    else:
        account.container("box").break_lease(BLOB)
    other.read()
    assert other.free
    assert (first.epoch if known else None) == begun(other).expired


def test_what_another_process_did_since_the_last_look_is_not_taken_for_an_expiry(account: MemoryAccount) -> None:
    one, between, other = lease_of(account), lease_of(account, "between"), lease_of(account, "other")
    begun(one)
    pass_time(account, 31)
    other.read()
    between.release(begun(between))
    assert begun(other).expired is None
