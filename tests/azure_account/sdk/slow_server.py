"""A server whose answers never end: a byte comes every tenth of a second."""

from __future__ import annotations

import socketserver
import threading
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from types import TracebackType
    from typing import Self

IN_BODY = 'HTTP/1.1 200 OK\r\nContent-Length: 9999\r\nETag: "1"\r\nContent-Range: bytes 0-9998/9999\r\n\r\n'


class SlowServer:
    """at_once: what it sends of each answer without delay."""

    def __init__(self, at_once: str) -> None:
        class Answer(socketserver.BaseRequestHandler):
            def handle(answer) -> None:  # noqa: N805 - `self` is the server
                answer.request.recv(65_536)
                self.requests += 1
                try:
                    answer.request.sendall(at_once.encode())
                    while not self._closed.wait(0.1):
                        answer.request.sendall(b"x")
                except OSError:
                    return  # the client has closed the connection

        self.requests = 0
        self._closed = threading.Event()
        self._server = socketserver.ThreadingTCPServer(("127.0.0.1", 0), Answer)
        self.endpoint = f"http://127.0.0.1:{self._server.server_address[1]}/acc"
        self._thread = threading.Thread(target=self._server.serve_forever)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._closed.set()
        self._server.shutdown()
        self._server.server_close()  # waits for the threads of the answers
        self._thread.join()
