"""Which tests `make test CHANGED=1` runs."""

from __future__ import annotations

import pytest

pytest.importorskip("grimp", reason="only `make test` installs what checks imports")

from tools.changed import ALWAYS, files_to_test


@pytest.mark.parametrize(
    ("file", "expected"),
    [
        ("foundation/host_locks.py", "tests/foundation/test_host_locks.py"),
        ("azure_account/retrying/policy.py", "tests/azure_account/retrying/test_retry_loop.py"),
        ("tools/azurite.py", "tests/tools/test_azurite.py"),
        ("tests/histories/process.py", "tests/azureblob_source/log/test_commit_histories.py"),
        ("tests/foundation/test_clock.py", "tests/foundation/test_clock.py"),
        ("tests/spark/usual/conftest.py", "tests/spark/usual"),
        ("README.md", "tests/docs"),
    ],
    ids=["same path", "imports an importer", "of a tool", "helper of tests", "test itself", "fixtures", "document"],
)
def test_what_a_change_touches_is_tested(file: str, expected: str) -> None:
    assert expected in files_to_test([file])


def test_what_is_far_from_a_change_is_not() -> None:
    assert "tests/arrow_avro/encoding/test_encode.py" not in files_to_test(["foundation/host_locks.py"])
    assert [*ALWAYS] == files_to_test(["docs/READING.md"])
    assert [] == files_to_test([])
