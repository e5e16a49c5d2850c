"""Thread pools that run inline, in an order that is drawn, so that a history depends on its seed alone."""

from __future__ import annotations

import itertools
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from concurrent.futures import wait as parallel_wait
from contextlib import contextmanager
from functools import partial
from random import Random
from typing import Any, TypeVar

T = TypeVar("T")


class _Inline:
    """A `ThreadPoolExecutor` that runs its calls at once, in an order that the running process draws."""

    def __init__(self, *_: object) -> None:
        pass

    def __enter__(self) -> _Inline:  # noqa: PYI034 - Self is of Python 3.11
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def shutdown(self, **_: object) -> None:
        """Nothing is left to do."""

    def map(self, act: Callable[..., T], *items: Sequence[Any], timeout: float | None = None) -> Iterator[T]:
        """Every call is made, and the first error in order raised, as of a pool."""
        given = list(zip(*items, strict=False))
        order = list(range(len(given)))
        _draws.shuffle(order)
        answers: dict[int, Callable[[], T]] = {}
        for place in order:
            answers[place] = _answer(act, given[place])
        for place in range(len(given)):
            yield answers[place]()

    def submit(self, act: Callable[..., T], /, *given: object) -> Future[T]:
        """A call that is made when it is waited for."""
        return _Submitted(partial(_answer, act, given))


class _Submitted(Future[T]):
    def __init__(self, make: Callable[[], Callable[[], T]]) -> None:
        super().__init__()
        self._make = make
        self.number = next(_numbers)

    def make(self) -> None:
        answer = self._make()
        try:
            self.set_result(answer())
        except Exception as error:  # noqa: BLE001 - raised where the pool would raise it
            self.set_exception(error)

    def result(self, timeout: float | None = None) -> T:
        """Of a call that nobody has waited for yet, too."""
        if not self.done():
            self.make()
        return super().result(timeout)


def _wait(submitted: Iterable[Future[Any]], *when: Any, **named: Any) -> object:
    """Make the calls that have been submitted, in an order that the running process draws."""
    calls = list(submitted)
    left = [call for call in calls if isinstance(call, _Submitted) and not call.done()]
    left.sort(key=lambda call: call.number)
    _draws.shuffle(left)
    for call in left:
        call.make()
    return parallel_wait(calls, *when, **named)


def _answer(act: Callable[..., T], given: tuple[Any, ...]) -> Callable[[], T]:
    try:
        found = act(*given)
    except Exception as error:  # noqa: BLE001 - raised where the pool would raise it
        return _raise(error)
    return lambda: found


def _raise(error: Exception) -> Callable[[], Any]:
    def answer() -> Any:
        raise error

    return answer


_draws = Random(0)
_numbers = itertools.count()


@contextmanager
def inline_pools(seed: int) -> Iterator[None]:
    """No threads while this lasts."""
    _draws.seed(seed)
    packages = ("azure_account.", "azureblob_source.", "foundation.")
    modules = [module for name, module in sys.modules.items() if name.startswith(packages)]
    replaced = [
        (module, name, by)
        for module in modules
        for name, of, by in (("ThreadPoolExecutor", ThreadPoolExecutor, _Inline), ("wait", parallel_wait, _wait))
        if vars(module).get(name) is of
    ]
    before = [vars(module)[name] for module, name, _ in replaced]
    for module, name, by in replaced:
        setattr(module, name, by)
    try:
        yield
    finally:
        for (module, name, _), original in zip(replaced, before, strict=True):
            setattr(module, name, original)
