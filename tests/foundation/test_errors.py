"""The parts of an error, and the message that is made of them."""

from __future__ import annotations

import copy
import pickle
import traceback

import pytest

from foundation.errors import AzureBlobError, ConfigurationError, ConflictError, NotFoundError, TransientError

FOUND = NotFoundError("Get blob", "box/x", "404 BlobNotFound.", "Check the name.")
GIVEN_UP = TransientError("Put blob", "box/x", "no answer", "Try again later.", elapsed=12.34, attempts=3)


@pytest.mark.parametrize(
    ("error", "message"),
    [
        (FOUND, "Get blob box/x failed: 404 BlobNotFound. Check the name."),
        (GIVEN_UP, "Put blob box/x failed after 3 attempts, 12.3 s: no answer. Try again later."),
        (ConflictError("lock", "x", "it is held", "Wait.", elapsed=1), "lock x failed after 1.0 s: it is held. Wait."),
        (ConflictError("delete", "x", "it is leased", "Wait.", attempts=1), "delete x failed: it is leased. Wait."),
        (ConfigurationError("Option `x` is 5: give 6."), "Option `x` is 5: give 6."),
    ],
)
def test_the_message_is_made_of_the_parts(error: AzureBlobError, message: str) -> None:
    assert message == str(error)
    assert f"foundation.errors.{type(error).__name__}: {message}\n" == traceback.format_exception_only(error)[-1]


@pytest.mark.parametrize("error", [FOUND, GIVEN_UP, ConfigurationError("Option `x` is 5: give 6.")])
def test_an_error_keeps_its_parts_when_it_is_pickled_or_copied(error: AzureBlobError) -> None:
    for other in (pickle.loads(pickle.dumps(error)), copy.copy(error)):  # noqa: S301 - of our own making
        assert type(error) is type(other)
        assert vars(error) == vars(other)
        assert str(error) == str(other)


def test_another_error_can_say_the_cause_with_a_better_next_step() -> None:
    outer = NotFoundError("restore", "state a", FOUND.failure, "Restore an older checkpoint.")
    expected = "restore state a failed: Get blob box/x failed: 404 BlobNotFound. Restore an older checkpoint."
    assert expected == str(outer)
    assert "it is gone. Look." == ConfigurationError("it is gone. Look.").failure
