"""Answers whose headers are malformed or missing, as a proxy may pass them: one rule for blobs and tables.

What an answer says is read, or it is as good as lost (`Ambiguous`): no age and no ETag is guessed, and no error of a
stranger escapes.
"""

from __future__ import annotations

import threading
from collections import Counter
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from azure_account.options.settings import AccountSettings
from azure_account.sdk.blobs import AzureBlobs
from azure_account.sdk.tables import AzureTables
from azure_account.service import Ambiguous
from azure_account.values import IF_ABSENT, BlobAttributes, BlobContent, Entity
from tests.azure_account.settings_of import KEY, settings_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

WRITTEN, ANSWERED = "Thu, 01 Jan 2026 00:00:00 GMT", "Thu, 01 Jan 2026 00:01:00 GMT"
SENT = {
    "Date": ANSWERED,
    "Last-Modified": WRITTEN,
    "ETag": '"0x1"',
    "Content-Length": "4",
    "Content-Range": "bytes 0-3/4",
    "Content-Type": "application/octet-stream",
    "x-ms-blob-type": "BlockBlob",
    "x-ms-creation-time": WRITTEN,
    "x-ms-lease-id": "l",
    "x-ms-request-server-encrypted": "true",
    "x-ms-tag-count": "1",
}
STATUS = {"GET": 206, "HEAD": 200, "PUT": 201, "POST": 201}
ENTITIES = b'{"value": [{"PartitionKey": "p", "RowKey": "r", "Timestamp": "2026-01-01T00:00:00Z", "odata.etag": "1"}]}'


class Server(ThreadingHTTPServer):
    """Answers each request with the same headers, but for those that a test changes."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Answer)
        self.changed: Mapping[str, str | None] = {}

    @property
    def settings(self) -> AccountSettings:
        place = f"http://127.0.0.1:{self.server_address[1]}/acc"
        return settings_of({"accountName": "acc", "accountKey": KEY, "endpoint": place, "tableEndpoint": place})


class _Answer(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: Server

    def do_GET(self) -> None:
        self.rfile.read(int(self.headers.get("Content-Length") or 0))
        tables = "Table" in self.path
        body = {"PUT": b"", "POST": b"{}"}.get(self.command, ENTITIES if tables else b"abcd")
        self.send_response_only(200 if body is ENTITIES else STATUS[self.command])
        size = {"Content-Length": str(len(body))} if self.command != "HEAD" else {}
        kind = {"Content-Type": "application/json"} if tables else {}
        for name, value in {**SENT, **size, **kind, **self.server.changed}.items():
            if value is not None:
                self.send_header(name, value)
        self.send_header("Connection", "close")
        self.end_headers()
        self.wfile.write(body if self.command != "HEAD" else b"")
        self.close_connection = True

    do_HEAD = do_PUT = do_POST = do_GET

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - of the base class
        """Nothing."""


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with Server() as running:
        threading.Thread(target=running.serve_forever, daemon=True).start()
        yield running
        running.shutdown()


def requests_of(settings: AccountSettings) -> dict[str, Callable[[], object]]:
    blobs, tables = AzureBlobs(settings), AzureTables(settings)
    return {
        "get": lambda: blobs.get("abc", "b", 0, 4, None),
        "properties": lambda: blobs.properties("abc", "b"),
        "age": lambda: blobs.age("abc", "b"),
        "put": lambda: blobs.put("abc", "b", b"1", BlobAttributes(), IF_ABSENT, None),
        "commit": lambda: blobs.commit_block_list("abc", "b", ["YQ=="], BlobAttributes(), IF_ABSENT),
        "lease": lambda: blobs.acquire_lease("abc", "b", "l", 15),
        "insert": lambda: tables.insert_entity("Table", Entity("p", "r", {})),
        "entities": lambda: tables.query_page("Table", "p", None),
    }


MALFORMED = st.one_of(
    st.none(),
    st.text(st.characters(min_codepoint=32, max_codepoint=126), max_size=30).map(str.strip),
    st.sampled_from(["-1", "9" * 400, "Thu, 01 Jan 99999 00:00:00 GMT", "01 Jan 2026 00:02:00 -0000", "Thu", "\xff"]),
)


def test_an_answer_is_read_or_as_good_as_lost_whatever_its_headers_are(server: Server) -> None:
    asked = requests_of(server.settings)
    seen: Counter[str] = Counter()

    @settings(max_examples=150, suppress_health_check=list(HealthCheck), deadline=None)
    @given(st.sampled_from(sorted(asked)), st.sampled_from(sorted(SENT)), MALFORMED)
    @example("insert", "Content-Type", "0")  # the SDK's table client fails over such an answer by an AttributeError
    def check(request: str, header: str, value: str | None) -> None:
        server.changed = {header: value}
        try:
            found = asked[request]()
        except Ambiguous:
            seen["lost"] += 1
            return
        seen[request] += 1
        if isinstance(found, BlobContent):
            assert (b"abcd", '"') == (found.data, found.properties.etag[:1])
            date = parsedate_to_datetime(value or "") if header == "Date" else parsedate_to_datetime(ANSWERED)
            zoned = date if date.tzinfo else date.replace(tzinfo=UTC)
            assert (zoned - found.properties.last_modified).total_seconds() == found.age
        elif request in ("put", "commit", "lease", "insert"):
            assert found, "the ETag"

    check()
    assert [] == [event for event in ("lost", *asked) if not seen[event]]


@pytest.mark.parametrize("request_", ["get", "properties", "age"])
@pytest.mark.parametrize("date", [None, "soon", "", "Thu, 01 Jan 99999 00:00:00 GMT"])
def test_an_age_is_not_guessed_without_a_date(server: Server, request_: str, date: str | None) -> None:
    server.changed = {"Date": date}
    with pytest.raises(Ambiguous, match="cannot be read") as lost:
        requests_of(server.settings)[request_]()
    assert lost.value.next_step.startswith("Have the proxy between here and the service pass the headers")


def test_an_error_before_an_answer_is_no_lost_answer(server: Server) -> None:
    server.changed = {}
    written = datetime(2026, 1, 1, tzinfo=UTC)
    blobs = AzureBlobs(server.settings)
    assert written == blobs.properties("abc", "b").last_modified
    with pytest.raises(ValueError, match="container"):
        blobs.properties("", "b")
