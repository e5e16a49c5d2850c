"""Blobs that are gzipped as a whole."""

from __future__ import annotations

import gzip

from arrow_avro.files.container_file import InMemorySource
from arrow_avro.files.gzipped import GunzippedSource, is_gzip
from tests.arrow_avro.files.framed import file_of

MIB = 1 << 20


def test_an_avro_file_is_not_taken_for_gzip() -> None:
    assert not is_gzip(file_of([(1, b"ab")]))


def test_at_most_one_step_more_is_inflated_than_was_asked_for() -> None:
    stored = gzip.compress(bytes(64 * MIB))
    source = GunzippedSource(InMemorySource(memoryview(stored)), "a.avro.gz")
    assert 3 * MIB == source.clip(3 * MIB)
    assert source._inflated <= 4 * MIB
    source.forget(3 * MIB)
    assert 64 * MIB == source.clip(100 * MIB)
