"""Threads that share a service. Nothing listens at the endpoint: a request comes as far as the connection."""

from __future__ import annotations

import sys
import threading
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from itertools import count
from typing import TYPE_CHECKING, Any

from azure.core.pipeline import Pipeline

from azure_account.sdk.blobs import AzureBlobs
from azure_account.sdk.tables import AzureTables
from azure_account.service import Unreached
from tests.azure_account.settings_of import KEY, settings_of

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import FrameType

NOBODY = "http://127.0.0.1:1/acc"
SETTINGS = settings_of({"accountName": "acc", "accountKey": KEY, "endpoint": NOBODY, "tableEndpoint": NOBODY})


def end_of(request: Callable[[], object]) -> str:
    """The name of the error by which a request ends."""
    try:
        request()
    except Exception as error:  # noqa: BLE001 - whichever: the tests count them
        return type(error).__name__
    return "answered"


def ends_of_interleaved(first: Callable[[], object], second: Callable[[], object], line: int) -> list[str] | None:
    """How both requests end, if the first runs through its pipeline after `line` lines of the building of the second's.

    None if that has no more so many lines.
    """
    at_pipeline, go_on, lines = threading.Event(), threading.Event(), 0

    def wait_at_pipeline(frame: FrameType, *_: object) -> None:
        if frame.f_code is Pipeline.run.__code__:
            at_pipeline.set()
            go_on.wait()

    def end_of_first() -> str:
        sys.settrace(wait_at_pipeline)
        return end_of(first)

    def let_first_go_on(frame: FrameType, event: str, _: object) -> Any:
        nonlocal lines
        if frame.f_code is not Pipeline.__init__.__code__:
            return None
        lines += event == "line"
        if lines == line:
            go_on.set()
            ended.result()
        return let_first_go_on

    before = sys.gettrace()
    with ThreadPoolExecutor(1) as thread:
        ended = thread.submit(end_of_first)
        at_pipeline.wait()
        sys.settrace(let_first_go_on)
        end_of_second = end_of(second)
        sys.settrace(before)
        go_on.set()
    return [ended.result(), end_of_second] if lines >= line else None


def all_ends(request: Callable[[str], object]) -> Counter[str]:
    """How requests end, of which one begins to use a name while another one is on its way, at each line of that."""
    ends: Counter[str] = Counter()
    for line in count(1):
        found = ends_of_interleaved(partial(request, "first"), partial(request, f"second{line}"), line)
        if found is None:
            return ends
        ends.update(found)
    raise AssertionError


def test_a_thread_that_begins_to_use_a_table_does_not_disturb_the_requests_of_others() -> None:
    tables = AzureTables(SETTINGS)
    ends = all_ends(lambda name: tables.get_entity(name, "p", "r"))
    assert {Unreached.__name__: ends.total()} == ends
    assert ends.total() > 40, "the pipeline was built line by line"


def test_a_thread_that_begins_to_use_a_blob_does_not_disturb_the_requests_of_others() -> None:
    blobs = AzureBlobs(SETTINGS)
    ends = all_ends(lambda name: blobs.properties("box", name))
    assert {Unreached.__name__: ends.total()} == ends
    assert ends.total() > 40, "the pipeline was built line by line"


def test_threads_that_begin_to_use_a_table_at_once_all_send_their_requests() -> None:
    tables = AzureTables(SETTINGS)
    with ThreadPoolExecutor(8) as pool:
        ends = pool.map(lambda number: end_of(lambda: tables.get_entity(f"table{number // 8}", "p", "r")), range(160))
    assert {Unreached.__name__: 160} == Counter(ends)
