from __future__ import annotations

import json
from typing import Any

import pytest

from arrow_avro import AvroSchema, parse, superset
from azureblob_source.read.query_schema import QuerySchema


def schema(**columns: Any) -> AvroSchema:
    nullable = {"default": None}
    fields = [{"name": name, "type": avro} | (nullable if "null" in avro else {}) for name, avro in columns.items()]
    return parse(json.dumps({"type": "record", "name": "row", "fields": fields}))


def optional(avro: Any) -> Any:
    return ["null", avro]


ALL = QuerySchema(schema(id="long", n=optional("int")), None, strict=True)
SOME = QuerySchema(schema(id="long", n=optional("int")), ("id",), strict=True)
OLD = QuerySchema(schema(id="long", n=optional("int")), None, strict=False)


@pytest.mark.parametrize("query", [ALL, SOME, OLD])
@pytest.mark.parametrize(
    "writer",
    [schema(id="long", n=optional("int")), schema(n=optional("int"), id="long"), schema(id="int"), schema(id="long")],
)
def test_rows_that_fit_the_columns_of_a_query_are_read(query: QuerySchema, writer: AvroSchema) -> None:
    assert query.misfit(writer) is None


def test_a_new_column_does_not_fit_a_query_of_all_columns() -> None:
    one, two = (ALL.misfit(schema(id="long", **more)) for more in ({"c": "string"}, {"c": "string", "d": "int"}))
    assert one is not None
    assert two is not None
    assert "it adds column 'c', which the query was started without" == one.cause
    assert "it adds columns 'c', 'd', which the query was started without" == two.cause
    assert one.next_step.endswith("and has it. To do without, set option `schemaEvolution` to `ignore`.")


@pytest.mark.parametrize("query", [SOME, OLD])
def test_a_new_column_is_left_out_of_a_query_of_some_columns_and_of_one_that_ignores_it(query: QuerySchema) -> None:
    assert query.misfit(schema(id="long", c="string")) is None


def test_a_requested_column_that_the_stream_lacks_is_no_misfit() -> None:
    query = QuerySchema(ALL.reader, ("id", "nope"), strict=False)
    assert query.misfit(schema(id="long", c="string")) is None


@pytest.mark.parametrize("query", [ALL, SOME, OLD])
def test_a_wider_type_does_not_fit_and_the_next_step_is_a_restart(query: QuerySchema) -> None:
    misfit = query.misfit(schema(id="long", n=optional("long")))
    assert misfit is not None
    assert "column 'n'" in misfit.cause
    assert misfit.next_step.startswith("Start the query again from its checkpoint")
    assert "avroSchema" not in misfit.cause + misfit.next_step


@pytest.mark.parametrize("query", [ALL, SOME, OLD])
def test_a_column_that_becomes_nullable_does_not_fit(query: QuerySchema) -> None:
    misfit = query.misfit(schema(id=optional("long")))
    assert misfit is not None
    assert "it changes column 'id', which may be null now" == misfit.cause


@pytest.mark.parametrize("query", [ALL, OLD])
def test_a_field_within_a_struct_is_a_change_of_its_column_unless_new_columns_are_ignored(query: QuerySchema) -> None:
    def nested(**fields: Any) -> AvroSchema:
        return schema(s=json.loads(schema(**fields).json) | {"name": "inner"})

    misfit = QuerySchema(nested(a="int"), None, query.strict).misfit(nested(a="int", b="int"))
    assert query.strict == (misfit is not None)


@pytest.mark.parametrize("query", [ALL, SOME, OLD])
def test_types_without_a_common_one_do_not_fit(query: QuerySchema) -> None:
    misfit = query.misfit(schema(id="long", n="string"))
    assert misfit is not None
    assert "column 'n'" in misfit.cause


@pytest.mark.parametrize("depth", [1, 2, 15])
@pytest.mark.parametrize("columns", [None, ("id",)])
def test_rows_whose_record_contains_itself_fit_as_many_levels_as_are_read(
    depth: int, columns: tuple[str, ...] | None
) -> None:
    link = {"type": "record", "name": "link", "fields": [{"name": "v", "type": "int"}]}
    link["fields"].append({"name": "next", "type": ["null", "string", {"type": "array", "items": "link"}]})  # type: ignore[attr-defined]
    writer = schema(id="long", n=link)
    query = QuerySchema(superset([writer], columns, depth), columns, strict=True, depth=depth)
    assert query.misfit(writer) is None
    more = query.misfit(schema(id="long", n=link, c="string"))
    assert (more is None) == (columns is not None)


def test_a_query_of_other_columns_fits_rows_whose_record_contains_itself() -> None:
    link = {"type": "record", "name": "link", "fields": [{"name": "next", "type": ["null", "link"]}]}
    writer = schema(id="long", n=link)
    assert QuerySchema(superset([writer], ("id",)), ("id",), strict=True).misfit(writer) is None
    assert SOME.misfit(schema(id="long", n=optional("int"), m=link)) is None
