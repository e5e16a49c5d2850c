from __future__ import annotations

import pytest

from azure_account.memory.faults import Fault, FaultInjector, LateEffect, LostAnswer, Reset, Throttle, TimeOut, on
from azureblob_source.log.boundary import Boundary, from_json, move_boundary, read_boundary, to_json
from foundation.errors import ConfigurationError, ConflictError, CorruptError, TransientError
from tests.azureblob_source.write.sink_rows import new_account

FAULTS = [LostAnswer(), TimeOut(), Reset(), Throttle(1.0), LateEffect(1), LateEffect(2)]


def test_a_boundary_is_found_again_as_it_was_put() -> None:
    boundary = Boundary(7, {5: '"0x8D1"', 6: '"0x8D2"'}, "w")
    assert boundary == from_json(to_json(boundary), "name")
    empty = b'{"formatVersion":1,"first":7,"writeId":"w","removing":{},"transactionList":3}'
    assert empty == to_json(Boundary(7, {}, "w", 3))


def test_fields_of_later_releases_are_ignored() -> None:
    document = b'{"formatVersion":1,"first":3,"writeId":"w","removing":{},"transactionList":0,"colour":"red"}'
    assert Boundary(3, {}, "w") == from_json(document, "name")


def test_a_newer_format_is_refused() -> None:
    with pytest.raises(ConfigurationError, match=r"format version 2; this release reads up to 1, so it needs a newer"):
        from_json(b'{"formatVersion":2,"first":3}', "name")


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"{",
        b"[]",
        b"null",
        b"{}",
        b'{"formatVersion":1}',
        b'{"formatVersion":1,"first":1,"writeId":"w"}',
        b'{"formatVersion":1,"first":1,"removing":{}}',
        b'{"formatVersion":1,"first":1,"writeId":"w","transactionList":0,"removing":[]}',
        b"[" * 100_000,
    ],
)
def test_a_damaged_boundary_is_an_error_and_not_taken_for_none(data: bytes) -> None:
    with pytest.raises(CorruptError, match=r"Log boundary flights/_log/_first\.json is damaged"):
        from_json(data, "flights/_log/_first.json")


def test_without_a_boundary_the_first_version_is_0() -> None:
    assert Boundary(0) == read_boundary(new_account().container("container"), "flights")


@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize("times", [1, 2, 4])
def test_a_boundary_is_moved_once_whatever_answers_are_lost(fault: Fault, times: int) -> None:
    account = new_account()
    faults = FaultInjector(on("put", fault, times=times), on("put", fault, skip=times + 1, times=times))
    container = account.restarted(faults).container("container")
    one = move_boundary(container, "flights", Boundary(), Boundary(3, {1: "e"}, "one"))
    two = move_boundary(container, "flights", one, Boundary(5, {}, "two"))
    faults.apply_late_effects()
    assert (5, "two") == (two.first, two.write_id)
    assert two == read_boundary(account.container("container"), "flights")


def test_of_two_vacuums_one_moves_the_boundary() -> None:
    container = new_account().container("container")
    moved = move_boundary(container, "flights", Boundary(), Boundary(3, {}, "one"))
    for old in (Boundary(), Boundary(1, {}, "old", etag='"0x8D0000000000FFF"')):
        with pytest.raises(ConflictError, match=r"another vacuum is at work on this log\. Run it again"):
            move_boundary(container, "flights", old, Boundary(4, {}, "other"))
    assert moved == read_boundary(container, "flights")


def test_a_boundary_never_goes_back() -> None:
    container = new_account().container("container")
    moved = move_boundary(container, "flights", Boundary(), Boundary(3, {}, "one"))
    with pytest.raises(ValueError, match="forward only, not from 3 to 2"):
        move_boundary(container, "flights", moved, Boundary(2, {}, "two"))


def test_a_move_that_never_has_an_answer_is_given_up_and_can_be_repeated() -> None:
    account = new_account()
    container = account.restarted(FaultInjector(on("put", TimeOut(), times=5))).container("container")
    with pytest.raises(TransientError, match=r"write log boundary flights/_log/_first\.json .*stays unknown"):
        move_boundary(container, "flights", Boundary(), Boundary(3, {}, "one"))
    assert 3 == move_boundary(container, "flights", Boundary(), Boundary(3, {}, "one")).first
