"""The account of coordination, against a real server whose answers never end."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from coordination import open_account
from foundation.errors import TransientError
from tests.azure_account.sdk.slow_server import IN_BODY, SlowServer
from tests.azure_account.settings_of import KEY

REQUEST = 1.0


@pytest.mark.parametrize("at_once", ["", IN_BODY], ids=["no head", "no end"])
def test_a_request_with_all_its_attempts_ends_in_time_however_slow_the_answers_are(at_once: str) -> None:
    with ThreadPoolExecutor(1) as thread, SlowServer(at_once) as server:
        account = open_account({"endpoint": server.endpoint, "accountKey": KEY}, request=REQUEST)
        begin = time.monotonic()
        with pytest.raises(TransientError, match="Get blob box/blob failed"):
            thread.submit(account.container("box").get, "blob").result(timeout=30)
        # Ten seconds more for a busy machine: without a limit it takes as long as the server likes.
        assert time.monotonic() - begin < REQUEST + 10
