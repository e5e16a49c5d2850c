"""JSON documents that carry a digest of themselves, so that a damaged one is noticed. Pure."""

from __future__ import annotations

import hashlib
import json
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping


def sealed(fields: Mapping[str, Any]) -> bytes:
    """The document with a field `digest`: the SHA-256 of its canonical form without that field."""
    return _canonical({**fields, "digest": digest_of(fields)})


def digest_of(fields: Mapping[str, Any]) -> str:
    """The digest that belongs to these fields."""
    return hashlib.sha256(_canonical(fields)).hexdigest()


def _canonical(fields: Mapping[str, Any]) -> bytes:
    text = json.dumps(fields, ensure_ascii=False, separators=(",", ":"), sort_keys=True)
    return text.encode("utf-8", "surrogatepass")  # names of files may be any bytes
