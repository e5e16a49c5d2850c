"""What the proxy of the benchmarks counts."""

from __future__ import annotations

from benchmarks.counting_proxy import CountingProxy


def test_requests_are_counted_by_method_and_listings_apart() -> None:
    proxy = CountingProxy(0)
    for line in ("GET /a/b.avro", "GET /a/c.avro", "GET /a?restype=container&comp=list&prefix=x", "DELETE /a/b.avro"):
        proxy.begin_request(f"{line} HTTP/1.1\r\nx-comp: comp=list\r\n".encode())
    assert {"GET": 2, "LIST": 1, "DELETE": 1} == proxy.take_methods()
    for parameters in ("comp=lease", "timeout=90&comp=metadata", "comp=block&blockid=comp=tags", "comp=blocklist"):
        proxy.begin_request(f"PUT /a/b.avro?{parameters} HTTP/1.1\r\n".encode())
    assert {"SET": 2, "PUT": 2} == proxy.take_methods()
    proxy.begin_request(b"PUT /a/b.avro?comp=block HTTP/1.1\r\n")
    assert 1 == proxy.take_requests()
    assert 0 == proxy.take_requests()


def test_a_body_that_follows_an_interim_answer_is_no_request() -> None:
    proxy = CountingProxy(0)
    proxy.begin_request(b"PUT /a/b.avro?comp=block HTTP/1.1\r\nExpect: 100-continue\r\n\r\n")
    proxy.begin_request(b"Obj\x01\x8c a body \r\n")
    assert {"PUT": 1} == proxy.take_methods()
