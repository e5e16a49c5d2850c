"""Chooses the encoder for each pair of an Arrow type and an Avro type, once for each `RowEncoder`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyarrow import types as arrow_is

from arrow_avro import varint
from arrow_avro.compatibility import match_fields, member_branches, pick_branch, plain_type
from arrow_avro.defaults import default_datum
from arrow_avro.encoding.column_encoder import ConstantEncoder
from arrow_avro.encoding.columns import BooleanEncoder, BytesEncoder, EnumEncoder, FixedEncoder, FloatEncoder
from arrow_avro.encoding.nested import (
    ListEncoder,
    NotNullEncoder,
    RecordEncoder,
    StructUnionEncoder,
    UnionEncoder,
)
from arrow_avro.encoding.numbers import DecimalEncoder, IntegerEncoder, integer_converter
from arrow_avro.types import AvroType

if TYPE_CHECKING:
    import pyarrow as pa

    from arrow_avro.encoding.column_encoder import ColumnEncoder


class AmbiguousUnionError(TypeError):
    """The types alone do not say which branch of a union a value belongs to."""


def encoder_for(arrow: pa.DataType, avro: AvroType) -> ColumnEncoder:
    """The encoder of a pair that `check_compatible` has accepted; nulls have no bytes. Raises AmbiguousUnionError."""
    arrow = plain_type(arrow)
    if avro.kind == "union":
        return _union_encoder(arrow, avro)
    if avro.kind == "record":
        return record_encoder(list(arrow), avro)
    if arrow_is.is_map(arrow):
        key = avro.element.fields[0].type if avro.kind == "array" else AvroType("string")
        value = avro.element.fields[1].type if avro.kind == "array" else avro.element
        entry = (0, "key", field_encoder(arrow.key_type, key)), (1, "value", field_encoder(arrow.item_type, value))
        return ListEncoder(RecordEncoder(entry))
    if avro.kind == "array":
        return ListEncoder(field_encoder(arrow.value_type, avro.element))
    return _leaf_encoder(arrow, avro)


def field_encoder(arrow: pa.DataType, avro: AvroType) -> ColumnEncoder:
    """The encoder of a whole field, as `encoder_for` finds it: refuses nulls if the Avro type has no null."""
    inner = encoder_for(arrow, avro)
    return inner if avro.kind in ("union", "null") else NotNullEncoder(inner)


def record_encoder(fields: list[pa.Field], avro: AvroType) -> RecordEncoder:
    """The encoder of a record with the columns `fields`."""
    members: list[tuple[int | None, str, ColumnEncoder]] = []
    for member, index in match_fields(fields, avro):
        if index is None:
            members.append((None, member.column, ConstantEncoder(default_datum(member.type, member.default))))
        else:
            members.append((index, member.column, field_encoder(fields[index].type, member.type)))
    return RecordEncoder(tuple(members))


def _union_encoder(arrow: pa.DataType, avro: AvroType) -> ColumnEncoder:
    nulls = [index for index, branch in enumerate(avro.branches) if branch.kind == "null"]
    null = nulls[0] if nulls else None
    if arrow_is.is_null(arrow):
        return ConstantEncoder(varint.encode(nulls[0]))
    members = member_branches(arrow, avro)
    if members is not None:
        encoders = tuple(encoder_for(f.type, avro.branches[i]) for f, i in zip(list(arrow), members, strict=True))
        return StructUnionEncoder(encoders, tuple(members), null)
    index = pick_branch(arrow, avro)
    if index is None:
        raise AmbiguousUnionError(f"Arrow type {arrow} fits several branches of {avro}")
    return UnionEncoder(encoder_for(arrow, avro.branches[index]), index, null)


def _leaf_encoder(arrow: pa.DataType, avro: AvroType) -> ColumnEncoder:
    match avro.kind:
        case "null":
            return ConstantEncoder(b"")
        case "boolean":
            return BooleanEncoder()
        case "float" | "double":
            return FloatEncoder(avro.kind == "double")
        case "enum":
            return EnumEncoder(avro.symbols)
        case "int" | "long":
            return IntegerEncoder(integer_converter(arrow, avro), avro.kind)
    if avro.logical == "decimal":
        return DecimalEncoder(avro.precision, avro.scale, avro.size)
    return FixedEncoder(avro.size) if avro.kind == "fixed" else BytesEncoder(avro.kind == "string")
