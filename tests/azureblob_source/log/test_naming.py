from __future__ import annotations

from datetime import UTC, datetime
from urllib.parse import unquote_to_bytes

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from azure_account.names import check_blob
from azureblob_source.log.naming import (
    batches_stream,
    blob_name,
    block_id,
    boundary_name,
    check_stream,
    checkpoint_name,
    is_data,
    log_name,
    log_prefix,
    log_stream,
    log_version,
    manifest_name,
    may_be_data,
    partition_level,
    partition_value,
    schema_name,
)
from foundation.errors import ConfigurationError

STARTED = datetime(2013, 1, 2, 3, 4, 5, tzinfo=UTC)


@pytest.mark.parametrize(
    ("partition", "suffix", "extension", "name"),
    [
        (None, "0a1b2c3d", ".avro", "flights/2013/01/02/03/04-05-0a1b2c3d.avro"),
        (None, None, ".avro", "flights/2013/01/02/03/04-05.avro"),
        ("EWR", "0a1b2c3d", ".avro.gz", "flights/EWR/2013/01/02/03/04-05-0a1b2c3d.avro.gz"),
    ],
)
def test_a_data_blob_is_named_by_stream_partition_utc_time_and_suffix(
    partition: str | None, suffix: str | None, extension: str, name: str
) -> None:
    assert name == blob_name("flights", partition, STARTED, suffix, extension)


@pytest.mark.parametrize(
    ("value", "level"),
    [
        ("EWR", "EWR"),
        ("-1", "-1"),
        ("true", "true"),
        ("2013-01-31", "2013-01-31"),
        ("São Paulo", "São Paulo"),
        ("東京 🛫", "東京 🛫"),
        ("", "%00"),
        ("\0", "%C0%80"),
        ("\0\0", "%00%00"),
        ("a/b", "a%2Fb"),
        ("a\\b", "a%5Cb"),
        ("..", "%2E%2E"),
        (".hidden", "%2Ehidden"),
        ("_log", "%5Flog"),
        ("a_b.c", "a_b.c"),
        ("trailing.", "trailing%2E"),
        ("two. . ", "two%2E%20%2E%20"),
        (" x", "%20x"),
        ("100%", "100%25"),
        ("%2F", "%252F"),
        ("year=2013", "year%3D2013"),
        ("what?#", "what%3F%23"),
        ("tab\tnewline\n", "tab%09newline%0A"),
        ("\x7f\x85", "%7F%C2%85"),
        ("right-to-left\u202e", "right-to-left%E2%80%AE"),
        ("__HIVE_DEFAULT_PARTITION__", "%5F_HIVE_DEFAULT_PARTITION__"),
    ],
)
def test_a_partition_value_becomes_one_level(value: str, level: str) -> None:
    assert level == partition_level(value)


@given(st.text(max_size=20))
@example("\ud800")
@example("..")
@example(". .")
@example("\uffff")
@example("")
@example("\0")
def test_a_level_is_one_readable_level_and_names_its_value(value: str) -> None:
    level = partition_level(value)
    assert level
    assert not set(level) & set("/\\?#=:")
    assert level[0] not in "_. "
    assert level[-1] not in ". "
    check_blob(blob_name("s", level, STARTED, None, ".avro"))
    if value not in ("", "\0"):
        assert value.encode("utf-8", "surrogatepass") == unquote_to_bytes(level)
    assert value == partition_value(level)


@given(st.text(max_size=6), st.text(max_size=6))
@example("%2F", "/")
@example("a.", "a%2E")
@example("", "\0")
def test_distinct_values_have_distinct_levels(one: str, other: str) -> None:
    if one != other:
        assert partition_level(one) != partition_level(other)


def test_a_name_beyond_the_limit_is_refused_with_the_value_and_a_way_out() -> None:
    room = 1024 - len(blob_name("flights", "", STARTED, "0a1b2c3d", ".avro"))
    assert 1024 == len(blob_name("flights", "x" * room, STARTED, "0a1b2c3d", ".avro"))
    with pytest.raises(ConfigurationError, match=r"1025 characters, Azure allows 1024.*'flights'.*'xxxx.*Shorten"):
        blob_name("flights", "x" * (room + 1), STARTED, "0a1b2c3d", ".avro")


@pytest.mark.parametrize("stream", ["flights", "a/b/c", "year=2013", "São Paulo", "a_b.c", "100%", "x" * 960])
def test_a_stream_is_a_prefix_of_any_depth(stream: str) -> None:
    assert stream == check_stream(stream, option="stream")
    check_blob(blob_name(stream, None, STARTED, "0a1b2c3d", ".avro.gz"))


@pytest.mark.parametrize(
    ("stream", "problem"),
    [
        ("", "empty"),
        ("/a", "empty"),
        ("a/", "empty"),
        ("a//b", "empty"),
        ("a/../b", "level"),
        (".", "level"),
        ("a/_log", "'_log' begins with `_`"),
        (".a", "begins with `.`"),
        ("a/b.", "ends with a dot or space"),
        ("a ", "ends with a dot or space"),
        ("a\\b", "backslash"),
        ("a\nb", "control"),
        ("a\ud800", "control"),
        ("x" * 961, "no room"),
    ],
)
def test_a_stream_that_azure_or_readers_would_misread_is_refused(stream: str, problem: str) -> None:
    with pytest.raises(ConfigurationError, match="Change the option `streamColumn`") as caught:
        check_stream(stream, option="streamColumn")
    assert problem in str(caught.value)
    assert len(str(caught.value)) < 300


@given(st.integers(0, 49_999), st.integers(0, 49_999))
def test_block_ids_are_of_one_length_and_in_order(one: int, other: int) -> None:
    attempt = "0123456789abcdef"
    first, second = block_id(attempt, one), block_id(attempt, other)
    assert 22 == len(first) == len(second)
    assert (one < other) == (first < second)
    assert first != block_id("0123456789abcdee", one)


@given(st.integers(0, 10**19))
def test_a_log_entry_is_found_again_by_its_name(version: int) -> None:
    name = log_name("a/b", version)
    assert name.startswith(log_prefix("a/b"))
    assert (version, "a/b") == (log_version(name), log_stream(name))
    assert (version < 10) == (name < log_name("a/b", 10))


@pytest.mark.parametrize("name", ["a/_log/1.json", "a/_log/0000000000000000000x.json", "a/_schemas/00.avsc", "a"])
def test_other_names_have_no_version(name: str) -> None:
    assert (None, None) == (log_version(name), log_stream(name))


@given(st.text(max_size=6), st.sampled_from([None, "0a1b2c3d"]), st.sampled_from([".avro", ".avro.gz"]))
def test_a_data_blob_is_known_by_its_name(value: str, suffix: str | None, extension: str) -> None:
    assert is_data(blob_name("a/b", partition_level(value), STARTED, suffix, extension))


@given(
    st.sampled_from(["a", "a/b"]), st.none() | st.text(max_size=6), st.sampled_from([None, "0a1b2c3d"]),
    st.sampled_from([".avro", ".avro.gz"]),
)  # fmt: skip
def test_a_log_entry_may_name_every_blob_that_is_written(
    stream: str, value: str | None, suffix: str | None, extension: str
) -> None:
    name = blob_name(stream, None if value is None else partition_level(value), STARTED, suffix, extension)
    assert may_be_data(name, stream)
    assert may_be_data(name)


@pytest.mark.parametrize(
    "name",
    [
        "a/b.avro",
        "a/2013/01/02/03/04-05.csv",
        "2013/01/02/03/04-05.avro",
        log_name("a", 1),
        checkpoint_name("a", 1),
        manifest_name("a", 1, "0a1b"),
    ],
)
def test_a_name_of_another_form_is_no_data_blob_of_ours(name: str) -> None:
    assert not is_data(name)


def test_what_is_no_data_has_a_level_that_readers_skip() -> None:
    assert "flights/_log/00000000000000000007.json" == log_name("flights", 7)
    assert "flights/_log/_first.json" == boundary_name("flights")
    assert "flights/_schemas/0123456789abcdef.avsc" == schema_name("flights", "0123456789abcdef")
    assert "flights/_iceberg/metadata/snap-00000000000000000007.avro" == checkpoint_name("flights", 7)
    assert "flights/_iceberg/metadata/m-00000000000000000007-0a1b.avro" == manifest_name("flights", 7, "0a1b")
    assert "_batches/app%2Fone" == batches_stream("app/one")
