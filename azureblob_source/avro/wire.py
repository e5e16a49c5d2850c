"""Wire values: what fastavro reads out of a datum before anything is converted. Pure.

The wire schema of a type has the same bytes, but no logical types and no names: strings are bytes, an enum is its
index, a field is `f<index>`, and a branch of a general union stands in a record with one field `b<index>`, which costs
no byte and tells the branch. So no value is converted one by one, and names that fastavro would refuse do not matter.
"""

from __future__ import annotations

from itertools import count
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from azureblob_source.avro.types import AvroType


def wire_schema(avro: AvroType) -> Any:
    """The schema, as JSON values, that reads the bytes of `avro` as wire values."""
    records = {one.name: one for one in _walk(avro) if one.kind == "record"}
    return _wire(avro, records, {}, count())


def may_be_null(avro: AvroType) -> bool:
    """Whether values of `avro` may be null."""
    return any(one.kind == "null" for one in (avro, *avro.branches))


def is_general(avro: AvroType) -> bool:
    """Whether `avro` is a union of several types, null not counted."""
    return len(value_branches(avro)) > 1


def value_branches(avro: AvroType) -> tuple[AvroType, ...]:
    """The types that values other than null have: the branches of a union, or the type itself."""
    return tuple(one for one in (avro.branches if avro.kind == "union" else (avro,)) if one.kind != "null")


def wire_value(avro: AvroType, default: Any) -> Any:
    """A default out of a schema's JSON, as fastavro would read it by the wire schema of `avro`."""
    match avro.kind:
        case "bytes" | "fixed":
            return default.encode("latin-1")
        case "string":
            return default.encode()
        case "enum":
            return avro.symbols.index(default)
        case "float" | "double":
            return float(default)
        case "array":
            return [wire_value(avro.element, item) for item in default]
        case "map":
            return {key: wire_value(avro.element, value) for key, value in default.items()}
        case "record":
            return {
                f"f{place}": wire_value(member.type, default.get(member.name, member.default))
                for place, member in enumerate(avro.fields)
            }
        case "union":
            return _wire_branch(avro, default)
    return default


def _walk(avro: AvroType) -> Iterator[AvroType]:
    yield avro
    for inner in (*(member.type for member in avro.fields), *avro.branches, *([avro.items] if avro.items else [])):
        yield from _walk(inner)


def _wire(avro: AvroType, records: Mapping[str, AvroType], open_names: Mapping[str, str], ids: Iterator[int]) -> Any:
    match avro.kind:
        case "reference" if avro.name in open_names:
            return open_names[avro.name]
        case "reference":
            return _wire(records[avro.name], records, open_names, ids)
        case "record":
            name = f"t{next(ids)}"
            inner = {**open_names, avro.name: name}
            members = [(f"f{i}", _wire(member.type, records, inner, ids)) for i, member in enumerate(avro.fields)]
            return _wire_record(name, members)
        case "array":
            return {"type": "array", "items": _wire(avro.element, records, open_names, ids)}
        case "map":
            return {"type": "map", "values": _wire(avro.element, records, open_names, ids)}
        case "fixed":
            return {"type": "fixed", "name": f"t{next(ids)}", "size": avro.size}
        case "union":
            branches = [_wire(branch, records, open_names, ids) for branch in avro.branches]
            if not is_general(avro):
                return branches
            return [
                branch if branch == "null" else _wire_record(f"t{next(ids)}", [(f"b{index}", branch)])
                for index, branch in enumerate(branches)
            ]
    return {"string": "bytes", "enum": "int"}.get(avro.kind, avro.kind)


def _wire_record(name: str, fields: list[tuple[str, Any]]) -> dict[str, Any]:
    return {"type": "record", "name": name, "fields": [{"name": key, "type": inner} for key, inner in fields]}


def _wire_branch(avro: AvroType, default: Any) -> Any:
    """A union's default belongs to the first branch that it fits."""
    place = next((place for place, branch in enumerate(avro.branches) if _fits(branch, default)), 0)
    branch = avro.branches[place]
    if branch.kind == "null":
        return None
    value = wire_value(branch, default)
    return {f"b{place}": value} if is_general(avro) else value


def _fits(avro: AvroType, default: Any) -> bool:
    match default:
        case None:
            return avro.kind == "null"
        case bool():
            return avro.kind == "boolean"
        case int():
            return avro.kind in ("int", "long", "float", "double")
        case float():
            return avro.kind in ("float", "double")
        case str():
            return default in avro.symbols if avro.kind == "enum" else avro.kind in ("string", "bytes", "fixed")
        case list():
            return avro.kind == "array"
    return avro.kind in ("record", "map")
