"""Commands that take their options as dataclasses, one field for each option."""

from __future__ import annotations

import inspect
from dataclasses import MISSING, Field, fields, is_dataclass
from functools import wraps
from typing import TYPE_CHECKING, Any, TypeVar, get_type_hints

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

_Result = TypeVar("_Result")


def grouped(command: Callable[..., _Result]) -> Callable[..., _Result]:
    """A command for typer, in which each parameter that is a dataclass stands for its fields.

    Annotations and defaults of a field are those of the option, as typer takes them of a parameter. No field may have
    the name of another parameter or field.
    """
    hints = get_type_hints(command, include_extras=True)
    signature = inspect.signature(command)
    groups = {name: hints[name] for name in signature.parameters if is_dataclass(hints.get(name))}
    parameters = [
        each
        for name, parameter in signature.parameters.items()
        for each in (
            _options(groups[name])
            if name in groups
            else [parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY, annotation=hints[name])]
        )
    ]

    @wraps(command)
    def run(**given: Any) -> _Result:
        for name, group in groups.items():
            given[name] = group(**{field.name: given.pop(field.name) for field in fields(group)})
        return command(**given)

    run.__signature__ = signature.replace(parameters=parameters)  # type: ignore[attr-defined]
    run.__annotations__ = {each.name: each.annotation for each in parameters} | {"return": hints.get("return")}
    return run


def _options(group: type[Any]) -> Iterator[inspect.Parameter]:
    hints = get_type_hints(group, include_extras=True)
    for field in fields(group):
        kind = inspect.Parameter.KEYWORD_ONLY
        yield inspect.Parameter(field.name, kind, default=_default(field), annotation=hints[field.name])


def _default(field: Field[Any]) -> Any:
    return inspect.Parameter.empty if field.default is MISSING else field.default
