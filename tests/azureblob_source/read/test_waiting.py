"""Waiting for a batch to be published."""

from __future__ import annotations

import pytest

from azure_account.values import BlobAttributes
from azureblob_source.log.entry import ATTEMPT, BlobEntry
from azureblob_source.read.waiting import PublicationWait, not_visible
from foundation.clock import ManualClock
from foundation.errors import TransientError
from tests.azureblob_source.write.sink_rows import new_account


def blob(name: str) -> BlobEntry:
    return BlobEntry(name, "flights", None, f"attempt-{name}", 1, 1, 1, 9, "f", "close")


def test_blobs_that_are_absent_empty_or_of_another_attempt_are_not_visible_yet() -> None:
    container = new_account().container("container")
    container.put("there", b"x", BlobAttributes({ATTEMPT: "attempt-there"}))
    container.put("empty", b"", BlobAttributes({ATTEMPT: "attempt-empty"}))
    container.put("another", b"x", BlobAttributes({ATTEMPT: "attempt-of-another-driver"}))
    blobs = [blob(name) for name in ("absent", "there", "empty", "another")]
    assert ["absent", "empty", "another"] == [each.name for each in not_visible(container, blobs)]
    assert [] == not_visible(container, blobs[1:2]) == not_visible(container, [])


def test_a_wait_ends_with_an_error_after_its_timeout_whatever_lies_between_two_looks() -> None:
    clock = ManualClock()
    wait = PublicationWait(30.0, clock)
    for seconds in (0.0, 1.0, 28.0):
        clock.advance(seconds)
        wait.go_on("version 7 of flights", version=7)
    clock.advance(3.0)
    with pytest.raises(
        TransientError, match=r"read version 7 of flights failed after 32\.0 s: .*repair`, or leave it\."
    ):
        wait.go_on("version 7 of flights", version=7, otherwise=", or leave it")


def test_waiting_begins_again_with_another_version_and_after_its_end() -> None:
    clock = ManualClock()
    wait = PublicationWait(30.0, clock)
    for version, ends in ((7, False), (8, True), (8, False)):
        wait.go_on("it", version=version)
        clock.advance(29.0)
        wait.go_on("it", version=version)
        if ends:
            wait.end()


def test_without_patience_the_first_look_is_the_last() -> None:
    with pytest.raises(TransientError):
        PublicationWait(0.0, ManualClock()).go_on("it")
