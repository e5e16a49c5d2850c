"""A TCP proxy that counts bytes and requests, so that those of every tool are counted alike, with headers and retries.

It can delay each request, as the way to another data centre does. A request begins when a client sends something after
an answer: no tool here sends a second request on a connection before the first one is answered.
"""

from __future__ import annotations

import socket
import threading
import time
from collections import Counter
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

_BUFFER_BYTES = 1 << 20
_LINE_BYTES = 1 << 12
_SETTINGS = {b"comp=lease", b"comp=metadata", b"comp=properties", b"comp=tags", b"comp=tier"}


@dataclass
class CountingProxy:
    """Listens on `port`. sent: bytes from clients to the server. received: bytes from the server to clients.

    delay: seconds that each request waits. requests: by method; `LIST` are those that list blobs, `SET` those that put
    no bytes: leases, metadata, properties and tags.
    """

    port: int
    delay: float = 0.0
    sent: int = 0
    received: int = 0
    requests: Counter[str] = field(default_factory=Counter)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def add(self, sent: int, received: int) -> None:
        """Count bytes that were passed on. Thread-safe."""
        with self._lock:
            self.sent += sent
            self.received += received

    def begin_request(self, first: bytes) -> None:
        """A request, or a body that a server has asked for by 100, begins with these bytes. Thread-safe."""
        line = first.partition(b"\r\n")[0]
        if b" HTTP/1." not in line:
            return
        with self._lock:
            self.requests[_method(line)] += 1
        if self.delay:
            time.sleep(self.delay)

    def take_requests(self) -> int:
        """Requests since the last call."""
        return self.take_methods().total()

    def take_methods(self) -> Counter[str]:
        """The same, by method."""
        with self._lock:
            counted, self.requests = self.requests, Counter()
        return counted

    def take(self) -> tuple[int, int]:
        """Bytes sent and received since the last call."""
        with self._lock:
            counted = self.sent, self.received
            self.sent = self.received = 0
        return counted


def _method(line: bytes) -> str:
    parameters = set(line.partition(b"?")[2].partition(b" ")[0].split(b"&"))
    if b"comp=list" in parameters:
        return "LIST"
    method = line.partition(b" ")[0].decode()
    return "SET" if method == "PUT" and parameters & _SETTINGS else method


@contextmanager
def counting_proxy(server_port: int, delay: float = 0.0) -> Iterator[CountingProxy]:
    """A proxy in front of a server of this machine. It ends with the block."""
    with socket.create_server(("127.0.0.1", 0), backlog=256) as listener:
        proxy = CountingProxy(listener.getsockname()[1], delay)
        threading.Thread(target=_accept, args=(listener, server_port, proxy), name="proxy", daemon=True).start()
        yield proxy
        with suppress(OSError):  # it is no longer open: `accept` has to wake up all the same
            listener.shutdown(socket.SHUT_RDWR)


def _accept(listener: socket.socket, server_port: int, proxy: CountingProxy) -> None:
    while True:
        try:
            client, _ = listener.accept()
        except OSError:
            return
        server = socket.create_connection(("127.0.0.1", server_port))
        for each in (client, server):
            each.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        answered = threading.Event()
        answered.set()
        for source, target, to_server in ((client, server, True), (server, client, False)):
            arguments = (source, target, to_server, answered, proxy)
            threading.Thread(target=_pass_on, args=arguments, name="proxy-connection", daemon=True).start()


def _pass_on(
    source: socket.socket, target: socket.socket, to_server: bool, answered: threading.Event, proxy: CountingProxy
) -> None:
    """Pass on what comes from one side until it ends; then end the other side."""
    buffer = memoryview(bytearray(_BUFFER_BYTES))
    with suppress(OSError):  # one of them has gone: so does the other one
        while length := source.recv_into(buffer):
            if not to_server:
                answered.set()
            elif answered.is_set():
                answered.clear()
                proxy.begin_request(bytes(buffer[: min(length, _LINE_BYTES)]))
            target.sendall(buffer[:length])
            proxy.add(*((length, 0) if to_server else (0, length)))
    for each in (source, target):
        with suppress(OSError):
            each.shutdown(socket.SHUT_RDWR)
