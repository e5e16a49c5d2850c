"""Output for programs: JSON documents, one on each line."""

from __future__ import annotations

import json
import math
import sys
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from typing import Any


def json_line(value: object) -> str:
    """One line of JSON. Lone surrogates, which no encoding has, are its escapes."""
    text = json.dumps(jsonable(value), ensure_ascii=False, separators=(",", ":"))
    return text.encode("utf-8", "backslashreplace").decode()


def jsonable(value: Any) -> Any:
    """A value of a row for JSON: times in ISO 8601, decimals, NaN and infinities as strings, bytes in hex."""
    match value:
        case bool() | None | int() | str():
            return value
        case float():
            return value if math.isfinite(value) else str(value)
        case datetime() | date() | time():
            return value.isoformat()
        case timedelta():
            return value.total_seconds()
        case bytes():
            return value.hex()
        case Decimal():
            return str(value)
        case dict():
            return {str(key): jsonable(each) for key, each in value.items()}
        case list() | tuple():
            return [jsonable(each) for each in value]
    return str(value)


def print_json(document: object) -> None:
    """Print a document on standard output, at once."""
    sys.stdout.write(json_line(document) + "\n")
    sys.stdout.flush()
