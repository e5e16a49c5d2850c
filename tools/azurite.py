"""Runs Azurite, the storage emulator, within a `with` block; `python -m tools.azurite` runs one until Ctrl-C.

It uses the first of these: the one of `AZURITE_CONNECTION_STRING`, which runs already; npm's, which `make setup`
installs in `tools/azurite/node_modules`; Docker's. Azurite keeps everything in memory and serves HTTP on 127.0.0.1, or
HTTPS if it is given a certificate, and then takes tokens too: it looks at their issuer, audience and times.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import threading
from collections import deque
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from tools.node import find_node

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

FOLDER = Path(__file__).resolve().with_suffix("")
VERSION = "3.35.0"
"""The version of the Docker image. That of npm is in `azurite/package.json`."""
ACCOUNT_NAME = "devstoreaccount1"
ACCOUNT_KEY = "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=="
"""Account and key of the emulator are public and the same everywhere: no secret."""

START_SECONDS = 60.0
STOP_SECONDS = 5.0
SETTINGS = ("--skipApiVersionCheck", "--loose", "--disableTelemetry", "--silent")
OPTIONS = ("--inMemoryPersistence", *SETTINGS)
_LISTENING = re.compile(r"Azurite (Blob|Table) service is successfully listening at \S+:(\d+)")


class AzuriteMissingError(Exception):
    """No Azurite can be started. The message says what to do."""


@dataclass(frozen=True)
class Azurite:
    """The endpoints of a running emulator. `endpoint` and `table_endpoint` end with the account's name."""

    endpoint: str
    table_endpoint: str
    account_name: str = ACCOUNT_NAME
    account_key: str = field(default=ACCOUNT_KEY, repr=False)

    @property
    def blob_port(self) -> int:
        """The TCP port of the blob service."""
        return urlsplit(self.endpoint).port or 80

    @property
    def connection_string(self) -> str:
        """The connection string for blobs and tables."""
        return (
            f"DefaultEndpointsProtocol={urlsplit(self.endpoint).scheme};"
            f"AccountName={self.account_name};AccountKey={self.account_key};"
            f"BlobEndpoint={self.endpoint};TableEndpoint={self.table_endpoint};"
        )


def local_azurite(blob_port: int, table_port: int, scheme: str = "http") -> Azurite:
    """The emulator of this machine that listens on these ports."""
    return Azurite(
        endpoint=f"{scheme}://127.0.0.1:{blob_port}/{ACCOUNT_NAME}",
        table_endpoint=f"{scheme}://127.0.0.1:{table_port}/{ACCOUNT_NAME}",
    )


def azurite_of(connection_string: str) -> Azurite:
    """The emulator of a connection string; `UseDevelopmentStorage=true` means the one on the default ports."""
    parts = dict(part.split("=", 1) for part in connection_string.split(";") if "=" in part)
    if parts.get("UseDevelopmentStorage", "").lower() == "true":
        return local_azurite(10000, 10002)
    missing = [key for key in ("BlobEndpoint", "TableEndpoint", "AccountName", "AccountKey") if key not in parts]
    if missing:
        raise AzuriteMissingError(f"AZURITE_CONNECTION_STRING has no {' and no '.join(missing)}: add it.")
    return Azurite(
        endpoint=parts["BlobEndpoint"].rstrip("/"),
        table_endpoint=parts["TableEndpoint"].rstrip("/"),
        account_name=parts["AccountName"],
        account_key=parts["AccountKey"],
    )


@contextmanager
def running_azurite(*, extent_memory_limit: int | None = None) -> Iterator[Azurite]:
    """An empty Azurite that ends with the block or with this process; or the one that runs already, as it is.

    `extent_memory_limit` limits its data, in MiB (by default to half of the machine's memory): requests beyond it are
    answered 409. An Azurite that runs already keeps its own limit. Raises `AzuriteMissingError`.
    """
    given = os.environ.get("AZURITE_CONNECTION_STRING")
    node = None if given else find_node()
    if given:
        yield azurite_of(given)
    elif node is not None and (FOLDER / "node_modules" / "azurite").is_dir():
        with _of_npm(node.program, _limit(extent_memory_limit)) as azurite:
            yield azurite
    elif _docker_runs():
        with _of_docker(_limit(extent_memory_limit)) as azurite:
            yield azurite
    else:
        raise AzuriteMissingError(
            "No Azurite can be started: run `make setup`, or start Docker, or set AZURITE_CONNECTION_STRING."
        )


@contextmanager
def running_tls_azurite(certificate: Path, key: Path) -> Iterator[Azurite]:
    """An empty Azurite of npm that serves HTTPS with this certificate (PEM) and takes tokens."""
    node = find_node()
    if node is None or not (FOLDER / "node_modules" / "azurite").is_dir():
        raise AzuriteMissingError("No Azurite with HTTPS can be started: run `make setup`.")
    arguments = ("--oauth", "basic", "--cert", str(certificate), "--key", str(key))
    with _of_npm(node.program, arguments, "https") as azurite:
        yield azurite


def _limit(mebibytes: int | None) -> tuple[str, ...]:
    return () if mebibytes is None else ("--extentMemoryLimit", str(mebibytes))


def serve(node: Path, *arguments: str) -> subprocess.Popen[str]:
    """Start npm's Azurite, which ends when its standard input is closed. `ports_of` says where it listens."""
    return subprocess.Popen(
        [node, FOLDER / "serve.js", *arguments],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )


@contextmanager
def _of_npm(node: Path, arguments: tuple[str, ...], scheme: str = "http") -> Iterator[Azurite]:
    """Run `serve.js`, which ends when its standard input is closed, by this process or by the end of it."""
    ports = ("--blobPort", "0", "--queuePort", "0", "--tablePort", "0")
    process = serve(node, *OPTIONS, *ports, *arguments)
    try:
        listening = ports_of(process)
        yield local_azurite(listening["Blob"], listening["Table"], scheme)
    finally:
        _end(process)


def ports_of(process: subprocess.Popen[str], on_line: Callable[[str], object] = lambda _: None) -> dict[str, int]:
    """The ports that the process prints, of `Blob` and `Table`. Its later output is read too, so that it never blocks.

    on_line: is called with each line, by a thread.
    """
    lines: SimpleQueue[str | None] = SimpleQueue()
    threading.Thread(target=_read, args=(process, lines, on_line), name="azurite-output", daemon=True).start()
    ports: dict[str, int] = {}
    output: deque[str] = deque(maxlen=20)
    while len(ports) < 2:  # noqa: PLR2004 - the services of _LISTENING
        try:
            line = lines.get(timeout=START_SECONDS)
        except Empty:
            line = None
        if line is None:
            raise AzuriteMissingError(f"Azurite did not start: {''.join(output).strip() or 'it printed nothing'}")
        output.append(line)
        if (found := _LISTENING.search(line)) is not None:
            ports[found.group(1)] = int(found.group(2))
    return ports


def _read(process: subprocess.Popen[str], lines: SimpleQueue[str | None], on_line: Callable[[str], object]) -> None:
    for line in process.stdout or ():
        on_line(line)
        lines.put(line)
    lines.put(None)


def _end(process: subprocess.Popen[str]) -> None:
    if process.stdin is not None:
        process.stdin.close()
    try:
        process.wait(STOP_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
    if process.stdout is not None:
        process.stdout.close()


def _docker_runs() -> bool:
    if shutil.which("docker") is None:
        return False
    return subprocess.run(["docker", "info"], capture_output=True, check=False).returncode == 0  # noqa: S607


@contextmanager
def _of_docker(limit: tuple[str, ...]) -> Iterator[Azurite]:
    from testcontainers.community.azurite import AzuriteContainer  # noqa: PLC0415 - only needed with Docker

    hosts = ("--blobHost", "0.0.0.0", "--queueHost", "0.0.0.0", "--tableHost", "0.0.0.0")  # noqa: S104 - in a container
    container = AzuriteContainer().with_command(" ".join(["azurite", *OPTIONS, *hosts, *limit]))
    container.image = f"{container.image.rpartition(':')[0]}:{VERSION}"
    with container as running:
        yield local_azurite(int(running.get_exposed_port(10000)), int(running.get_exposed_port(10002)))


def main() -> int:
    """Run one until Ctrl-C. Its connection string is the only line on standard output."""
    try:
        with running_azurite() as azurite:
            print(azurite.connection_string, flush=True)
            print("Ctrl-C ends it and drops its data.", file=sys.stderr)
            threading.Event().wait()
    except AzuriteMissingError as error:
        print(error, file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 0
    return 0


if __name__ == "__main__":
    sys.exit(main())
