"""A forward proxy: proxy.py, in a process of its own, which writes each host that it has connected to into a file.

`Redirect` is a plugin of it: it connects the name of Entra ID to a stand-in on this machine.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from proxy.http.exception import HttpRequestRejected
from proxy.http.proxy import HttpProxyBasePlugin

if TYPE_CHECKING:
    from collections.abc import Iterator

ENTRA = "login.microsoftonline.com"
_START_SECONDS = 30.0


class Redirect(HttpProxyBasePlugin):
    """Set by variables: STAND_IN, a file with the port that is Entra ID; CONNECTED, a file; FORBIDDEN, a port."""

    def before_upstream_connection(self, request: Any) -> Any:
        """Note the host; refuse it, or change it."""
        host, port = request.host.decode(), request.port
        with Path(os.environ["CONNECTED"]).open("a") as file:
            file.write(f"{request.method.decode()} {host}:{port}\n")
        if str(port) == os.environ.get("FORBIDDEN"):
            raise HttpRequestRejected(status_code=403, reason=b"Forbidden")
        if host == ENTRA:
            request.host, request.port = b"127.0.0.1", int(Path(os.environ["STAND_IN"]).read_text())
        return request


@dataclass
class ForwardProxy:
    """A proxy that runs, or is stopped and can be started again on its port. user: `name:password`."""

    folder: Path
    user: str | None = None
    variables: dict[str, str] = field(default_factory=dict)
    port: int = 0
    process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start it, and wait until it listens."""
        ready = self.folder / "port"
        ready.unlink(missing_ok=True)
        command = [sys.executable, "-m", "proxy", "--hostname", "127.0.0.1", "--port", str(self.port)]
        command += ["--port-file", str(ready), "--num-acceptors", "1", "--num-workers", "1", "--log-level", "ERROR"]
        command += ["--data-dir", str(self.folder), "--plugins", f"{__name__}.Redirect"]
        if self.user is not None:
            command += ["--basic-auth", self.user]
        files = {name.upper(): str(self.folder / name) for name in ("connected", "stand_in")}
        environment = {**os.environ, **files, **self.variables}
        self.process = subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL, start_new_session=True)
        end = time.monotonic() + _START_SECONDS
        while not (ready.exists() and ready.read_text().strip()):
            assert time.monotonic() < end and self.process.poll() is None, "proxy.py has not started"
            time.sleep(0.02)
        self.port = int(ready.read_text().split()[0])

    def stop(self) -> None:
        """End it with all its connections."""
        if self.process is not None:
            os.killpg(self.process.pid, 9)
            self.process.wait()
            self.process = None

    def forget(self, stand_in: str = "") -> None:
        """Begin `connected` anew. stand_in: the port of what is Entra ID from now on."""
        (self.folder / "connected").unlink(missing_ok=True)
        (self.folder / "stand_in").write_text(stand_in)

    def connected(self) -> list[str]:
        """What it was asked for, such as `CONNECT host:443`."""
        file = self.folder / "connected"
        return file.read_text().splitlines() if file.exists() else []

    def options(self, prefix: str = "proxy", **others: str) -> dict[str, str]:
        """The options of the connector that name it."""
        found = {"use": "true", "hostname": "127.0.0.1", "port": str(self.port), **others}
        return {f"{prefix}.{name}": value for name, value in found.items()}


@contextmanager
def forward_proxy(folder: Path, user: str | None = None, **variables: str) -> Iterator[ForwardProxy]:
    """Run one. variables: of `Redirect`."""
    proxy = ForwardProxy(folder, user, variables)
    proxy.start()
    try:
        yield proxy
    finally:
        proxy.stop()
