"""Conditions of requests as keyword arguments of the SDK's methods."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from azure.core import MatchConditions

if TYPE_CHECKING:
    from azure_account.values import Condition


def of_condition(condition: Condition) -> dict[str, Any]:
    """The arguments for a condition; none for `ALWAYS`."""
    if condition.if_absent:
        return {"match_condition": MatchConditions.IfMissing}
    return of_etag(condition.if_match)


def of_etag(etag: str | None) -> dict[str, Any]:
    """The arguments for `If-Match`; none if the ETag is None."""
    return {} if etag is None else {"etag": etag, "match_condition": MatchConditions.IfNotModified}
