"""Keys of the command line: texts as values of the store's key columns. Pure."""

from __future__ import annotations

import datetime as dt
from typing import TYPE_CHECKING

from adjunct_store.encoding.schema import key_type_name
from foundation.errors import ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    import pyarrow as pa

_FORMS = {
    "boolean": "true or false",
    "binary": "hexadecimal digits",
    "date": "a date such as 2013-01-31",
    "timestamp": "a time such as 2013-01-31T05:15:00Z; without a zone it is UTC",
    "timestamp_ntz": "a time without a zone, such as 2013-01-31T05:15:00",
}


def typed_key(texts: Sequence[str], keys: pa.Schema) -> tuple[object, ...]:
    """The values of the first key columns. `ConfigurationError` for a text of another type."""
    if len(texts) > len(keys):
        columns = ", ".join(f"{column.name} {key_type_name(column)}" for column in keys)
        raise ConfigurationError(
            f"Argument KEY: {len(texts)} values are given; the store has {len(keys)} key columns: {columns}."
        )
    return tuple(_typed(text, column) for text, column in zip(texts, keys, strict=False))


def _typed(text: str, column: pa.Field) -> object:
    kind = key_type_name(column)
    try:
        return _PARSERS.get(kind, int)(text)
    except ValueError as error:
        form = _FORMS.get(kind, "a whole number")
        raise ConfigurationError(
            f"Argument KEY: {text!r} is not a value of key column {column.name!r} ({kind}). Give {form}."
        ) from error


def _boolean(text: str) -> bool:
    if text.lower() not in {"true", "false"}:
        raise ValueError(text)
    return text.lower() == "true"


def _timestamp(text: str) -> dt.datetime:
    found = dt.datetime.fromisoformat(text)
    return found if found.tzinfo is not None else found.replace(tzinfo=dt.UTC)


def _timestamp_ntz(text: str) -> dt.datetime:
    found = dt.datetime.fromisoformat(text)
    if found.tzinfo is not None:
        raise ValueError(text)
    return found


_PARSERS: dict[str, Callable[[str], object]] = {
    "boolean": _boolean,
    "string": str,
    "binary": bytes.fromhex,
    "date": dt.date.fromisoformat,
    "timestamp": _timestamp,
    "timestamp_ntz": _timestamp_ntz,
}
