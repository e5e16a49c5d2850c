"""Every Spark type, written and read back: values and types are equal."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyspark
import pytest
from pyspark.errors import PySparkException
from pyspark.sql import Row

from foundation.errors import ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import DataFrame, SparkSession

    from tests.spark.stored import Stored
    from tools.azurite import Azurite

pytestmark = [pytest.mark.every_spark, pytest.mark.oldest_spark]

HAS_TIME = tuple(map(int, pyspark.__version__.split(".")[:2])) >= (4, 1)

COLUMNS = {
    "boolean": ["true", "false"],
    "byte": ["-128Y", "127Y"],
    "short": ["-32768S", "32767S"],
    "int": ["-2147483648", "2147483647"],
    "long": ["CAST('-9223372036854775808' AS BIGINT)", "9223372036854775807L"],
    "float": ["CAST('-0.1' AS FLOAT)", "CAST('NaN' AS FLOAT)", "CAST('-Infinity' AS FLOAT)"],
    "double": ["-0.1D", "CAST('NaN' AS DOUBLE)", "CAST('Infinity' AS DOUBLE)", "4.9E-324D"],
    "decimal_small": ["-12.34BD", "CAST(0 AS DECIMAL(4, 2))", "CAST(99.99 AS DECIMAL(4, 2))"],
    "decimal_38": [
        "CAST('-99999999999999999999999999999999999999' AS DECIMAL(38, 0))",
        "CAST('99999999999999999999999999999999999999' AS DECIMAL(38, 0))",
    ],
    "decimal_fraction": ["CAST('-0.00000000000000000000000000000000000001' AS DECIMAL(38, 38))"],
    "string": ["''", "'grüß 👋'", "repeat('x', 5000)"],
    "binary": ["X''", "X'00FF'"],
    "date": ["DATE'0001-01-01'", "DATE'1970-01-01'", "DATE'9999-12-31'"],
    "timestamp": ["TIMESTAMP'1900-01-01 00:00:00.000001Z'", "TIMESTAMP'2999-12-31 23:59:59.999999Z'"],
    "timestamp_ntz": ["TIMESTAMP_NTZ'0001-01-01 00:00:00'", "TIMESTAMP_NTZ'9999-12-31 23:59:59.999999'"],
    "interval": ["INTERVAL '-3 04:05:06.789' DAY TO SECOND", "INTERVAL '106751990 00:00:00' DAY TO SECOND"],
    "array": ["array()", "array(1, NULL, 3)"],
    "array_of_arrays": ["array(array('a'), NULL, array())"],
    "map": ["map()", "map('a', 1, 'b', NULL)"],
    "map_by_date": ["map(DATE'2020-02-29', array(1.5D))"],
    "map_by_struct": ["map(named_struct('x', 1, 'y', 'k'), 2L)"],
    "struct": ["named_struct('x', 1, 'y', named_struct('z', 'q', 'none', NULL))"],
    "nested": ["array(map(1S, named_struct('k', array(X'01'), 'when', TIMESTAMP'2020-01-01 00:00:00Z')))"],
    "void": ["NULL"],
    "variant": ["""parse_json('{"a": [1, 2.5, null], "b": "x"}')""", "parse_json('null')"],
    **(
        {
            "time": ["TIME'00:00:00'", "TIME'23:59:59.999999'"],
            "time_in_struct": ["named_struct('t', TIME'01:02:03', 's', '')"],
        }
        if HAS_TIME
        else {}
    ),
}
"""SQL of the values of each column; every column also has a null."""


@dataclass(frozen=True)
class RoundTrip:
    """A frame with all columns, as it was written and as it was read."""

    written: DataFrame
    read: DataFrame
    before: list[Row]
    after: list[Row]


@pytest.fixture(scope="module")
def round_trip(spark: SparkSession, azurite: Azurite) -> Iterator[RoundTrip]:
    options = {"connectionString": azurite.connection_string}
    height = max(map(len, COLUMNS.values())) + 1
    rows = [[(values[number : number + 1] or ["NULL"])[0] for values in COLUMNS.values()] for number in range(height)]
    table = ", ".join(f"({number}, {', '.join(row)})" for number, row in enumerate(rows))
    written = spark.sql(f"SELECT * FROM VALUES {table} AS t(`number`, {', '.join(f'`{name}`' for name in COLUMNS)})")
    written.write.format("azureblob").options(**options).mode("append").save("test-types/all")
    read = spark.read.format("azureblob").options(**options).load("test-types/all")
    yield RoundTrip(written, read, written.orderBy("number").collect(), read.orderBy("number").collect())


@pytest.mark.parametrize("column", COLUMNS)
def test_a_column_comes_back_with_its_values_and_its_type(round_trip: RoundTrip, column: str) -> None:
    assert _shown(round_trip.before, column) == _shown(round_trip.after, column)
    assert round_trip.written.schema[column].dataType == round_trip.read.schema[column].dataType


def test_columns_that_are_not_nullable_stay_so_at_every_depth(
    spark: SparkSession, options: dict[str, str], target: str
) -> None:
    frame = spark.range(2).selectExpr(
        "id", "array(id) AS list", "map(id, id) AS map", "named_struct('x', id, 'y', nullif(id, 0)) AS struct"
    )
    assert frame.schema == _there_and_back(frame, options, target).schema


def test_odd_column_names_are_read_unchanged(spark: SparkSession, options: dict[str, str], target: str) -> None:
    names = ["a b", "a_b", "a.b", "a-b", "1st", "größe", "_", "", "select", "null", "x" * 300]
    frame = spark.createDataFrame([tuple(range(len(names)))], names)
    back = _there_and_back(frame, options, target)
    assert (names, [tuple(range(len(names)))]) == (back.columns, [tuple(row) for row in back.collect()])


@pytest.mark.parametrize(
    ("column", "named"),
    [
        ("INTERVAL '1-2' YEAR TO MONTH", "column 'wrong' has type interval year to month"),
        (
            "named_struct('deep', array(INTERVAL '2' MONTH))",
            "column 'wrong.deep.element' has type interval month",
        ),
    ],
)
def test_a_type_without_an_avro_form_is_refused_by_column(
    spark: SparkSession, options: dict[str, str], target: str, stored: Stored, column: str, named: str
) -> None:
    frame = spark.sql(f"SELECT 1 AS right, {column} AS wrong")
    with pytest.raises(PySparkException, match=f"{named}.*, which has no Avro form. Cast or drop it in the query"):
        frame.write.format("azureblob").options(**options).mode("append").save(target)
    assert [] == stored.names()


def test_a_narrower_interval_and_a_collation_keep_only_their_values(
    spark: SparkSession, options: dict[str, str], target: str
) -> None:
    frame = spark.sql("SELECT INTERVAL '12:30' HOUR TO MINUTE AS i, 'x' COLLATE UNICODE_CI AS s")
    back = _there_and_back(frame, options, target)
    assert frame.collect() == back.collect()
    assert ["interval day to second", "string"] == [field.dataType.simpleString() for field in back.schema]


def test_time_zone_and_arrow_settings_of_a_session_do_not_change_what_is_stored(
    spark: SparkSession, options: dict[str, str], target: str, stored: Stored
) -> None:
    session = spark.newSession()
    session.conf.set("spark.sql.session.timeZone", "America/New_York")
    session.conf.set("spark.sql.execution.arrow.useLargeVarTypes", "true")
    moments = (
        "TIMESTAMP'2020-06-01 12:00:00Z' AS ts, TIMESTAMP_NTZ'2020-06-01 12:00:00' AS ntz, 'text' AS s, X'00' AS b"
    )
    frame = session.sql(f"SELECT {moments}")
    back = _there_and_back(frame, options, target)
    assert (frame.collect(), frame.schema) == (back.collect(), back.schema)
    assert ["2020-06-01 12:00:00+00:00"] == [str(row["ts"]) for row in stored.rows()]


@pytest.mark.skipif(HAS_TIME, reason="this Spark has the type TIME")
def test_a_time_column_is_refused_by_name_where_spark_has_no_such_type() -> None:
    from arrow_avro import spark_of

    schema = pa.schema([("ok", pa.int64()), ("wakes_at", pa.time64("us"))])
    with pytest.raises(ConfigurationError, match="column 'wakes_at' is stored as time64.us., .* option `columns`"):
        spark_of(schema)


def _there_and_back(frame: DataFrame, options: dict[str, str], target: str) -> DataFrame:
    frame.write.format("azureblob").options(**options).mode("append").save(target)
    return frame.sparkSession.read.format("azureblob").options(**options).load(target)


def _shown(rows: list[Row], column: str) -> list[Any]:
    """Values as text, because NaN and VARIANT values do not equal themselves."""
    return [repr(row[column]) for row in rows]
