"""Which Arrow types can be written as which Avro types.

A value of a compatible type may still be refused by the encoder: a long outside the range of int, a null.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pyarrow as pa
from pyarrow import types as arrow_is

from arrow_avro.types import MAX_PRECISION, AvroField, AvroType

Predicate = Callable[[pa.DataType], bool]


class IncompatibleTypeError(TypeError):
    """An Arrow type cannot be written as an Avro type. `path` leads from the column to the nested field."""

    def __init__(self, path: tuple[str, ...], reason: str) -> None:
        super().__init__(f"column {'.'.join(path)!r}: {reason}")
        self.path = path
        self.reason = reason


def is_any_string(arrow: pa.DataType) -> bool:
    """Any of the three string layouts."""
    return arrow_is.is_string(arrow) or arrow_is.is_large_string(arrow) or arrow_is.is_string_view(arrow)


def is_any_binary(arrow: pa.DataType) -> bool:
    """Any of the four binary layouts."""
    return (
        arrow_is.is_binary(arrow)
        or arrow_is.is_large_binary(arrow)
        or arrow_is.is_binary_view(arrow)
        or arrow_is.is_fixed_size_binary(arrow)
    )


def is_any_list(arrow: pa.DataType) -> bool:
    """A list, large list or fixed-size list."""
    return arrow_is.is_list(arrow) or arrow_is.is_large_list(arrow) or arrow_is.is_fixed_size_list(arrow)


def plain_type(arrow: pa.DataType) -> pa.DataType:
    """The type of the values of a dictionary, run-end or extension type, else the type itself."""
    while True:
        if arrow_is.is_dictionary(arrow) or arrow_is.is_run_end_encoded(arrow):
            arrow = arrow.value_type
        elif isinstance(arrow, pa.BaseExtensionType):
            arrow = arrow.storage_type
        else:
            return arrow


def _is_small_int(arrow: pa.DataType) -> bool:
    return arrow_is.is_integer(arrow) and arrow.bit_width <= 32  # noqa: PLR2004 - exact in a double


def _is_tiny_int(arrow: pa.DataType) -> bool:
    return arrow_is.is_integer(arrow) and arrow.bit_width <= 16  # noqa: PLR2004 - exact in a float


def _is_instant(arrow: pa.DataType) -> bool:
    return arrow_is.is_timestamp(arrow) and arrow.tz is not None


def _is_wall_clock(arrow: pa.DataType) -> bool:
    return arrow_is.is_timestamp(arrow) and arrow.tz is None


def _any_of(*predicates: Predicate) -> Predicate:
    return lambda arrow: any(predicate(arrow) for predicate in predicates)


_LEAVES: dict[tuple[str, str], Predicate] = {
    ("null", ""): arrow_is.is_null,
    ("boolean", ""): arrow_is.is_boolean,
    ("int", ""): arrow_is.is_integer,
    ("int", "date"): arrow_is.is_date,
    ("int", "time-millis"): arrow_is.is_time,
    ("long", ""): _any_of(arrow_is.is_integer, arrow_is.is_duration),
    ("long", "time-micros"): arrow_is.is_time,
    ("long", "timestamp-millis"): _is_instant,
    ("long", "timestamp-micros"): _is_instant,
    ("long", "timestamp-nanos"): _is_instant,
    ("long", "local-timestamp-millis"): _is_wall_clock,
    ("long", "local-timestamp-micros"): _is_wall_clock,
    ("long", "local-timestamp-nanos"): _is_wall_clock,
    ("float", ""): _any_of(arrow_is.is_float16, arrow_is.is_float32, _is_tiny_int),
    ("double", ""): _any_of(arrow_is.is_floating, _is_small_int),
    ("bytes", ""): _any_of(is_any_binary, is_any_string),
    ("bytes", "decimal"): arrow_is.is_decimal128,
    ("string", ""): is_any_string,
    ("string", "uuid"): is_any_string,
    ("enum", ""): is_any_string,
    ("fixed", ""): is_any_binary,
    ("fixed", "uuid"): is_any_binary,
    ("fixed", "duration"): is_any_binary,
    ("fixed", "decimal"): arrow_is.is_decimal128,
}

# The branch of a union that an Arrow type is written as if it is compatible with several.
_NATURAL: tuple[tuple[Predicate, str], ...] = (
    (_any_of(arrow_is.is_int64, arrow_is.is_uint32, arrow_is.is_uint64), "long"),
    (arrow_is.is_integer, "int"),
    (arrow_is.is_float64, "double"),
    (arrow_is.is_floating, "float"),
    (is_any_string, "string"),
    (is_any_binary, "bytes"),
)


def match_fields(
    arrow: list[pa.Field], avro: AvroType, path: tuple[str, ...] = ()
) -> Iterator[tuple[AvroField, int | None]]:
    """Each field of a record in schema order, with the index of its Arrow field; None if its default is written.

    Raises IncompatibleTypeError for a field with neither a column nor a default, and for a column without a field.
    """
    positions = {field.name: index for index, field in enumerate(arrow)}
    if len(positions) < len(arrow):
        raise IncompatibleTypeError(
            path or ("*",), f"two fields have the same name among {[field.name for field in arrow]}"
        )
    for field in avro.fields:
        index = positions.pop(field.column, None)
        if index is None and not field.has_default:
            raise IncompatibleTypeError(
                (*path, field.column), f"{avro} needs it, the rows lack it and it has no default"
            )
        yield field, index
    if positions:
        reason = f"{avro} has no such field, so option avroSchema would lose {', '.join(positions)}"
        raise IncompatibleTypeError((*path, next(iter(positions))), reason)


def check_compatible(arrow: pa.DataType, avro: AvroType, path: tuple[str, ...] = ()) -> None:
    """Raise IncompatibleTypeError, naming the innermost field, unless all values of `arrow` in range can be written."""
    arrow = plain_type(arrow)
    if avro.kind == "union":
        if arrow_is.is_null(arrow) and any(branch.kind == "null" for branch in avro.branches):
            return
        _check_union(arrow, avro, path)
    elif avro.kind == "record" and arrow_is.is_struct(arrow):
        fields = list(arrow)
        for field, index in match_fields(fields, avro, path):
            if index is not None:
                check_compatible(fields[index].type, field.type, (*path, field.column))
    elif avro.kind == "array" and avro.logical == "map" and arrow_is.is_map(arrow):
        key, value = avro.element.fields
        check_compatible(arrow.key_type, key.type, (*path, "key"))
        check_compatible(arrow.item_type, value.type, (*path, "value"))
    elif avro.kind == "array" and is_any_list(arrow):
        check_compatible(arrow.value_type, avro.element, (*path, "element"))
    elif avro.kind == "map" and arrow_is.is_map(arrow) and is_any_string(plain_type(arrow.key_type)):
        check_compatible(arrow.item_type, avro.element, (*path, "value"))
    else:
        _check_leaf(arrow, avro, path)


def is_compatible(arrow: pa.DataType, avro: AvroType) -> bool:
    """Whether `check_compatible` would pass."""
    try:
        check_compatible(arrow, avro)
    except IncompatibleTypeError:
        return False
    return True


def member_branches(arrow: pa.DataType, avro: AvroType) -> list[int] | None:
    """Indices of the branches for a struct of member0, member1, …, Spark's form of a general union; else None."""
    others = [index for index, branch in enumerate(avro.branches) if branch.kind != "null"]
    arrow = plain_type(arrow)
    if len(others) == 1 or not arrow_is.is_struct(arrow):
        return None
    if [field.name for field in arrow] != [f"member{index}" for index in range(len(others))]:
        return None
    return others if all(is_compatible(f.type, avro.branches[i]) for f, i in zip(arrow, others, strict=True)) else None


def pick_branch(arrow: pa.DataType, avro: AvroType) -> int | None:
    """Index of the one branch that values of `arrow` belong to; None if it depends on each value."""
    compatible = [
        index for index, branch in enumerate(avro.branches) if branch.kind != "null" and is_compatible(arrow, branch)
    ]
    if len(compatible) == 1:
        return compatible[0]
    natural = next((kind for predicate, kind in _NATURAL if predicate(plain_type(arrow))), "")
    exact = [index for index in compatible if avro.branches[index].kind == natural]
    return exact[0] if len(exact) == 1 else None


def _check_union(arrow: pa.DataType, avro: AvroType, path: tuple[str, ...]) -> None:
    if avro.nullable is not None:
        check_compatible(arrow, avro.nullable, path)
    elif member_branches(arrow, avro) is None and not any(is_compatible(arrow, branch) for branch in avro.branches):
        raise IncompatibleTypeError(path, f"Arrow type {arrow} fits no branch of the Avro union {avro}")


def _check_leaf(arrow: pa.DataType, avro: AvroType, path: tuple[str, ...]) -> None:
    accepts = _LEAVES.get((avro.kind, avro.logical))
    if accepts is None or not accepts(arrow):
        raise IncompatibleTypeError(path, f"Arrow type {arrow} cannot be written as Avro type {avro}")
    if avro.logical == "decimal" and not arrow.scale <= avro.scale <= MAX_PRECISION:
        raise IncompatibleTypeError(path, f"Arrow type {arrow} has other fraction digits than Avro type {avro}")
