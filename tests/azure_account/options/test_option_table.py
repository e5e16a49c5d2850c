from __future__ import annotations

from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from azure_account.options.option_table import (
    Option,
    OptionTable,
    Parser,
    boolean,
    byte_size,
    instant,
    integer,
    interval,
    milliseconds,
    one_of,
    seconds,
    text,
    text_list,
)
from foundation.errors import ConfigurationError
from tools.options_page import markdown

TABLE = OptionTable(
    (
        Option("maxBlobSize", byte_size(), 10485760, "Size at which a blob rolls.", "Rolling"),
        Option("codec", one_of("null", "deflate", "zstandard"), "null", "Avro codec.", "Encoding"),
        Option("accountKey", integer(1), None, "Key.", "Account", secret=True),
        Option("metadata.*", text(), None, "Blob metadata.", "Blobs"),
    )
)


def test_the_case_of_keys_is_ignored_and_values_are_typed() -> None:
    parsed = TABLE.parse({"MAXBLOBSIZE": "64k", "codec": "ZStandard"})
    assert (65536, "zstandard", None) == (parsed["maxBlobSize"], parsed["codec"], parsed["accountKey"])
    assert {"maxBlobSize", "codec"} == parsed.given


def test_options_of_a_prefix_are_collected() -> None:
    parsed = TABLE.parse({"metadata.owner": "a", "Metadata.team": "b"})
    assert {"owner": "a", "team": "b"} == parsed["metadata.*"]
    assert {} == TABLE.parse({})["metadata.*"]


@pytest.mark.parametrize(
    ("key", "nearest"), [("maxblobsiz", "maxBlobSize"), ("kodec", "codec"), ("metadata.", "metadata")]
)
def test_the_error_for_an_unknown_option_proposes_the_nearest_one(key: str, nearest: str) -> None:
    with pytest.raises(ConfigurationError, match=f"Option `{key}` is unknown. Did you mean {nearest}"):
        TABLE.parse({key: "1"})


def test_the_error_for_an_option_similar_to_none_lists_all() -> None:
    with pytest.raises(ConfigurationError, match="The options are maxBlobSize, codec, "):
        TABLE.parse({"qqqqqqqqqq": "1"})


def test_the_error_for_a_malformed_value_has_option_value_and_what_is_expected() -> None:
    with pytest.raises(ConfigurationError, match=r"`maxBlobSize`: the value '10 pounds' .* expected a number of bytes"):
        TABLE.parse({"maxblobsize": "10 pounds"})


def test_a_malformed_secret_is_not_shown() -> None:
    with pytest.raises(ConfigurationError) as caught:
        TABLE.parse({"accountkey": "S3CR3T"})
    assert "Option `accountKey`: the value is not valid; expected an integer of at least 1." == str(caught.value)
    assert caught.value.__cause__ is None


def test_the_repr_of_parsed_options_shows_no_secret() -> None:
    parsed = TABLE.parse({"accountkey": "42", "codec": "null"})
    assert "ParsedOptions({'accountKey': '***', 'codec': 'null'})" == repr(parsed)


def test_tables_are_joined_and_a_name_must_be_unique() -> None:
    joined = TABLE + OptionTable((Option("view", text(), "data", "What to read.", "Reading"),))
    assert "data" == joined.parse({})["view"]
    with pytest.raises(ValueError, match="codec"):
        _ = joined + OptionTable((Option("CODEC", text(), None, "", ""),))


def test_the_manual_has_a_table_for_each_group() -> None:
    page = markdown(TABLE)
    assert [
        "## Rolling",
        "## Encoding",
        "## Account",
        "## Blobs",
    ] == [line for line in page.splitlines() if line.startswith("##")]
    assert "| `codec` | one of `null`, `deflate`, `zstandard` | `null` | Avro codec. |" in page


@pytest.mark.parametrize(
    ("parser", "raw", "expected"),
    [
        (boolean(), "TRUE", True),
        (boolean(), "false", False),
        (byte_size(), "10485760", 10485760),
        (byte_size(), "10MiB", 10 << 20),
        (byte_size(), "2 GB", 2 << 30),
        (byte_size(), "7b", 7),
        (milliseconds(), "180000", 180000),
        (milliseconds(), "3m", 180000),
        (milliseconds(), "500ms", 500),
        (interval(), "7 days", timedelta(days=7)),
        (interval(), "1 Day", timedelta(days=1)),
        (interval(), "12 hours", timedelta(hours=12)),
        (interval(), "90m", timedelta(minutes=90)),
        (interval(), "5 minutes", timedelta(minutes=5)),
        (interval(), "30 seconds", timedelta(seconds=30)),
        (seconds(), "30", 30.0),
        (seconds(), "1500ms", 1.5),
        (text_list(), "a, b", ("a", "b")),
    ],
)
def test_values_are_parsed(parser: Parser[object], raw: str, expected: object) -> None:
    assert expected == parser(raw)


@pytest.mark.parametrize(
    ("parser", "raw"),
    [
        (boolean(), "yes"),
        (byte_size(), "-1"),
        (byte_size(), "1.5k"),
        (byte_size(maximum=10), "11"),
        (byte_size(), "8388608t"),
        (instant(), "0001-01-01T00:00:00+14:00"),
        (instant(), "9999-12-31T23:59:59-14:00"),
        (integer(1), "0"),
        (integer(1, 5), "6"),
        (integer(1), "x"),
        (milliseconds(), "0"),
        (milliseconds(), "5 years"),
        (interval(), "7"),
        (interval(), "0 days"),
        (interval(), "5 years"),
        (interval(), "36501 days"),
        (seconds(), "99999999999d"),
        (seconds(maximum=10), "1m"),
        (one_of("a", "b"), "c"),
        (text(), ""),
        (text_list(), "a,,b"),
    ],
)
def test_malformed_values_are_refused(parser: Parser[object], raw: str) -> None:
    with pytest.raises(ValueError):  # noqa: PT011 - the message is the option's
        parser(raw)


@given(st.integers(1, 2**33 - 1), st.sampled_from(["", "k", "M", "g", "KiB", "mb"]))
def test_a_size_is_its_number_times_its_unit(number: int, unit: str) -> None:
    factor = {"": 1, "k": 1024, "m": 1024**2, "g": 1024**3}[unit[:1].lower()]
    assert number * factor == byte_size()(f"{number}{unit}")
