from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING

import pytest

from azure_account.values import BlobProperties
from azureblob_source.log.entry import ATTEMPT, BlobEntry, LogEntry
from azureblob_source.log.live import first_unpublished, is_visible, last_published

if TYPE_CHECKING:
    from azureblob_source.log.entry import Operation


def entry(version: int, *, published: int = -1, replaces: int | None = None) -> LogEntry:
    operation: Operation = "append" if replaces is None else "void"
    return LogEntry("w", "t", operation, version=version, published_up_to=published, replaces=replaces)


def test_in_an_empty_log_version_0_is_the_first_unpublished() -> None:
    assert 0 == first_unpublished(None)
    assert 0 == first_unpublished(entry(0))


@pytest.mark.parametrize(("published", "known", "kept_from"), [(7, -1, 0), (3, 7, 0), (3, 5, 8), (7, 7, 8)])
def test_the_first_unpublished_version_follows_all_that_is_known_to_be_published(
    published: int, known: int, kept_from: int
) -> None:
    assert 8 == first_unpublished(entry(11, published=published), known=known, kept_from=kept_from)


def published_if_visible(entries: list[LogEntry], *visible: int) -> tuple[int, list[int]]:
    """Up to which version the entries are published, and which of them were looked at."""
    asked: list[int] = []

    def is_published(each: LogEntry) -> bool:
        asked.append(each.version)
        return each.version in visible

    return last_published(7, entries, is_published), asked


def test_a_log_is_published_up_to_the_first_entry_that_is_not() -> None:
    entries = [entry(8), entry(9), entry(10), entry(11)]
    assert (9, [8, 9, 10]) == published_if_visible(entries, 8, 9, 11)
    assert (11, [8, 9, 10, 11]) == published_if_visible(entries, 8, 9, 10, 11)
    assert (7, [8]) == published_if_visible(entries, 9)
    assert (7, []) == published_if_visible([])


def test_a_revoked_entry_is_passed_over() -> None:
    entries = [entry(8), entry(9, replaces=8), entry(10)]
    assert (10, [9, 10]) == published_if_visible(entries, 9, 10)
    assert (7, [9]) == published_if_visible(entries, 8, 10)


PLAIN, WITH_SUFFIX = "flights/2026/11/21/10/42-45.avro", "flights/2026/11/21/10/42-45-3f2a91c0.avro"


@pytest.mark.parametrize(
    ("name", "size", "attempt", "expected"),
    [
        (PLAIN, 9, "a1", True),
        (PLAIN, 8, "a1", True),
        (PLAIN, 9, "a2", False),
        (PLAIN, 9, None, True),
        (PLAIN, 8, None, False),
        (PLAIN, 0, "a1", False),
        (WITH_SUFFIX, 8, None, True),
        (WITH_SUFFIX, 8, "a2", False),
        (WITH_SUFFIX, 0, None, False),
    ],
)
def test_a_blob_is_visible_unless_another_one_has_its_name(
    name: str, size: int, attempt: str | None, expected: bool
) -> None:
    blob = BlobEntry(name, "flights", None, "a1", 1, 1, 9, 9, "f", "close")
    metadata = {} if attempt is None else {ATTEMPT: attempt}
    there = BlobProperties(name, size, "e", datetime(2026, 11, 21, tzinfo=UTC), metadata)
    assert expected == is_visible(blob, there)


def test_a_blob_that_is_gone_is_not_visible() -> None:
    assert not is_visible(BlobEntry(PLAIN, "flights", None, "a1", 1, 1, 9, 9, "f", "close"), None)
