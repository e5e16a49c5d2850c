"""All tasks of a batch get one version; the decision table of pins, and pins in storage."""

from __future__ import annotations

import pytest

from adjunct_store.versions.manifest import Generation, Manifest, Version, VersionState, VisibleFrom
from adjunct_store.versions.pin import SHARED, Pin, PinAction, PinStep, counts, from_json, next_step, to_json
from adjunct_store.versions.pins import ReaderId, pin_version, release
from azure_account.container import BlobContainer
from azure_account.documents.form import sealed
from azure_account.memory.account import MemoryAccount
from azure_account.memory.faults import Fault, FaultInjector, LateEffect, LostAnswer, NumberedAttempt, Refuse, Reset, on
from foundation.errors import ConfigurationError, CorruptError, NotFoundError, TransientError
from tests.adjunct_store.stores import NAMES, OTHER, STORE, manifest_of, opened, published

HIDDEN, NEWEST, OLDER, RETIRING = (
    Version(9, 2, (), (), 0, 0, 0),
    Version(7, 1, (), (), 2, 0, 0),
    Version(6, 1, (), (), 1, 0, 0),
    Version(5, 1, (), (), 0, 0, 0, VersionState.RETIRING),
)
MANIFEST = Manifest(
    next_generation=3,
    next_version=10,
    generations=(Generation(1, {}, 0, "planes"), Generation(2, {}, 0, "planes", VisibleFrom.SEALED)),
    versions=(HIDDEN, NEWEST, OLDER, RETIRING),
    pins_expire=100.0,
)


@pytest.mark.parametrize(
    ("pin", "age", "wanted", "expected"),
    [
        (None, 0, None, PinStep(PinAction.PUT, NEWEST)),
        (None, 0, 6, PinStep(PinAction.PUT, OLDER)),
        (None, 0, 5, None),
        (None, 0, 9, None),
        (None, 0, 4, None),
        (Pin(7), 0, None, PinStep(PinAction.CONFIRM, NEWEST)),
        (Pin(6), 99, 7, PinStep(PinAction.CONFIRM, OLDER)),
        (Pin(5), 0, None, PinStep(PinAction.PUT, NEWEST)),
        (Pin(4), 0, None, PinStep(PinAction.PUT, NEWEST)),
        (Pin(9), 0, None, PinStep(PinAction.PUT, NEWEST)),
        (Pin(7), 100, None, PinStep(PinAction.PUT, NEWEST)),
        (Pin(6, confirmed=True), 1.7, None, PinStep(PinAction.USE, OLDER)),
        (Pin(5, confirmed=True), 1.7, 7, PinStep(PinAction.USE, RETIRING)),
        (Pin(5, confirmed=True), 1.8, None, PinStep(PinAction.RENEW, RETIRING)),
        (Pin(5, confirmed=True), 99, None, PinStep(PinAction.RENEW, RETIRING)),
        (Pin(6, confirmed=True, driver=SHARED), 1.7, None, PinStep(PinAction.USE, OLDER)),
        (Pin(6, confirmed=True, driver="another"), 1.7, None, PinStep(PinAction.RENEW, OLDER)),
        (Pin(5, confirmed=True), 100, None, PinStep(PinAction.PUT, NEWEST)),
        (Pin(4, confirmed=True), 0, None, PinStep(PinAction.PUT, NEWEST)),
        (Pin(4, confirmed=True), 0, 5, None),
    ],
)
def test_what_a_task_does_with_the_pin_that_it_finds(
    pin: Pin | None, age: float, wanted: int | None, expected: PinStep | None
) -> None:
    assert expected == next_step(pin, age, MANIFEST, wanted)


@pytest.mark.parametrize(("age", "expected"), [(0.0, True), (199.0, True), (200.0, False), (None, False)])
def test_a_clean_up_counts_a_pin_for_twice_its_time(age: float | None, expected: bool) -> None:
    assert expected == counts(age, 100.0)


@pytest.mark.parametrize(("age", "expected"), [(0.0, True), (3.5, True), (3.6, False), (None, False)])
def test_a_clean_up_counts_a_pin_for_less_when_later_batches_of_its_reader_have_theirs(
    age: float | None, expected: bool
) -> None:
    assert expected == counts(age, 100.0, followed=True)


def test_a_pin_is_the_same_after_json() -> None:
    for pin in (Pin(7), Pin(8, confirmed=True, write_id="i", driver="d")):
        assert pin == from_json(to_json(pin), "pin")
    with pytest.raises(ConfigurationError, match="Pin a has format version 2"):
        from_json(sealed({"format-version": 2}), "a")
    without_driver = sealed({"format-version": 1, "version": 7, "confirmed": True, "write-id": "i"})
    for data in (b"", b"{}", to_json(Pin(7)).replace(b"7", b"8"), sealed({"format-version": 1}), without_driver):
        with pytest.raises(CorruptError, match="Pin a is damaged"):
            from_json(data, "a")


def test_all_tasks_of_a_batch_and_its_repetition_get_one_version(container: BlobContainer) -> None:
    fill = opened(container, keep=1)
    first = published(fill, 0)
    pinned = pin_version(container, STORE, "q", 5)
    assert (first, fill.generation) == pinned
    later = [published(fill, batch) for batch in range(1, 4)]
    again, _ = pin_version(container, STORE, "q", 5)
    assert (1, VersionState.RETIRING) == (again.number, again.state)
    assert later[-1] == pin_version(container, STORE, "q", 6)[0]
    assert later[-1] == pin_version(container, STORE, "another", 5)[0]


def test_a_version_can_be_asked_for_and_a_batch_that_has_one_keeps_it(container: BlobContainer) -> None:
    fill = opened(container, keep=2)
    versions = [published(fill, batch) for batch in range(3)]
    assert versions[1] == pin_version(container, STORE, "q", 0, version=2)[0]
    assert versions[1] == pin_version(container, STORE, "q", 0, version=3)[0]
    with pytest.raises(NotFoundError, match=r"version 1 does not serve. Pin the newest version"):
        pin_version(container, STORE, "q", 1, version=1)


def test_without_a_version_that_readers_may_see_there_is_an_error(container: BlobContainer) -> None:
    fill = opened(container, bootstrap=True)
    published(fill, 0)
    with pytest.raises(NotFoundError, match=r"no version is published that readers may see. Wait until the store"):
        pin_version(container, STORE, "q", 0)
    assert [] == list(container.list(NAMES.all_pins))


def test_a_batch_deletes_the_pins_below_the_one_before_it(container: BlobContainer) -> None:
    published(opened(container), 0)
    for batch in (3, 4, 5, 6):
        pin_version(container, STORE, "q", batch)
    pin_version(container, STORE, "r", 3)
    assert [NAMES.pin("q", 5), NAMES.pin("q", 6), NAMES.pin("r", 3)] == [
        blob.name for blob in container.list(NAMES.all_pins)
    ]
    release(container, STORE, "q")
    assert [NAMES.pin("r", 3)] == [blob.name for blob in container.list(NAMES.all_pins)]


def pins_of(container: BlobContainer) -> list[int]:
    found = (NAMES.reader_and_batch(blob.name) for blob in container.list(NAMES.pins("q")))
    return [each[1] for each in found if each is not None]


@pytest.mark.parametrize("first", [50, 51], ids=["the copy repeats the batch", "the copy begins after it"])
def test_a_query_with_a_copied_checkpoint_leaves_the_pins_of_the_other_one(
    container: BlobContainer, first: int
) -> None:
    fill = opened(container, keep=1)
    versions = [published(fill, 0)]
    own, copy = ReaderId("q", "own"), ReaderId("q", "copy")
    assert versions[0] == pin_version(container, STORE, own, 50)[0]
    for batch in range(first, 60):
        pin_version(container, STORE, copy, batch)
        versions.append(published(fill, len(versions)))
    assert 1 == pin_version(container, STORE, own, 50)[0].number
    assert [50, 58, 59] == pins_of(container), "the copy has deleted its own ones"
    pin_version(container, STORE, own, 51)
    pin_version(container, STORE, own, 52)
    assert versions[-1] == pin_version(container, STORE, copy, 60)[0]
    assert [50] * (first == 50) + [51, 52, 59, 60] == pins_of(container), "a shared one is deleted by none of the two"


def test_pins_that_no_query_deletes_are_deleted_by_a_clean_up_when_later_batches_have_theirs(
    account: MemoryAccount,
) -> None:
    container = account.container("box")
    fill = opened(container, keep=1, clock=account.clock)
    published(fill, 0)
    for run in range(20):  # a query that is started anew for each batch
        for batch in (run, run + 1):
            pin_version(container, STORE, ReaderId("q", f"run {run}"), batch)
    assert list(range(21)) == pins_of(container)
    published(fill, 1)
    account.clock.sleep(6 * 3600 - 100)
    assert 20 in pins_of(container)
    pin_version(container, STORE, ReaderId("q", "slow"), 7)
    account.clock.sleep(200)
    published(fill, 2)
    assert [7, 19, 20] == pins_of(container), "batch 7 is read, and batches 19 and 20 may be repeated"
    account.clock.sleep(6 * 3600)
    published(fill, 3)
    assert [19, 20] == pins_of(container)


def test_a_pin_that_is_written_again_while_a_clean_up_deletes_it_keeps_its_version(account: MemoryAccount) -> None:
    container = account.container("box")

    def renew(attempt: NumberedAttempt) -> None:
        if attempt.operation == "delete" and attempt.name == NAMES.pin("q", 0):
            assert 1 == pin_version(container, STORE, "q", 0)[0].number

    fill = opened(account.restarted(FaultInjector(renew)).container("box"), keep=1, clock=account.clock)
    published(fill, 0)
    for batch in (0, 1):
        pin_version(container, STORE, ReaderId("q", f"run {batch}"), batch)
    pin_version(container, STORE, ReaderId("q", "run 2"), 2)
    account.clock.sleep(7 * 3600)
    published(fill, 1)
    assert [2, 1] == [each.number for each in manifest_of(container).versions]
    assert 1 == pin_version(container, STORE, "q", 0)[0].number


def test_pins_that_cannot_be_deleted_fail_no_batch(account: MemoryAccount, caplog: pytest.LogCaptureFixture) -> None:
    container = account.restarted(FaultInjector(on("delete", Refuse()))).container("box")
    version = published(opened(container), 0)
    for batch in (0, 1, 2):
        assert version == pin_version(container, STORE, "q", batch)[0]
    assert "old pins of q are left for its next batch: 403" in caplog.text
    pin_version(container, STORE, "q", 3)
    assert 2 == len(list(container.list(NAMES.pins("q"))))


def test_a_pin_is_written_again_in_its_second_half_and_replaced_after_its_time(
    account: MemoryAccount, caplog: pytest.LogCaptureFixture
) -> None:
    container = account.container("box")
    fill = opened(container, keep=1, pins_expire=100.0)
    first = published(fill, 0)
    pin_version(container, STORE, "q", 0)
    last = [published(fill, batch) for batch in range(1, 3)][-1]
    for seconds in (49, 40, 99):
        account.clock.sleep(seconds)
        assert first.number == pin_version(container, STORE, "q", 0)[0].number
        assert (container.age(NAMES.pin("q", 0)) or 0.0) < 50
    account.clock.sleep(100)
    assert last == pin_version(container, STORE, "q", 0)[0]
    assert "the pin of batch 0 of q has expired with version 1: version 3 is used from now on" in caplog.text
    assert last == pin_version(container, STORE, "q", 0)[0]


def test_a_pin_whose_version_is_gone_by_other_means_is_replaced(container: BlobContainer) -> None:
    published(opened(container), 0)
    container.put(NAMES.pin("q", 0), to_json(Pin(99, confirmed=True)))
    assert 1 == pin_version(container, STORE, "q", 0)[0].number
    container.put(NAMES.pin("q", 1), b"?")
    with pytest.raises(CorruptError, match="Delete the blob when no task of its batch runs"):
        pin_version(container, STORE, "q", 1)


def test_an_unconfirmed_pin_of_a_version_that_retires_is_replaced(container: BlobContainer) -> None:
    fill = opened(container, keep=1)
    published(fill, 0)
    container.put(NAMES.pin("q", 0), to_json(Pin(1)))
    last = [published(fill, batch) for batch in range(1, 3)][-1]
    assert [3, 1] == [each.number for each in manifest_of(container).versions], "it counts all the same"
    assert last == pin_version(container, STORE, "q", 0)[0]


def test_a_rebuilt_store_leaves_a_batch_its_generation(container: BlobContainer) -> None:
    published(opened(container), 0)
    _, old = pin_version(container, STORE, "q", 0)
    fill = opened(container, OTHER, rebuild=True)
    published(fill, 0, bootstrapped=True)
    assert old == pin_version(container, STORE, "q", 0)[1]
    assert fill.generation == pin_version(container, STORE, "q", 1)[1]


@pytest.mark.parametrize("fault", [LostAnswer(), Reset(), LateEffect(attempts=3)])
@pytest.mark.parametrize("skip", range(4))
def test_a_lost_answer_changes_nothing(account: MemoryAccount, fault: Fault, skip: int) -> None:
    published(opened(account.container("box")), 0)
    faults = FaultInjector(on("put", fault, skip=skip))
    container = account.restarted(faults).container("box")
    for batch in (0, 1, 2):
        assert 1 == pin_version(container, STORE, "q", batch)[0].number
    assert ["00000000000000000001.json", "00000000000000000002.json"] == [
        blob.name.rpartition("/")[2] for blob in container.list(NAMES.pins("q"))
    ]


def test_a_pin_of_which_no_answer_comes_is_an_error_that_can_be_repeated(account: MemoryAccount) -> None:
    published(opened(account.container("box")), 0)
    faults = FaultInjector(on("put", LateEffect(attempts=10_000)), on("put", Reset(), skip=1, times=4 * 12))
    container = account.restarted(faults).container("box")
    with pytest.raises(TransientError, match="write pin stores/planes/pins/q/00000000000000000000.json failed"):
        pin_version(container, STORE, "q", 0)
    assert 1 == pin_version(account.container("box"), STORE, "q", 0)[0].number


def test_the_first_task_of_a_batch_makes_eight_requests_and_others_two(account: MemoryAccount) -> None:
    published(opened(account.container("box")), 0)
    faults = FaultInjector()
    container = account.restarted(faults).container("box")
    requests = []
    for batch in [*range(5), 4]:
        before = faults.count
        pin_version(container, STORE, ReaderId("q", "driver"), batch)
        requests.append(faults.count - before)
    assert [6, 6, 8, 8, 8, 2] == requests
