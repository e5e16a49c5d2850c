from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from azure_account.readback import ATTEMPTS, request_and_read_back
from azure_account.values import Conflict, Done, Missing, Unknown
from foundation.errors import ConfigurationError, ConflictError, TransientError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from azure_account.readback import Doubtful

LOST = Unknown("the connection was reset")


def unresolved(answer: Doubtful) -> TransientError:
    return TransientError(f"no answer was received ({answer})")


def never(answer: Doubtful) -> str | None:
    pytest.fail(f"{answer} is read back")


class Unconfirmed:
    """Reads back and finds no confirmation. It notes the answers that it was called with."""

    def __init__(self) -> None:
        self.answers: list[Doubtful] = []

    def __call__(self, answer: Doubtful) -> str | None:
        self.answers.append(answer)
        return None


def test_an_answer_that_says_done_is_not_read_back() -> None:
    assert Done("etag") == request_and_read_back(lambda: Done("etag"), never, unresolved)


@pytest.mark.parametrize("answer", [LOST, Conflict("exists"), Missing("no block"), ConfigurationError("403")])
def test_every_other_answer_is_read_back(answer: Doubtful) -> None:
    assert ("ours", answer) == request_and_read_back(lambda: answer, lambda found: ("ours", found), unresolved)


def test_a_request_is_repeated_while_nothing_is_confirmed() -> None:
    answers: Iterator[Done | Doubtful] = iter([LOST, LOST, Done()])
    read_back = Unconfirmed()
    assert Done() == request_and_read_back(lambda: next(answers), read_back, unresolved)
    assert [LOST, LOST] == read_back.answers


def test_what_is_read_back_after_a_repeat_is_the_outcome() -> None:
    answers: Iterator[Doubtful] = iter([LOST, Conflict()])
    found = request_and_read_back(
        lambda: next(answers), lambda answer: "ours" if isinstance(answer, Conflict) else None, unresolved
    )
    assert "ours" == found


def test_an_error_of_reading_back_ends_the_request() -> None:
    def read_back(_: Doubtful) -> str | None:
        raise ConflictError("another was first")

    with pytest.raises(ConflictError, match="another was first"):
        request_and_read_back(lambda: LOST, read_back, unresolved)


def test_a_request_that_never_has_an_answer_is_given_up() -> None:
    read_back = Unconfirmed()
    with pytest.raises(TransientError, match="the connection was reset"):
        request_and_read_back(lambda: LOST, read_back, unresolved)
    assert ATTEMPTS * [LOST] == read_back.answers
