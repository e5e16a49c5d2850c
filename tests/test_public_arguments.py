"""Every public function is given every kind of wrong value: only errors of the project, before any request."""

from __future__ import annotations

import collections.abc
import datetime as dt
import decimal
import importlib
import inspect
import types
import typing
from contextlib import suppress
from dataclasses import is_dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
import pytest

from azure_account import AzureBlobError, ConfigurationError, Location
from azure_account.memory.account import MemoryAccount
from azure_account.retrying.retry_loop import Intercept, Request, T
from foundation.arguments import NotBlank, OptionTexts

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

PUBLIC = (
    "adjunct_store.spark",
    "azure_account",
    "azureblob_source.audits",
    "azureblob_source.compactions",
    "azureblob_source.epochs",
    "azureblob_source.restores",
    "azureblob_source.reverts",
    "control_messages.spark",
    "coordination",
    "coordination.spark",
    "state_backup",
    "state_backup.spark",
)
"""Modules from which users import."""

MADE_HERE = {
    "Audit",
    "Finding",
    "Kind",
    "Pending",
    "AccountSettings",
    "BlobAttributes",
    "BlobContainer",
    "BlobContent",
    "BlobProperties",
    "Condition",
    "Conflict",
    "Done",
    "Entity",
    "Missing",
    "Unknown",
    "account_settings",
    "connect",
    "BoundedRun",
    "Checkpoint",
    "CheckpointBackup",
    "CheckpointStore",
    "ChecksumCache",
    "EndingQuery",
    "EventTimeProcessor",
    "FillResult",
    "RestoreResult",
    "RestoredCheckpoint",
    "StateWriter",
    "StorageAccount",
    "StoreProgress",
    "StoreReadSpec",
    "StreamFill",
    "SweepPlan",
    "Table",
    "TaskCheckpoint",
    "VerificationResult",
}
"""What the packages make for each other, and for users, who call nothing of it but methods."""

VALUES: dict[str, Any] = {
    "None": None,
    "True": True,
    "zero": 0,
    "a negative number": -1,
    "a huge number": 10**30,
    "a fraction": 1.5,
    "nan": float("nan"),
    "infinity": float("inf"),
    "a Decimal": decimal.Decimal(3),
    "a number of numpy": np.int32(3),
    "an empty text": "",
    "a blank text": " ",
    "a text": "box/x",
    "a number as text": "5",
    "a fraction as text": "1.5",
    "a Boolean as text": "TRUE",
    "bytes": b"5",
    "an empty list": [],
    "a list of numbers": [1, 2],
    "a list of texts": ["a", "b"],
    "an empty dict": {},
    "a dict of numbers": {"a": 1},
    "a dict by number": {1: "a"},
    "a set": {"a"},
    "a generator": (each for each in ("a", "b")),
    "a path": Path("x"),
    "a function": lambda *_: 1,
    "a class": dict,
    "a time": dt.datetime(2026, 1, 1, tzinfo=dt.UTC),
    "an object": object(),
}


class Counting(Intercept):
    """Counts the requests to an account in memory."""

    def __init__(self) -> None:
        self.requests = 0

    def attempt(self, request: Request, send: Callable[[], T]) -> T:
        self.requests += 1
        return super().attempt(request, send)


def _functions() -> Iterator[tuple[str, Callable[..., Any]]]:
    """All public functions and constructors, by name, and the methods of public classes that check their arguments."""
    seen = set()
    for name in PUBLIC:
        module = importlib.import_module(name)
        own = [each for each, value in vars(module).items() if getattr(value, "__module__", "") == name]
        for each in getattr(module, "__all__", None) or [each for each in own if not each.startswith("_")]:
            value = getattr(module, each)
            if not callable(value) or value in seen or getattr(value, "_is_protocol", False):
                continue
            seen.add(value)
            if inspect.isfunction(value) and each not in MADE_HERE:
                yield each, value
            elif inspect.isclass(value) and not issubclass(value, Exception):
                if each not in MADE_HERE:
                    yield each, value
                for method, function in vars(value).items():
                    if inspect.isfunction(function) and hasattr(function, "__wrapped__") and method[0] != "_":
                        yield f"{each}.{method}", function


FUNCTIONS = dict(_functions())
del FUNCTIONS["rocksdb_checkpoint"]  # its argument is of an optional package: see test_rocksdb.py
WITHOUT_SPARK = {
    "audit_stream",
    "checkpoints",
    "compact_stream",
    "open_epoch",
    "open_state",
    "plan_sweep",
    "restore_stream",
    "revert_batches",
    "set_keep",
    "verify",
}
"""Functions that are called with what their annotations allow, too."""


def _hints(function: Callable[..., Any]) -> dict[str, Any]:
    """The annotations of the parameters that a caller sees."""
    checked = inspect.unwrap(function.__init__ if inspect.isclass(function) else function)
    hints = typing.get_type_hints(checked, include_extras=True)
    return {name: hint for name, hint in hints.items() if name != "return" and name[0] != "_"}


CASES = [(name, parameter) for name, function in FUNCTIONS.items() for parameter in _hints(function)]


def _example(hint: Any, account: MemoryAccount) -> Any:
    """A value that the annotation allows."""
    origin, of = typing.get_origin(hint), typing.get_args(hint)
    if origin in {typing.Union, types.UnionType, Annotated}:
        return _example(of[0], account)
    if origin is typing.Literal:
        return of[0]
    if origin is collections.abc.Callable:
        return lambda *_: None
    if origin is collections.abc.Mapping:
        return {_example(of[0], account): _example(of[1], account)}
    if origin is not None:
        return [_example(of[0], account)]
    if hint in {int, float, str, bool, Path, dt.datetime, dt.timedelta}:
        moment, day = dt.datetime(2026, 1, 1, tzinfo=dt.UTC), dt.timedelta(1)
        examples = {int: 20, float: 20.0, str: "box/x", bool: False, Path: Path("x")}
        return {**examples, dt.datetime: moment, dt.timedelta: day}[hint]
    if hint is Location:
        return Location.in_account(account, "box/x")
    if getattr(hint, "_is_protocol", False):
        return object.__new__(type("Implementation", (hint,), dict.fromkeys(hint.__annotations__)))
    return object.__new__(hint)


def _fits(value: Any, hint: Any) -> bool:
    """Whether an annotation allows a value of `VALUES`: written a second time, without a message."""
    origin, of = typing.get_origin(hint), typing.get_args(hint)
    if origin in {typing.Union, types.UnionType}:
        return any(_fits(value, each) for each in of)
    if origin is Annotated:
        return _in_range(value, of[0], of[1])
    if origin is typing.Literal:
        return isinstance(value, str) and value in of
    if origin is collections.abc.Callable:
        return callable(value)
    if origin is not None and issubclass(origin, collections.abc.Mapping):
        return isinstance(value, dict) and all(_fits(a, of[0]) and _fits(b, of[1]) for a, b in value.items())
    if origin is not None and issubclass(origin, collections.abc.Iterable):
        known: tuple[type, ...] = (list,) if origin is collections.abc.Sequence else (list, set)
        if origin is collections.abc.Iterable and isinstance(value, types.GeneratorType):
            return True
        return isinstance(value, known) and all(_fits(each, of[0]) for each in typing.cast("list[Any]", value))
    return _is_one(value, hint)


def _in_range(value: Any, hint: Any, rule: Any) -> bool:
    if isinstance(rule, OptionTexts):
        return isinstance(value, dict) and all(isinstance(each, str) for each in value)
    if not _fits(value, hint):
        return False
    return bool(value.strip()) if isinstance(rule, NotBlank) else hint(value) in rule


def _is_one(value: Any, hint: Any) -> bool:
    number = isinstance(value, (int, float, np.integer)) and not isinstance(value, bool)
    if hint in {Any, object} or isinstance(hint, typing.TypeVar):
        return True
    if hint is int:
        return (number and not isinstance(value, float)) or value == "5"
    if hint is float:
        return (number and np.isfinite(float(value))) or value in ("5", "1.5")
    if hint is bool:
        return isinstance(value, bool) or value == "TRUE"
    return not getattr(hint, "_is_protocol", False) and isinstance(value, hint)  # no value is an implementation


def _call(name: str, given: dict[str, Any], account: MemoryAccount) -> Any:
    """Call a public function, with examples for all other parameters that have no default."""
    function = FUNCTIONS[name]
    hints, parameters = _hints(function), inspect.signature(inspect.unwrap(function)).parameters
    arguments = {
        each: given.get(each, _example(hints.get(each, object), account))
        for each, parameter in parameters.items()
        if each in given or (parameter.default is inspect.Parameter.empty and each != "self")
    }
    several = any(parameter.kind is parameter.VAR_POSITIONAL for parameter in parameters.values())
    places = [
        each for each, parameter in parameters.items() if several and parameter.kind is not parameter.KEYWORD_ONLY
    ]
    own: list[Any] = [object()] if "self" in parameters and not inspect.isclass(function) else []
    return function(*own, *(arguments.pop(each) for each in places if each in arguments), **arguments)


def test_every_public_function_checks_its_arguments() -> None:
    unchecked = [
        name
        for name, function in FUNCTIONS.items()
        if not hasattr(function.__init__ if inspect.isclass(function) else function, "__wrapped__")
    ]
    assert [] == unchecked


@pytest.mark.parametrize(("name", "parameter"), CASES)
def test_a_wrong_argument_is_named_before_any_request(name: str, parameter: str) -> None:
    counting = Counting()
    account = MemoryAccount(intercept=counting)
    hint, refused = _hints(FUNCTIONS[name])[parameter], []
    for what, value in VALUES.items():
        if _fits(value, hint):
            continue
        with pytest.raises(ConfigurationError, match=rf"^Argument {parameter} of .+: give ") as raised:
            _call(name, {parameter: value}, account)
        assert what not in ("bytes", "an object") or repr(value) not in str(raised.value)
        refused.append(what)
    assert 0 == counting.requests
    assert refused or hint in {Any, object} or object in typing.get_args(hint)


@pytest.mark.parametrize(
    ("name", "parameter"),
    [(name, each) for name, each in CASES if name in WITHOUT_SPARK or is_dataclass(FUNCTIONS[name])],
)
def test_what_an_annotation_allows_ends_with_an_error_of_ours_at_most(name: str, parameter: str) -> None:
    account = MemoryAccount()
    hint = _hints(FUNCTIONS[name])[parameter]
    for value in VALUES.values():
        if _fits(value, hint):
            with suppress(AzureBlobError):
                _call(name, {parameter: value}, account)
