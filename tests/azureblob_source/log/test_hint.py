from __future__ import annotations

import pytest

from azureblob_source.log.hint import hinted, put_hint
from azureblob_source.log.naming import LAST_VERSION, hint_name
from tests.azureblob_source.write.sink_rows import new_account

STREAM = "flights"


def test_a_hint_is_read_as_it_was_put_last() -> None:
    container = new_account().container("container")
    assert -1 == hinted(container, STREAM)
    for version in (127, 63, LAST_VERSION):
        put_hint(container, STREAM, version)
        assert version == hinted(container, STREAM)


def test_a_later_format_may_say_more() -> None:
    container = new_account().container("container")
    container.put(hint_name(STREAM), b'{"formatVersion": 2, "version": 7, "more": []}')
    assert 7 == hinted(container, STREAM)


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"{",
        b"[]",
        b"{}",
        b"7",
        b"null",
        b"\xff\xfe",
        b'{"version": null}',
        b'{"version": "7"}',
        b'{"version": 7.5}',
        b'{"version": -2}',
        b'{"version": 100000000000000000000}',
        b'{"version": ' + b"9" * 2000 + b"}",
        b'{"version": ' + b"9" * 5000 + b"}",
        b"[" * 100_000,
    ],
)
def test_a_damaged_hint_is_none(data: bytes) -> None:
    container = new_account().container("container")
    container.put(hint_name(STREAM), data)
    assert -1 == hinted(container, STREAM)
