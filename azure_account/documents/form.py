"""How documents are stored: a format version, and for most a digest of themselves, so that damage is noticed. Pure.

The digest is that of the fields sorted by name.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

from foundation.errors import AzureBlobError, ConfigurationError, CorruptError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

T = TypeVar("T")


@dataclass(frozen=True)
class DocumentFormat:
    """A kind of sealed documents with a format version. repair: what to do about a damaged one."""

    kind: str
    format_version: int
    repair: str

    def read(self, data: bytes, blob: str, parse: Callable[[dict[str, Any]], T]) -> T:
        """The parsed fields of a document.

        `ConfigurationError` if a newer release has written it, `CorruptError` if it is damaged.
        """
        try:
            fields = json.loads(data)
            check_version(fields["format-version"], self.format_version, f"{self.kind} {blob}")
            if fields.pop("digest") != digest_of(fields):
                raise self.damaged(blob, "its digest is not that of its content")
            return parse(fields)
        except (AttributeError, KeyError, TypeError, ValueError, RecursionError) as error:
            if isinstance(error, ConfigurationError):
                raise
            cause = f"{error.args[0]!r} is missing" if isinstance(error, KeyError) else str(error)
            raise self.damaged(blob, cause) from error

    def damaged(self, blob: str, cause: str) -> CorruptError:
        """The error of a damaged document."""
        return damaged(f"{self.kind} {blob}", cause, self.repair)


def check_version(version: object, newest: int, document: str) -> None:
    """`ConfigurationError` if a document has a format version above the newest one that this release reads.

    document: its kind and blob, such as `Log entry flights/_log/…7.json`.
    """
    if type(version) is int and version > newest:
        raise needs_newer_release(f"{document} has format version {version}; this release reads up to {newest}")


def needs_newer_release(found: str) -> ConfigurationError:
    """The error of a document that is whole, and that this release does not know."""
    return ConfigurationError(f"{found}, so it needs a newer release of pyspark-azureblob on this machine.")


def damaged(document: str, cause: str, repair: str) -> CorruptError:
    """The error of a damaged document. repair: what to do, a sentence."""
    return CorruptError(f"{document} is damaged: {cause}. {repair}")


def sealed(fields: Mapping[str, Any]) -> bytes:
    """The document with a field `digest`: the SHA-256 of its canonical form without that field."""
    return _canonical({**fields, "digest": digest_of(fields)})


def unsealed(data: bytes) -> dict[str, Any]:
    """The fields of a document that this release has sealed. `ValueError`, or what else its parts raise, if damaged."""
    fields: dict[str, Any] = json.loads(data)
    if fields.pop("digest") != digest_of(fields):
        raise ValueError("the digest is not that of the fields")
    return fields


def digest_of(fields: Mapping[str, Any]) -> str:
    """The digest that belongs to these fields."""
    return hashlib.sha256(_canonical(fields)).hexdigest()


def readable(document: T, blob: str, to_json: Callable[[T], bytes], from_json: Callable[[bytes, str], T]) -> bytes:
    """The document as it is stored. `ConfigurationError` unless a reader of it would read the same."""
    try:
        data = to_json(document)
        cause = "" if from_json(data, blob) == document else "it would be read as something else"
    except (AzureBlobError, TypeError, ValueError, ArithmeticError, RecursionError) as error:
        cause = str(error)
    if cause:
        step = "Nothing was committed: correct what was given."
        raise ConfigurationError("write", f"document {blob}", f"it could not be read again ({cause})", step)
    return data


def _canonical(fields: Mapping[str, Any]) -> bytes:
    text = json.dumps(fields, ensure_ascii=False, separators=(",", ":"), sort_keys=True)
    return text.encode("utf-8", "surrogatepass")  # names of files may be any bytes
