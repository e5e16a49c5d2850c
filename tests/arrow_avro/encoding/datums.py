"""Schemas of given fields, and encoded rows as a list of datums."""

from __future__ import annotations

import json
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np

from arrow_avro import schema as avro_schema

if TYPE_CHECKING:
    from arrow_avro.encoding.pieces import EncodedRows
    from arrow_avro.schema import AvroSchema

ENUM = {"type": "enum", "name": "suit", "symbols": ["SPADES", "HEARTS"]}


def datums(rows: EncodedRows) -> list[bytes]:
    data = bytes(rows.data)
    ends = rows.offsets.tolist()
    assert rows.offsets.dtype == np.int64
    return [data[low:high] for low, high in pairwise(ends)]


def record(*fields: tuple[str, Any] | dict[str, Any]) -> AvroSchema:
    members = [field if isinstance(field, dict) else {"name": field[0], "type": field[1]} for field in fields]
    return avro_schema.parse(json.dumps({"type": "record", "name": "row", "fields": members}))
