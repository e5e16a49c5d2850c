"""Errors of workers, as Spark reports them to the driver."""

from __future__ import annotations

import pytest

from foundation.errors import AzureBlobError, ConfigurationError, FencedError, NotFoundError
from foundation.worker_errors import own_error, own_errors

REPORT = """[PYTHON_DATA_SOURCE_ERROR] Failed when Python data source instance called method `commit`: Traceback:
  File "worker.py", line 10, in main
foundation.errors.NotFoundError: get blob x failed: 404

The above exception was the direct cause of the following exception:

  File "azureblob_source/write/sink.py", line 100, in commit
foundation.errors.FencedError: commit to m07 failed: the stream is at epoch 9
SQLSTATE: 38000"""


def test_the_last_error_in_the_traceback_is_the_one() -> None:
    found = own_error(RuntimeError(REPORT))
    assert (FencedError, "commit to m07 failed: the stream is at epoch 9") == (type(found), str(found))


@pytest.mark.parametrize(
    "text",
    [
        "",
        "java.lang.IllegalStateException: FencedError",
        "the text foundation.errors.FencedError: is in a line",
        "foundation.errors.NoSuchError: x",
        "foundation.errors.describe: x",
        "foundation.errors.annotations: x",
    ],
)
def test_what_only_looks_like_one_is_none(text: str) -> None:
    assert own_error(RuntimeError(text)) is None


def test_an_error_of_this_process_is_itself() -> None:
    error = NotFoundError("not there")
    assert own_error(error) is error


def test_a_block_raises_what_the_worker_has_raised_with_sparks_error_as_its_cause() -> None:
    failure = RuntimeError(REPORT)
    with pytest.raises(FencedError, match="epoch 9") as caught, own_errors():
        raise failure
    assert caught.value.__cause__ is failure


@pytest.mark.parametrize("error", [ConfigurationError("wrong"), ValueError("of the caller")])
def test_a_block_raises_all_else_as_it_is(error: Exception) -> None:
    with pytest.raises((AzureBlobError, ValueError)) as caught, own_errors():
        raise error
    assert caught.value is error
    assert caught.value.__cause__ is None
