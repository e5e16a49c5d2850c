"""What callers give to public functions, compared with the annotations of the parameters before anything is done.

    @checked
    def open_epoch(where: Location, epoch: Epoch) -> None: ...

    open_epoch(where, "5")      epoch is 5: a text that is a number is read, as the value of an option would be
    open_epoch(where, "five")   ConfigurationError: Argument epoch of open_epoch is 'five': give a whole number …

An annotation may be a class, a protocol (the argument has its methods), `Literal`, `Callable`, a mapping, a collection,
a union of them, or one of the ranges below. Its names are resolved at the first call, so the module imports them at run
time. What an annotation cannot say, such as two arguments that contradict each other, the function checks itself.

Long texts are not shown in errors, as they may be secrets.
"""

from __future__ import annotations

import functools
import inspect
import math
import operator
import types
import typing
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from numbers import Real
from pathlib import Path
from typing import Annotated, Any, TypeVar

from foundation.errors import ConfigurationError

F = TypeVar("F", bound=Callable[..., Any])

_SHOWN = 24
"""Characters. Account keys, tokens and connection strings are longer."""


@dataclass(frozen=True)
class Range:
    """Which numbers are possible: from `least` to `most`, both included unless `above`, which excludes `least`."""

    least: float
    most: float = math.inf
    above: bool = False
    unit: str = ""

    def __contains__(self, value: float) -> bool:
        return (value > self.least if self.above else value >= self.least) and value <= self.most

    def __str__(self) -> str:
        if self.above:
            limits = f"above {self.least:g}" + (f", at most {self.most}" if self.most < math.inf else "")
        elif self.most < math.inf:
            limits = f"from {self.least:g} to {self.most}"
        else:
            limits = f"of at least {self.least:g}"
        return f"{self.unit} {limits}".strip()


@dataclass(frozen=True)
class NotBlank:
    """Texts with a character that is no white space."""


@dataclass(frozen=True)
class OptionTexts:
    """Options by name, whose values become texts as `DataFrameReader.option` makes them: True is `true`."""


Count = Annotated[int, Range(1)]
Natural = Annotated[int, Range(0)]
Epoch = Natural
_LONGEST = 1_000_000_000
"""Seconds, 31 years: about the longest that times of today and waits of threads can be added to."""
Seconds = Annotated[float, Range(0, _LONGEST, above=True, unit="of seconds")]
Wait = Annotated[float, Range(0, _LONGEST, unit="of seconds")]
Name = Annotated[str, NotBlank()]
Options = Annotated[Mapping[str, str], OptionTexts()]


class _MisfitError(Exception):
    """The annotation does not allow the argument. wanted: what to give. part: which part of a collection is wrong."""

    def __init__(self, wanted: str, part: str = "") -> None:
        super().__init__(wanted, part)
        self.wanted, self.part = wanted, part


def checked(target: F) -> F:
    """Check all arguments of calls of a function, or of the constructor of a class.

    `ConfigurationError` for one that its annotation does not allow. Defaults are not checked, nor are parameters whose
    names begin with an underscore.
    """
    if isinstance(target, type):
        target.__init__ = checked(target.__init__)  # type: ignore[misc]
        return target
    return typing.cast("F", _checked_call(target, target.__qualname__.removesuffix(".__init__")))


def _checked_call(function: Callable[..., Any], shown: str) -> Callable[..., Any]:
    signature = inspect.signature(function)

    @functools.cache
    def hints() -> dict[str, Any]:
        return typing.get_type_hints(function, include_extras=True)

    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        try:
            bound = signature.bind(*args, **kwargs)
        except TypeError:
            return function(*args, **kwargs)  # an argument too many or too few: Python's own error names it
        for name, value in bound.arguments.items():
            hint = hints().get(name)
            if hint is None or name.startswith("_"):
                continue
            kind = signature.parameters[name].kind
            where = f"Argument {name} of {shown}"
            if kind is inspect.Parameter.VAR_POSITIONAL:
                bound.arguments[name] = tuple(_allowed(each, hint, where) for each in value)
            else:
                bound.arguments[name] = _allowed(value, hint, where)
        return function(*bound.args, **bound.kwargs)

    return call


def _allowed(value: Any, hint: Any, where: str) -> Any:
    try:
        return _fit(value, hint, read=True)
    except _MisfitError as misfit:
        raise ConfigurationError(f"{where} {misfit.part or f'is {shown(value)}'}: give {misfit.wanted}.") from None


def shown(value: object) -> str:
    """A value in a message. Of what may be a secret only its type is shown."""
    text = repr(value) if isinstance(value, int | float | str | None) else ""
    return text if 0 < len(text) <= _SHOWN else f"of type {type(value).__name__}"


def _fit(value: Any, hint: Any, *, read: bool) -> Any:
    """The value as the annotation has it. read: texts where numbers belong are read."""
    origin, of = typing.get_origin(hint), typing.get_args(hint)
    if hint in {Any, object} or isinstance(hint, TypeVar):
        return value
    if origin in {typing.Union, types.UnionType}:
        return _fit_one(value, of, read=read)
    if origin is Annotated:
        return _in_range(value, of[0], of[1], read=read)
    if origin is typing.Literal:
        words = ", ".join(map(repr, of[:-1]))
        _require(value in of if isinstance(value, str | int) else False, f"{words} or {of[-1]!r}")
        return value
    if origin is Callable:
        _require(callable(value), "a function")
        return value
    if isinstance(origin, type) and issubclass(origin, Mapping):
        return _fit_mapping(value, of, read=read)
    if isinstance(origin, type) and issubclass(origin, Iterable):
        return _fit_items(value, origin, of, read=read)
    return _fit_class(value, hint, read=read)


def _fit_one(value: Any, hints: Collection[Any], *, read: bool) -> Any:
    """The value as a type of a union has it, first one that fits unread: of `int | str` the text "5" stays a text."""
    misfits: list[_MisfitError] = []
    for reads in (False, True) if read else (False,):
        for hint in hints:
            try:
                return _fit(value, hint, read=reads)
            except _MisfitError as misfit:
                misfits.append(misfit)
    inner = next((misfit for misfit in misfits if misfit.part), None)
    wanted = dict.fromkeys(misfit.wanted for misfit in misfits if misfit.wanted != "None")
    raise inner or _MisfitError(" or ".join(wanted))


def _in_range(value: Any, hint: Any, rule: object, *, read: bool) -> Any:
    match rule:
        case NotBlank():
            _require(isinstance(value, str) and value.strip() != "", "a text that is not blank")
            return value
        case OptionTexts():
            _require(isinstance(value, Mapping), 'a dictionary such as {"accountName": "myaccount"}')
            return {_option_name(name): _option_text(name, each) for name, each in value.items()}
        case Range():
            number = "a whole number" if hint is int else "a number"
            try:
                found = _fit(value, hint, read=read)
            except _MisfitError:
                raise _MisfitError(f"{number} {rule}") from None
            _require(found in rule, f"{number} {rule}")
            return found
    return _fit(value, hint, read=read)


def _option_name(name: object) -> Any:
    return _fit_part(name, str, f"has the key {shown(name)}", read=False)


def _option_text(name: str, value: object) -> str:
    match value:
        case str():
            return value
        case bool():
            return str(value).lower()
        case int() | float() | Path():
            return str(value)
    raise _MisfitError("a text, or leave the option out", f"has for {name} the value {shown(value)}")


def _fit_mapping(value: Any, of: Collection[Any], *, read: bool) -> Any:
    _require(isinstance(value, Mapping), "a dictionary")
    if not of:
        return value
    key_hint, item_hint = of
    found = {}
    for key, each in value.items():
        _fit_part(key, key_hint, f"has the key {shown(key)}", read=False)
        found[key] = _fit_part(each, item_hint, f"has for {shown(key)} the value {shown(each)}", read=read)
    return value if all(found[key] is each for key, each in value.items()) else found


def _fit_items(value: Any, origin: type, of: Collection[Any], *, read: bool) -> Any:
    _require(isinstance(value, origin) and not isinstance(value, str | bytes | Mapping), "a list")
    if not of or not isinstance(value, Collection):
        return value
    hint = next(iter(of))
    found = [_fit_part(each, hint, f"has the item {shown(each)}", read=read) for each in value]
    same = all(one is other for one, other in zip(found, value, strict=True))
    return value if same else found


def _fit_part(value: Any, hint: Any, part: str, *, read: bool) -> Any:
    try:
        return _fit(value, hint, read=read)
    except _MisfitError as misfit:
        raise _MisfitError(misfit.wanted, part) from None


def _fit_class(value: Any, hint: Any, *, read: bool) -> Any:
    if hint is type(None):
        _require(value is None, "None")
        return value
    if hint in {int, float, bool}:
        return _fit_number(value, hint, read=read)
    if hint is str:
        _require(isinstance(value, str), "a text")
        return value
    if hint is Path:
        _require(hasattr(value, "__fspath__"), "a path")
        return value
    if isinstance(hint, type):
        _require(_is_one(value, hint), f"a {hint.__name__}")
    return value


def _fit_number(value: Any, hint: type, *, read: bool) -> Any:
    """A whole number, a finite one, or a Boolean. Booleans are no numbers, and numbers no Booleans."""
    wanted = {int: "a whole number", float: "a number", bool: "True or False"}[hint]
    try:
        if isinstance(value, str):
            _require(read, wanted)
            found = {"true": True, "false": False}[value.strip().lower()] if hint is bool else hint(value)
        elif hint is int and not isinstance(value, bool):
            found = operator.index(value)
        else:
            _require(isinstance(value, bool) if hint is bool else _is_real(value), wanted)
            found = value if isinstance(value, int | float) else float(value)  # of numpy, or a Decimal
        _require(hint is not float or math.isfinite(found), wanted)
    except (KeyError, OverflowError, TypeError, ValueError):
        raise _MisfitError(wanted) from None
    return found


def _is_real(value: object) -> bool:
    return isinstance(value, Real) and not isinstance(value, bool)


def _is_one(value: object, hint: type) -> bool:
    if getattr(hint, "_is_protocol", False):
        kind, own = type(value), getattr(value, "__dict__", {})  # its properties are not called
        return hasattr(kind, "__getattr__") or all(hasattr(kind, name) or name in own for name in _methods(hint))
    return isinstance(value, hint)


@functools.cache
def _methods(protocol: type) -> frozenset[str]:
    """The public members of a protocol and of those it extends."""
    parts = [each for each in protocol.__mro__ if getattr(each, "_is_protocol", False)]
    return frozenset(
        name for each in parts for name in (*vars(each), *getattr(each, "__annotations__", ())) if name[0] != "_"
    )


def _require(holds: bool, wanted: str) -> None:
    if not holds:
        raise _MisfitError(wanted)
