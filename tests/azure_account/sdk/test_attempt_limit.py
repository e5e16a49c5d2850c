"""Answers of which a byte comes now and then, from a real server: an attempt ends when its time is up."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from azure_account.connect import connect
from azure_account.options.settings import Timeouts
from azure_account.retrying.policy import RetryPolicy
from azure_account.sdk.attempt_limit import attempt_limit, limited_part, time_left
from azure_account.values import Entity, Unknown
from foundation.errors import TransientError
from tests.azure_account.sdk.slow_server import IN_BODY, SlowServer
from tests.azure_account.settings_of import KEY, settings_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from azure_account.account import StorageAccount

LIMIT = 0.5
IN_FIRST_LINE, IN_HEAD = "", "HTTP/1.1 200 OK\r\nx-more: "
LEASE = "11111111-1111-1111-1111-111111111111"
REQUESTS: dict[str, Callable[[StorageAccount], object]] = {
    "read a blob": lambda account: account.container("box").get("blob"),
    "write a blob": lambda account: account.container("box").put("blob", b"data"),
    "lease a blob": lambda account: account.container("box").acquire_lease("blob", LEASE, 15),
    "read an entity": lambda account: account.table("rows").get("p", "r"),
    "write an entity": lambda account: account.table("rows").insert(Entity("p", "r", {})),
    "list entities": lambda account: list(account.table("rows").query("p")),
}


@pytest.mark.parametrize(
    ("kind", "at_once"),
    [
        *((kind, IN_HEAD) for kind in REQUESTS),
        *((kind, at_once) for kind in ("read a blob", "read an entity") for at_once in (IN_FIRST_LINE, IN_BODY)),
    ],
)
def test_an_attempt_whose_answer_does_not_end_is_given_up(kind: str, at_once: str) -> None:
    with ThreadPoolExecutor(1) as thread, SlowServer(at_once) as server:
        options = {"endpoint": server.endpoint, "tableEndpoint": server.endpoint, "accountKey": KEY}
        account = connect(
            replace(
                settings_of(options),
                timeouts=Timeouts(connect=LIMIT, request=LIMIT, lease=LIMIT, attempt=LIMIT),
                retry=RetryPolicy(max_attempts=1),
            )
        )
        found = thread.submit(result_of, REQUESTS[kind], account).result(timeout=30)
        assert "no whole answer from" in str(found)
        assert isinstance(found, (TransientError, Unknown))
        assert server.requests <= 1, "the SDK does not repeat it"


def result_of(request_of: Callable[[StorageAccount], object], account: StorageAccount) -> object:
    try:
        return request_of(account)
    except TransientError as error:
        return error


def test_a_part_of_an_attempt_has_an_earlier_end_and_leaves_the_attempt_as_it_was() -> None:
    with attempt_limit(None):
        with limited_part(5.0):
            assert (time_left() or 9.0) <= 5.0
        assert time_left() is None
    with attempt_limit(50.0):
        for seconds in (5.0, 500.0):
            with limited_part(seconds):
                assert (time_left() or 99.0) <= min(seconds, 50.0)
        assert (time_left() or 0.0) > 5.0
