from __future__ import annotations

import gc
import logging
import socket
import subprocess
import sys
import threading
import uuid
import weakref
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import TYPE_CHECKING

import pytest

from azure_account.connect import connect
from azure_account.values import IF_ABSENT, Unknown
from foundation.errors import ConfigurationError, TransientError
from tests.azure_account.settings_of import settings_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from azure_account.container import BlobContainer
    from azure_account.options.settings import AccountSettings

SIGNATURE = "S3CR3T00"


def settings_for(port: int, **options: str) -> AccountSettings:
    given = {
        "endpoint": f"http://127.0.0.1:{port}/acc",
        "sasToken": f"sv=2026-02-06&sig={SIGNATURE}",
        "maxAttempts": "1",
        "requestTimeoutMs": "200",
        **options,
    }
    return settings_of(given)


@contextmanager
def server(serve: Callable[[socket.socket], None]) -> Iterator[int]:
    """A TCP server that passes each connection to `serve`; yields its port."""
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        listening.listen()

        def accept() -> None:
            while True:
                try:
                    accepted, _ = listening.accept()
                except OSError:
                    return
                with accepted:
                    serve(accepted)

        threading.Thread(target=accept, daemon=True).start()
        yield listening.getsockname()[1]
        listening.shutdown(socket.SHUT_RDWR)


def close_without_answer(connection: socket.socket) -> None:
    connection.recv(65536)


def never_answer(connection: socket.socket) -> None:
    while connection.recv(65536):
        pass


def answer_with(text: str) -> Callable[[socket.socket], None]:
    def serve(connection: socket.socket) -> None:
        connection.recv(65536)
        connection.sendall(text.replace("\n", "\r\n").encode())

    return serve


def container_at(port: int, **options: str) -> BlobContainer:
    return connect(settings_for(port, **options)).container("data")


def test_settings_that_are_equal_have_one_account() -> None:
    settings = settings_for(1)
    with ThreadPoolExecutor(8) as pool:
        accounts = list(pool.map(lambda _: connect(settings), range(32)))
    assert {id(accounts[0])} == {id(account) for account in accounts}
    assert connect(settings_for(2)) is not accounts[0]


def test_accounts_that_were_not_used_for_long_are_let_go() -> None:
    """Each SAS that is renewed makes another account, which keeps its connections."""
    used = connect(settings_for(1))
    renewed = [weakref.ref(connect(settings_for(port))) for port in range(2, 150) if connect(settings_for(1)) is used]
    gc.collect()
    there = [account() is not None for account in renewed]
    assert 99 == sum(there)
    assert all(there[-99:])


FORK = """
import os
from azure_account.options.account_options import ACCOUNT_OPTIONS
from azure_account.connect import connect
from azure_account.options.settings import account_settings

settings = account_settings(ACCOUNT_OPTIONS.parse({"accountName": "acc", "accountKey": "a2V5"}), None, {})
mine = connect(settings)
child = os.fork()
if child == 0:
    os._exit(0 if connect(settings) is not mine else 1)
print(os.waitpid(child, 0)[1], connect(settings) is mine)
"""


def printed_by(code: str) -> str:
    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return shown.stdout.strip()


def test_a_forked_process_has_its_own_account() -> None:
    assert "0 True" == printed_by(FORK)


def test_the_package_is_imported_without_the_sdk() -> None:
    modules = "azure_account, azure_account.memory.account, azure_account.memory.faults"
    assert "False" == printed_by(f"import sys, {modules}; print('azure.core' in sys.modules)")


def test_an_endpoint_without_a_service_is_an_error_that_names_the_option() -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        port = unused.getsockname()[1]
        with pytest.raises(TransientError, match=rf":{port}/acc cannot be reached.*option endpoint") as caught:
            container_at(port).create()
    assert SIGNATURE not in str(caught.value)


@pytest.mark.parametrize("attempts", [1, 2])
def test_a_refused_port_is_logged_once_before_the_first_repeat(attempts: int, caplog: pytest.LogCaptureFixture) -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        port = unused.getsockname()[1]
        with pytest.raises(TransientError):
            container_at(port, maxAttempts=str(attempts)).create()
    ours = [record for record in caplog.records if record.name.startswith("azure_account")]
    assert (
        attempts - 1 == len(ours) == sum("cannot be reached; it is tried again" in each.getMessage() for each in ours)
    )


def test_an_account_that_does_not_exist_is_an_error_that_names_the_option() -> None:
    settings = settings_of(
        {"endpoint": "http://absent.invalid", "accountName": "absent", "accountKey": "a2V5", "maxAttempts": "1"}
    )
    with pytest.raises(TransientError, match=r"unknown\. Check accountName"):
        connect(settings).container("data").exists()


@pytest.mark.parametrize("serve", [close_without_answer, never_answer])
def test_a_lost_answer_of_a_conditional_put_is_unknown(serve: Callable[[socket.socket], None]) -> None:
    with server(serve) as port:
        outcome = container_at(port).put("blob", b"1", condition=IF_ABSENT)
    assert isinstance(outcome, Unknown)
    assert SIGNATURE not in outcome.reason


def test_a_request_without_an_answer_ends_at_its_time_limit() -> None:
    with server(never_answer) as port, pytest.raises(TransientError, match=r"within the time limit.*requestTimeoutMs"):
        container_at(port).exists()


def test_an_endpoint_without_tls_is_not_reported_as_an_outage() -> None:
    with server(answer_with("HTTP/1.1 400 Bad Request\n\n")) as port:
        settings = settings_for(port, endpoint=f"https://127.0.0.1:{port}/acc")
        with pytest.raises(ConfigurationError, match=r"does not speak TLS.*begin with http"):
            connect(settings).container("data").exists()


def test_a_throttled_request_is_repeated() -> None:
    busy = "HTTP/1.1 503 Busy\nx-ms-error-code: ServerBusy\nRetry-After: 0\nContent-Length: 0\nConnection: close\n\n"
    ready = "HTTP/1.1 200 OK\nContent-Length: 0\nConnection: close\n\n"
    answers = iter([answer_with(busy), answer_with(ready)])

    def serve(accepted: socket.socket) -> None:
        next(answers)(accepted)

    with server(serve) as port:
        assert container_at(port, maxAttempts="2").exists() is True


def test_no_secret_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    with server(close_without_answer) as port:
        container = container_at(port)
        container.put("blob", b"1", condition=IF_ABSENT)
        container.renew_lease("blob", str(uuid.uuid4()))
        with pytest.raises(TransientError):
            container.stage_block("blob", "01", b"1")
    with server(answer_with("HTTP/1.1 200 OK\nContent-Length: 0\nConnection: close\n\n")) as port:
        container_at(port).exists()
    assert "sig=***" in caplog.text
    assert [] == [record.name for record in caplog.records if SIGNATURE in record.getMessage()]


def test_the_error_chain_holds_no_secret() -> None:
    with server(close_without_answer) as port, pytest.raises(TransientError) as caught:
        container_at(port).stage_block("blob", "01", b"1")
    assert caught.value.__cause__ is None
    assert caught.value.__suppress_context__
