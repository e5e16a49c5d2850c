"""An Azurite that keeps its data on disk, so that it can be stopped, suspended and started again within a run.

It is stopped in order: what it has acknowledged is on disk only when it has closed its files. (Killed, it loses up to
five seconds of writes, which a storage account never does.) It does not keep leases: after a start all have expired.
"""

from __future__ import annotations

import signal
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING

from tools.azurite import FOLDER, SETTINGS, AzuriteMissingError, local_azurite, ports_of, serve
from tools.node import find_node

if TYPE_CHECKING:
    import subprocess
    from collections.abc import Iterator
    from pathlib import Path

    from tools.azurite import Azurite

CLOSE_SECONDS = 30.0
_CLOSED = "successfully closed"
_SERVICES = 3


class StoredAzurite:
    """The emulator of a folder. It has the ports of its first start for good."""

    def __init__(self, folder: Path) -> None:
        self._folder, self._ports = folder, {"Blob": 0, "Table": 0}
        self._closed = threading.Semaphore(0)
        self._process = self._started()

    @property
    def azurite(self) -> Azurite:
        """Its endpoints."""
        return local_azurite(self._ports["Blob"], self._ports["Table"])

    def stop(self) -> None:
        """Stop it in order. Requests are refused until `start`."""
        self._process.terminate()
        for _ in range(_SERVICES):
            if not self._closed.acquire(timeout=CLOSE_SECONDS):
                raise TimeoutError(f"Azurite has not closed its files within {CLOSE_SECONDS:.0f} s.")
        self.kill()

    def start(self) -> None:
        """Start it again after `stop`, with all its data."""
        self._process = self._started()

    def suspend(self) -> None:
        """SIGSTOP: requests wait."""
        self._process.send_signal(signal.SIGSTOP)

    def resume(self) -> None:
        """SIGCONT: requests that have waited are done."""
        self._process.send_signal(signal.SIGCONT)

    def kill(self) -> None:
        """End it, whatever its data are."""
        self._process.kill()
        self._process.wait()
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                pipe.close()

    def _started(self) -> subprocess.Popen[str]:
        node = find_node()
        if node is None or not (FOLDER / "node_modules" / "azurite").is_dir():
            raise AzuriteMissingError("Azurite cannot be started: run `make setup`.")
        ports = ("--blobPort", str(self._ports["Blob"]), "--queuePort", "0", "--tablePort", str(self._ports["Table"]))
        process = serve(node.program, "--location", str(self._folder), *SETTINGS, *ports)
        self._ports = ports_of(process, self._note)
        return process

    def _note(self, line: str) -> None:
        if _CLOSED in line:
            self._closed.release()


@contextmanager
def stored_azurite(folder: Path) -> Iterator[StoredAzurite]:
    """Run one during the `with` block. `AzuriteMissingError` if npm has not installed it."""
    emulator = StoredAzurite(folder)
    try:
        yield emulator
    finally:
        emulator.kill()
