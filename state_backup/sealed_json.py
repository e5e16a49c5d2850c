"""JSON documents that carry a digest of themselves, so that a damaged one is noticed. Pure.

The digest is that of the fields sorted by name. One of the fields in the order of the document is read too: an earlier
release, which took numbers for names, sorted them as numbers.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

from azure_account.errors import AzureBlobError, ConfigurationError, CorruptError, describe

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

T = TypeVar("T")


@dataclass(frozen=True)
class SealedForm:
    """A kind of sealed documents with a format version. repair: what to do about a damaged one."""

    kind: str
    format_version: int
    repair: str

    def read(self, data: bytes, blob: str, parse: Callable[[dict[str, Any]], T]) -> T:
        """The parsed fields of a document.

        `ConfigurationError` for one of a newer release, `CorruptError` for what is no sound one.
        """
        try:
            fields = json.loads(data)
            version = fields["format-version"]
            if type(version) is int and version > self.format_version:
                text = f"{self.kind} {blob} has format version {version}; this release reads {self.format_version}."
                raise ConfigurationError(f"{text} Upgrade it.")
            if not is_sealed(fields, fields.pop("digest")):
                raise self.damaged(blob, "its digest is not that of its content")
            return parse(fields)
        except (AttributeError, KeyError, TypeError, ValueError, RecursionError) as error:
            if isinstance(error, ConfigurationError):
                raise
            raise self.damaged(blob, f"{error!r}") from error

    def damaged(self, blob: str, cause: str) -> CorruptError:
        """The error of a document that is not sound."""
        return CorruptError(f"{self.kind} {blob} is damaged: {cause}. {self.repair}")


def sealed(fields: Mapping[str, Any]) -> bytes:
    """The document with a field `digest`: the SHA-256 of its canonical form without that field."""
    return _canonical({**fields, "digest": digest_of(fields)})


def digest_of(fields: Mapping[str, Any]) -> str:
    """The digest that belongs to these fields."""
    return hashlib.sha256(_canonical(fields)).hexdigest()


def is_sealed(fields: Mapping[str, Any], digest: object) -> bool:
    """Whether the digest is that of the fields: sorted by name, or in the order of the document."""
    return digest == digest_of(fields) or digest == hashlib.sha256(_canonical(fields, sort_keys=False)).hexdigest()


def readable(document: T, blob: str, to_json: Callable[[T], bytes], from_json: Callable[[bytes, str], T]) -> bytes:
    """The document as it is stored. `ConfigurationError` unless a reader of it would read the same."""
    try:
        data = to_json(document)
        cause = "" if from_json(data, blob) == document else "it would be read as something else"
    except (AzureBlobError, TypeError, ValueError, ArithmeticError, RecursionError) as error:
        cause = str(error)
    if cause:
        step = "Nothing was committed: correct what was given."
        raise ConfigurationError(describe("write", f"document {blob}", f"it could not be read again ({cause})", step))
    return data


def _canonical(fields: Mapping[str, Any], *, sort_keys: bool = True) -> bytes:
    text = json.dumps(fields, ensure_ascii=False, separators=(",", ":"), sort_keys=sort_keys)
    return text.encode("utf-8", "surrogatepass")  # names of files may be any bytes
